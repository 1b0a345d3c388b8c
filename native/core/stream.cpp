#include "core/stream.h"

#include <unistd.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstring>
#include <initializer_list>
#include <utility>
#include <vector>

#include "core/clock.h"
#include "core/read_clock.h"
#include "core/recorder.h"

namespace stepscope {
namespace {

constexpr auto kEvery = std::chrono::milliseconds(200);
constexpr int64_t kSecondNs = 1'000'000'000;
constexpr int64_t kDevicesEveryNs = kSecondNs / 2;
constexpr size_t kStackBytes = size_t{256} << 10;
constexpr size_t kFirstLanes = size_t{256} << 10;
constexpr size_t kFirstChunks = size_t{1} << 20;
constexpr uint64_t kMostLanes = uint64_t{256} << 20;
constexpr size_t kJournalBytes = size_t{64} << 10;
// From here on, chunks that are full move to disk, so that the next ones find room.
constexpr size_t kRoomForChunks = size_t{2} << 20;

void write_entry(char* at, const EntryHeader& header,
                 std::initializer_list<std::string_view> parts) {
  std::memcpy(at, &header, sizeof(header));
  at += sizeof(header);
  for (const std::string_view part : parts) {
    if (!part.empty()) std::memcpy(at, part.data(), part.size());
    at += part.size();
  }
  std::memset(at, 0, padded(header.bytes) - header.bytes);
}

// Entries that later ones do not need: a ring may drop them.
bool is_of_its_time(Entry kind) {
  switch (kind) {
    case Entry::kSamples:
    case Entry::kResident:
    case Entry::kDeviceRecords:
    case Entry::kPause:
    case Entry::kHeldBlock:
    case Entry::kReleased:
    case Entry::kPower:
    case Entry::kCounters:
      return true;
    default:
      return false;
  }
}

}  // namespace

Stream& Stream::instance() {
  static auto* const only = new Stream;  // threads may outlive static destructors
  return *only;
}

bool Stream::start(const StreamPlaces& places) {
  {
    const std::lock_guard lock(mutex_);
    if (is_on()) return lanes_.is_open();
    segments_.close();
    segments_.set_path(places.disk);
    places_ = places;
    written_.clear();
    pending_.clear();
    obstacle_.clear();
    uses_plain_memory_ = false;
    forget_blocks();
    lost_ = 0;
    whole_since_ticks_ = 0;
    if (!places.memory.empty()) {
      lanes_.open(places.memory + "/lanes", kFirstLanes, kMostLanes, LastingFile::InChild::kCopy);
      if (lanes_.is_open()) {
        chunks_.open(places.memory + "/chunks", kFirstChunks, places.memory_bytes,
                     LastingFile::InChild::kNothing);
        if (BlockHeader* const block = lanes_.take(BlockKind::kPulse, sizeof(Pulse)))
          pulse_ = block->payload<Pulse>();
      }
    }
    stopping_ = false;
    on_.store(true, std::memory_order_relaxed);
  }
  note(Entry::kSyncPoint, TickMap::loaded());
  const std::vector<std::string> types = Recorder::type_names();
  for (uint32_t i = 0; i < types.size(); ++i) {
    if (types[i].empty()) continue;
    note(Entry::kText, TextEntry{0, static_cast<uint32_t>(TextSpace::kTypes), i, 0}, types[i]);
  }
  if (!worker_.start<&Stream::loop>(this, kStackBytes)) {
    const std::lock_guard lock(mutex_);
    obstacle_ = "the system gives no further thread";
  }
  return lanes_.is_open();
}

void Stream::stop() {
  if (!is_on()) return;
  stop_thread();
  flush();
  note(Entry::kClosed, uint64_t{0});
  const std::lock_guard lock(mutex_);
  on_.store(false, std::memory_order_relaxed);
  forget_blocks();
  lanes_.close();
  chunks_.close();
  segments_.close();
}

// ---- memory

void* Stream::take(BlockKind kind, size_t bytes) {
  if (!is_on()) return nullptr;
  const std::lock_guard lock(mutex_);
  BlockHeader* const block = lanes_.take(kind, bytes);
  return block ? block + 1 : nullptr;
}

void Stream::give_back(void* memory) {
  const std::lock_guard lock(mutex_);
  lanes_.give_back(static_cast<BlockHeader*>(memory) - 1);
}

BlockHeader* Stream::take_chunk(uint32_t generation, uint64_t serial, size_t capacity) {
  if (!is_on()) return nullptr;
  const std::lock_guard lock(mutex_);
  BlockHeader* const block = chunks_.take(BlockKind::kChunk, capacity * sizeof(Record));
  if (chunks_.is_open() && (chunks_.wants_ahead() || is_short())) wake_.notify_one();
  if (!block) {
    uses_plain_memory_ = true;
    return nullptr;
  }
  block->generation = generation;
  block->capacity = static_cast<uint32_t>(capacity);
  block->serial = serial;
  return block;
}

// In a forked child, another block may lie where one of its parent's was.
void Stream::give_back_chunk(BlockHeader* block, uint64_t serial) {
  const std::lock_guard lock(mutex_);
  if (!chunks_.has(block) || block->magic != kBlockMagic || block->serial != serial) return;
  chunks_.give_back(block);
}

bool Stream::is_short() const { return chunks_.is_short_of(kRoomForChunks); }

bool Stream::is_full(size_t chunk_bytes) const {
  const std::lock_guard lock(mutex_);
  return chunks_.is_open() && chunks_.is_short_of(chunk_bytes + kJournalBytes);
}

void Stream::note_evicted(uint64_t records, uint64_t whole_since_ticks) {
  const std::lock_guard lock(mutex_);
  lost_.fetch_add(records, std::memory_order_relaxed);
  whole_since_ticks_ = std::max(whole_since_ticks_, whole_since_ticks);
  if (!pulse_) return;
  pulse_->whole_since_ticks = whole_since_ticks_;
  pulse_->lost = lost_.load(std::memory_order_relaxed);
}

// ---- the journal
//
// A ring forgets what happened, in blocks: their entries fall off with the records of that time.

void Stream::forget_blocks() {
  journal_ = nullptr;
  passing_ = nullptr;
  pulse_ = nullptr;
  passed_.clear();
  passed_bytes_ = 0;
  values_.clear();
}

BlockHeader* Stream::take_journal(size_t bytes) {
  // One that was given back is used again if it has the size.
  BlockHeader* const block = chunks_.take(BlockKind::kJournal, std::bit_ceil(bytes));
  if (!block) return nullptr;
  block->capacity = static_cast<uint32_t>(std::bit_ceil(bytes));
  block->serial = ++last_serial_;
  return block;
}

BlockHeader*& Stream::journal_of(Entry kind) {
  return is_ring() && is_of_its_time(kind) ? passing_ : journal_;
}

void Stream::retire_passing() {
  const int64_t now_ns = Clock::now_ns();
  passed_.push_back({passing_, now_ns});
  passed_bytes_ += passing_->capacity;
  passing_ = nullptr;
  const auto has_fallen_off = [&](const Passed& passed) {
    return passed_bytes_ > places_.ring_bytes ||
           (places_.ring_ns && passed.until_ns < now_ns - places_.ring_ns);
  };
  while (!passed_.empty() && has_fallen_off(passed_.front())) {
    passed_bytes_ -= passed_.front().block->capacity;
    chunks_.give_back(passed_.front().block);
    passed_.pop_front();
  }
}

void Stream::note_value(std::string_view name, std::string_view text) {
  if (!is_on()) return;
  const MetaEntry entry{static_cast<uint32_t>(name.size()), 0};
  const std::string_view numbers{reinterpret_cast<const char*>(&entry), sizeof(entry)};
  const size_t size = numbers.size() + name.size() + text.size();
  const EntryHeader header{static_cast<uint32_t>(Entry::kMeta), static_cast<uint32_t>(size)};
  const size_t whole = sizeof(header) + padded(size);
  const std::lock_guard lock(mutex_);
  BlockHeader* const block = take_journal(whole);
  if (block) {
    write_entry(block->payload<char>(), header, {numbers, name, text});
    __atomic_store_n(&block->size, static_cast<uint32_t>(whole), __ATOMIC_RELEASE);
  } else {
    const size_t before = pending_.size();
    pending_.resize(before + whole);
    write_entry(pending_.data() + before, header, {numbers, name, text});
  }
  BlockHeader*& last = values_[std::string(name)];
  if (BlockHeader* const replaced = std::exchange(last, block)) chunks_.give_back(replaced);
}

void Stream::append(Entry kind, std::string_view first, std::string_view second,
                    std::string_view third) {
  if (!is_on()) return;
  const size_t size = first.size() + second.size() + third.size();
  const EntryHeader header{static_cast<uint32_t>(kind), static_cast<uint32_t>(size)};
  const size_t whole = sizeof(header) + padded(size);
  const std::lock_guard lock(mutex_);
  BlockHeader*& journal = journal_of(kind);
  if (!journal || journal->size + whole > journal->capacity) {
    if (&journal == &passing_ && passing_) retire_passing();
    journal = take_journal(std::max(kJournalBytes, whole));
  }
  if (journal) {
    write_entry(journal->payload<char>() + journal->size, header, {first, second, third});
    // Only what is complete is counted.
    __atomic_store_n(&journal->size, static_cast<uint32_t>(journal->size + whole),
                     __ATOMIC_RELEASE);
    return;
  }
  const size_t before = pending_.size();
  pending_.resize(before + whole);
  write_entry(pending_.data() + before, header, {first, second, third});
}

// ---- the thread

void Stream::stop_thread() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_one();
  worker_.join();
}

