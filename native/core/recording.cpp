#include "core/recording.h"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <memory>
#include <utility>

#include "core/own_pages.h"
#include "core/stream.h"

namespace stepscope {
namespace {

// A thread that records little takes little; one that records much takes the lock seldom.
constexpr size_t kFirstChunkRecords = 256;
constexpr size_t kLargestChunkRecords = 4096;

// The kernel is asked for the pages of this many records at a time. A page fault inside an operator
// costs ten times as much as a page that comes with others; all pages of a large chunk at once
// would be a pause that shows in the recording.
constexpr size_t kReadyRecords = 1024;

constexpr uint64_t kReserveShare = 8;

// A limited recording takes chunks that are small beside its limit: the last one that fits leaves
// little room unused, and the oldest one takes little along when it goes.
constexpr uint64_t kLimitShare = 16;
constexpr size_t kSmallestChunkRecords = 16;

// Records of chunks that are gone, for the next recording: memory that the kernel has handed out
// before needs no page fault. The first word tells how many of them are ready. Without a lock, so
// that a fork cannot leave it taken.
constinit std::array<std::atomic<Record*>, 32> spare_records{};

struct Room {
  Record* records;
  size_t ready;
};

Room take_room(size_t capacity) {
  if (capacity != kLargestChunkRecords) {
    return {std::make_unique_for_overwrite<Record[]>(capacity).release(), capacity};
  }
  for (auto& spare : spare_records) {
    if (!spare.load(std::memory_order_relaxed)) continue;
    Room room{spare.exchange(nullptr), 0};
    if (!room.records) continue;
    std::memcpy(&room.ready, room.records, sizeof(room.ready));
    return room;
  }
  return {static_cast<Record*>(OwnPages::instance().allocate(capacity * sizeof(Record))), 0};
}

void give_back(const Room& room, size_t capacity) {
  if (capacity != kLargestChunkRecords) {
    delete[] room.records;
    return;
  }
  std::memcpy(static_cast<void*>(room.records), &room.ready, sizeof(room.ready));
  for (auto& spare : spare_records) {
    Record* none = nullptr;
    if (spare.compare_exchange_strong(none, room.records)) return;
  }
  OwnPages::instance().deallocate(room.records, capacity * sizeof(Record));
}

std::atomic<uint64_t> last_serial{0};
std::atomic<uint64_t> bytes_in_chunks{0};

size_t next_capacity(const Chunk* full, uint64_t limit_bytes, bool use_reserve) {
  if (use_reserve) return kSmallestChunkRecords;
  size_t wanted = kFirstChunkRecords;
  if (full) wanted = full->capacity < kReadyRecords ? full->capacity * 2 : kLargestChunkRecords;
  if (limit_bytes == 0) return wanted;
  const auto share = static_cast<size_t>(limit_bytes / kLimitShare / sizeof(Record));
  return std::clamp(share, kSmallestChunkRecords, wanted);
}

// Makes the next records of a chunk ready for its cursor; false if the chunk is full.
bool make_ready(Chunk& chunk, Cursor& cursor) {
  const auto filled = static_cast<size_t>(cursor.next.load() - chunk.records);
  if (filled == chunk.capacity) return false;
  if (filled == chunk.ready) {
    madvise(chunk.records + filled, kReadyRecords * sizeof(Record), kPopulateWrite);
    chunk.ready += kReadyRecords;
  }
  cursor.end = chunk.records + chunk.ready;
  return true;
}

void retire_chunk(Chunk& chunk) {
  Cursor& cursor = *std::exchange(chunk.cursor, nullptr);
  chunk.size = static_cast<size_t>(cursor.next.load() - chunk.records);
  chunk.retired_ticks = Clock::ticks();
  if (chunk.lasting) chunk.lasting->size = static_cast<uint32_t>(chunk.size);
  // A reader after our death must find the size before the cursor moves on.
  std::atomic_signal_fence(std::memory_order_release);
  cursor.next = cursor.end = nullptr;
}

}  // namespace

Limit Limit::joined(const Limit& other) const {
  const bool is_more = bytes != 0 && (other.bytes == 0 || other.bytes > bytes);
  Limit both = is_more ? other : *this;
  both.age_ticks = is_ring() && other.is_ring() ? std::max(age_ticks, other.age_ticks) : 0;
  return both;
}

Chunk::Chunk(uint32_t generation, size_t records_wanted)
    : serial(last_serial.fetch_add(1, std::memory_order_relaxed) + 1), capacity(records_wanted) {
  if (Stream::is_on()) lasting = Stream::instance().take_chunk(generation, serial, capacity);
  take_records();
}

Chunk::Chunk(const Chunk& retired, size_t records_in_it)
    : serial(retired.serial),
      capacity(retired.capacity),
      size(records_in_it),
      retired_ticks(retired.retired_ticks) {
  take_records();
  std::memcpy(static_cast<void*>(records), retired.records, size * sizeof(Record));
}

Chunk::Chunk(std::span<const Record> records_before)
    : serial(0), capacity(records_before.size()), size(records_before.size()) {
  take_records();
  if (size) std::memcpy(static_cast<void*>(records), records_before.data(), size * sizeof(Record));
}

void Chunk::take_records() {
  const Room room = lasting ? Room{lasting->payload<Record>(), capacity} : take_room(capacity);
  records = room.records;
  ready = room.ready;
  bytes_in_chunks.fetch_add(capacity * sizeof(Record), std::memory_order_relaxed);
}

uint64_t bytes_of_all_chunks() { return bytes_in_chunks.load(std::memory_order_relaxed); }

Chunk::~Chunk() {
  bytes_in_chunks.fetch_sub(capacity * sizeof(Record), std::memory_order_relaxed);
  if (lasting) {
    Stream::instance().give_back_chunk(lasting, serial);
  } else {
    give_back({records, ready}, capacity);
  }
}

Recording::Recording(uint32_t its_generation, Limit limit)
    : generation(its_generation),
      interner(its_generation, TextSpace::kLabels),
      inputs(its_generation, TextSpace::kInputs),
      limit_(limit) {}

uint32_t Recording::add_thread(ThreadInfo info) {
  const std::lock_guard lock(mutex_);
  const auto number = static_cast<uint32_t>(threads_.size());
  if (Stream::is_on()) {
    Stream::instance().note(Entry::kThread, ThreadEntry{generation, number, info.os_id}, info.name);
  }
  threads_.push_back(std::move(info));
  return number;
}

void Recording::set_logical_id(uint32_t thread, uint32_t logical_id) {
  const std::lock_guard lock(mutex_);
  threads_[thread].logical_id = logical_id;
  if (Stream::is_on()) {
    Stream::instance().note(Entry::kLogicalId, LogicalIdEntry{generation, thread, logical_id, 0});
  }
}

bool Recording::next_chunk(Cursor& cursor, bool use_reserve) {
  const std::lock_guard lock(mutex_);
  tick_map_.add_if_due();
  const auto filled = chunk_of(cursor);
  if (filled != chunks_.rend() && make_ready(**filled, cursor)) return true;
  const size_t capacity = next_capacity(retire_locked(filled), limit_.bytes, use_reserve);
  const uint64_t bytes = capacity * sizeof(Record);
  if (limit_.is_ring()) {
    evict_aged();
    while (Stream::is_on() && Stream::instance().is_full(bytes) && evict_oldest()) {
    }
  }
  if (limit_.bytes) {
    const uint64_t allowed = limit_.bytes + (use_reserve ? limit_.bytes / kReserveShare : 0);
    if (limit_.keep == Keep::kNewest) {
      while (bytes_ + bytes > allowed && evict_oldest()) {
      }
    } else if (bytes_ + bytes > allowed) {
      return false;
    }
  }
  bytes_ += bytes;
  Chunk& chunk = *chunks_.emplace_back(std::make_shared<Chunk>(generation, capacity));
  chunk.cursor = &cursor;
  if (chunk.lasting) {
    chunk.lasting->cursor = reinterpret_cast<uint64_t>(&cursor);
    chunk.lasting->size = kStillFilled;
    std::atomic_signal_fence(std::memory_order_release);
  }
  cursor.next = chunk.records;
  return make_ready(chunk, cursor);
}

// Chunks that threads still fill stay: when there are only those, the limit is too small for them.
const Chunk* Recording::oldest_retired() const {
  const auto oldest = std::find_if(chunks_.begin(), chunks_.end(),
                                   [](const auto& chunk) { return !chunk->cursor; });
  return oldest == chunks_.end() ? nullptr : oldest->get();
}

bool Recording::evict_oldest() {
  const Chunk* const oldest = oldest_retired();
  if (!oldest) return false;
  uint64_t of_first_window = 0;
  for (size_t i = 0; i < oldest->size; ++i) {
    if (oldest->records[i].kind == Kind::kBlock) forgotten_.note(oldest->records[i]);
  }
  for (auto& [window, watch] : watches_) {
    const auto records = std::span(oldest->records, oldest->size);
    const auto lost = static_cast<uint64_t>(std::count_if(
        records.begin(), records.end(),
        [&](const Record& record) { return record.start_ticks >= watch.start_ticks; }));
    watch.lost += lost;
    of_first_window = std::max(of_first_window, lost);
  }
  bytes_ -= oldest->capacity * sizeof(Record);
  evicted_until_ticks_ = std::max(evicted_until_ticks_, oldest->retired_ticks);
  if (Stream::is_on()) Stream::instance().note_evicted(of_first_window, evicted_until_ticks_);
  chunks_.erase(std::find_if(chunks_.begin(), chunks_.end(),
                             [&](const auto& chunk) { return chunk.get() == oldest; }));
  return true;
}

void Recording::evict_aged() {
  const uint64_t now = Clock::ticks();
  const uint64_t since = now - std::min(limit_.age_ticks, now);
  const Chunk* oldest = oldest_retired();
  while (oldest && oldest->retired_ticks < since && evict_oldest()) oldest = oldest_retired();
  tick_map_.forget_before(evicted_until_ticks_);
}

void Recording::retire(Cursor& cursor) {
  const std::lock_guard lock(mutex_);
  retire_locked(chunk_of(cursor));
}

void Recording::retire_all() {
  const std::lock_guard lock(mutex_);
  for (const auto& chunk : chunks_) {
    if (chunk->cursor) retire_chunk(*chunk);
  }
}

void Recording::remember_blocks() {
  const std::lock_guard lock(mutex_);
  if (!has_blocks_.exchange(true)) forgotten_.note_all(BlocksLeft::instance().copy());
}

ForgottenBlocks Recording::blocks_seen() const {
  const std::lock_guard lock(mutex_);
  ForgottenBlocks seen = forgotten_;
  for (const auto& chunk : chunks_) {
    for (size_t i = 0; i < chunk->size; ++i) {
      if (chunk->records[i].kind == Kind::kBlock) seen.note(chunk->records[i]);
    }
  }
  return seen;
}

// Searched from the newest: it is usually that.
Recording::NewestFirst Recording::chunk_of(const Cursor& cursor) {
  return std::find_if(chunks_.rbegin(), chunks_.rend(),
                      [&](const auto& chunk) { return chunk->cursor == &cursor; });
}

Chunk* Recording::retire_locked(NewestFirst place) {
  if (place == chunks_.rend()) return nullptr;
  // One that was filled slowly holds newer records than those that were begun after it.
  const std::shared_ptr<Chunk> chunk = std::move(*place);
  retire_chunk(*chunk);
  chunks_.erase(std::next(place).base());
  chunks_.push_back(chunk);
  return chunk.get();
}

void Recording::widen(Limit limit) {
  const std::lock_guard lock(mutex_);
  const Limit both = limit_.joined(limit);
  const bool is_more = both.bytes != limit_.bytes;
  limit_ = both;
  if (is_more) limits_set_.fetch_add(1, std::memory_order_relaxed);
}

void Recording::narrow(Limit limit) {
  const std::lock_guard lock(mutex_);
  if (limit.is_ring()) limit_ = limit;
}

void Recording::watch(uint64_t window, Limit limit, uint64_t start_ticks) {
  const std::lock_guard lock(mutex_);
  watches_[window] = {start_ticks, limit, 0 - dropped.load()};
  if (Stream::is_on()) {
    Stream::instance().note(Entry::kWindow,
                            WindowEntry{generation, static_cast<uint32_t>(limit.keep), window,
                                        start_ticks, limit.bytes, limit.age_ticks});
  }
}

void Recording::unwatch(uint64_t window) {
  const std::lock_guard lock(mutex_);
  watches_.erase(window);
}

Recording::View Recording::view(uint64_t window) const {
  const std::lock_guard lock(mutex_);
  View view{watches_.at(window), {}, evicted_until_ticks_, forgotten_.in_use()};
  view.watch.lost += dropped.load();
  for (const auto& chunk : chunks_) view.chunks.push_back(view_of(chunk));
  return view;
}

std::vector<ChunkView> Recording::chunks_since(uint64_t ticks) const {
  const std::lock_guard lock(mutex_);
  std::vector<ChunkView> views;
  for (const auto& chunk : chunks_) {
    if (chunk->cursor || chunk->retired_ticks >= ticks) views.push_back(view_of(chunk));
  }
  return views;
}

ChunkView Recording::view_of(const std::shared_ptr<Chunk>& chunk) {
  const Record* const first = chunk->records;
  const size_t size =
      chunk->cursor ? static_cast<size_t>(chunk->cursor->next.load() - first) : chunk->size;
  return {chunk, size, chunk->is_retired()};
}

void Recording::move_to_plain_memory(const ChunkView& view) {
  auto copy = std::make_shared<Chunk>(*view.chunk, view.size);
  std::shared_ptr<Chunk> old;
  const std::lock_guard lock(mutex_);
  const auto place = std::find(chunks_.begin(), chunks_.end(), view.chunk);
  if (place != chunks_.end()) old = std::exchange(*place, std::move(copy));
}

TickMap Recording::tick_map() const {
  const std::lock_guard lock(mutex_);
  return tick_map_.closed();
}

std::vector<ThreadInfo> Recording::threads() const {
  const std::lock_guard lock(mutex_);
  return threads_;
}

}  // namespace stepscope