void Stream::rest() {
  if (is_on()) stop_thread();
}

void Stream::go_on() {
  if (!is_on()) return;
  {
    const std::lock_guard lock(mutex_);
    stopping_ = false;
  }
  worker_.start<&Stream::loop>(this, kStackBytes);
}

void Stream::loop() {
  thread_id_ = gettid();
  int64_t due_ns = 0;
  int64_t devices_due_ns = 0;
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    wake_.wait_for(lock, kEvery);
    make_ready_ahead(lock);
    lock.unlock();
    const int64_t now_ns = monotonic_ns();
    void (*const tell)() = every_second_.load();
    if (tell && now_ns >= due_ns) {
      due_ns = now_ns + kSecondNs;
      tell();
    }
    if (void (*const before)() = before_flush_.load(); before && now_ns >= devices_due_ns) {
      devices_due_ns = now_ns + kDevicesEveryNs;
      before();
    }
    flush();
    lock.lock();
  }
}

void Stream::make_ready_ahead(std::unique_lock<std::mutex>& lock) {
  if (!chunks_.begin_ahead()) return;
  lock.unlock();
  const bool is_filled = chunks_.fill_ahead();
  lock.lock();
  chunks_.end_ahead(is_filled);
}

void Stream::beat(uint64_t ticks) {
  const int64_t now_ns = Clock::now_ns();
  const std::lock_guard lock(mutex_);
  if (pulse_) *pulse_ = {ticks, now_ns, lost_.load(std::memory_order_relaxed), whole_since_ticks_};
}

// Records are looked at before the journal is taken: what they refer to was noted before them.
void Stream::flush() {
  const std::lock_guard writing(writing_);
  if (!is_on()) return;
  const uint64_t now_ticks = Clock::ticks();
  beat(now_ticks);
  bool memory_is_short = false;
  bool all_lasts = false;
  bool lanes_last = false;
  {
    const std::lock_guard lock(mutex_);
    // A ring makes room by what is oldest: a disk has no end of it.
    memory_is_short = chunks_.is_open() && !is_ring() && is_short();
    lanes_last = lanes_.is_open();
    all_lasts = lanes_last && !memory_is_short && !uses_plain_memory_ && pending_.empty();
  }
  if (all_lasts) return;
  const std::shared_ptr<Recording> recording = Recorder::instance().current();
  std::vector<ChunkView> views;
  std::vector<Record> open;
  if (recording) {
    note(Entry::kSyncPoint, SyncPoint::now());
    if (!lanes_last) open = ThreadState::open_slices(recording->generation, now_ticks);
    views = recording->chunks_since(0);
  }
  Inside::order_with_others();
  const bool is_written = flush_journal() &&
                          (!recording || flush_records(*recording, views, memory_is_short)) &&
                          (lanes_last || flush_open_slices(open, now_ticks));
  const std::lock_guard lock(mutex_);
  obstacle_ = is_written ? "" : segments_.obstacle();
}

bool Stream::flush_journal() {
  std::string journal;
  {
    const std::lock_guard lock(mutex_);
    std::swap(journal, pending_);
  }
  if (journal.empty() || segments_.write(FrameKind::kJournal, journal)) return true;
  const std::lock_guard lock(mutex_);
  pending_.insert(0, journal);  // for the next time
  return false;
}

bool Stream::flush_records(Recording& recording, const std::vector<ChunkView>& views,
                           bool memory_is_short) {
  forget_gone(views);
  for (const ChunkView& view : views) {
    const Chunk& chunk = *view.chunk;
    if (chunk.lasting && !(memory_is_short && view.is_retired)) continue;
    size_t& written = written_[chunk.serial];
    if (written < view.size) {
      const size_t count = view.size - written;
      const RecordsHeader header{chunk.serial, recording.generation, static_cast<uint32_t>(written),
                                 static_cast<uint32_t>(count), 0};
      const std::string_view records(reinterpret_cast<const char*>(chunk.records + written),
                                     count * sizeof(Record));
      if (!segments_.write(FrameKind::kRecords,
                           {reinterpret_cast<const char*>(&header), sizeof(header)}, records)) {
        return false;
      }
      written = view.size;
    }
    if (chunk.lasting) recording.move_to_plain_memory(view);
  }
  return true;
}

// Chunks come and go for as long as the newest are kept.
void Stream::forget_gone(const std::vector<ChunkView>& views) {
  if (written_.size() <= 2 * views.size()) return;
  std::unordered_map<uint64_t, size_t> there;
  for (const ChunkView& view : views) {
    const auto place = written_.find(view.chunk->serial);
    if (place != written_.end()) there.insert(*place);
  }
  written_ = std::move(there);
}

bool Stream::flush_open_slices(const std::vector<Record>& open, uint64_t now_ticks) {
  const Pulse now{now_ticks, Clock::now_ns(), lost_.load(std::memory_order_relaxed), 0};
  return segments_.write(FrameKind::kOpenSlices, {reinterpret_cast<const char*>(&now), sizeof(now)},
                         bytes_of(open));
}

std::string Stream::obstacle() const {
  const std::lock_guard lock(mutex_);
  return obstacle_;
}

// The thread does not exist in the child, and its files are the parent's.
void Stream::leave_after_fork() {
  on_.store(false, std::memory_order_relaxed);
  every_second_ = nullptr;
  thread_id_ = 0;
  before_flush_ = nullptr;
  worker_ = {};
  stopping_ = false;
  journal_ = nullptr;
  passing_ = nullptr;
  pulse_ = nullptr;
  lanes_.leave_after_fork();
  chunks_.leave_after_fork();
  segments_.close();
  new (&segments_) SegmentFile;
  new (&writing_) std::mutex;
  new (&wake_) std::condition_variable;
  new (&pending_) std::string;
  new (&written_) std::unordered_map<uint64_t, size_t>;
  new (&passed_) std::deque<Passed>;
  new (&values_) std::unordered_map<std::string, BlockHeader*>;
  new (&places_) StreamPlaces;
  mutex_.unlock();
}

}  // namespace stepscope
