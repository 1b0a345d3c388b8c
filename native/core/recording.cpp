#include "core/recording.h"

#include <algorithm>

namespace stepscope {
namespace {

// A thread that records little takes little; one that records much takes the lock seldom.
constexpr size_t kFirstChunkRecords = 256;
constexpr size_t kLargestChunkRecords = 4096;

constexpr uint64_t kReserveShare = 8;

}  // namespace

uint32_t Recording::add_thread(ThreadInfo info) {
  const std::lock_guard lock(mutex_);
  threads_.push_back(std::move(info));
  return static_cast<uint32_t>(threads_.size() - 1);
}

void Recording::set_logical_id(uint32_t thread, uint32_t logical_id) {
  const std::lock_guard lock(mutex_);
  threads_[thread].logical_id = logical_id;
}

Chunk* Recording::next_chunk(Chunk* full, bool use_reserve) {
  const size_t capacity =
      full ? std::min(full->capacity * 2, kLargestChunkRecords) : kFirstChunkRecords;
  const uint64_t bytes = capacity * sizeof(Record);
  const std::lock_guard lock(mutex_);
  if (full) full->retired = true;
  tick_map_.add_if_due();
  if (limit_.bytes) {
    const uint64_t allowed = limit_.bytes + (use_reserve ? limit_.bytes / kReserveShare : 0);
    if (limit_.keep == Keep::kNewest) {
      while (bytes_ + bytes > allowed && evict_oldest()) {
      }
    } else if (bytes_ + bytes > allowed) {
      return nullptr;
    }
  }
  bytes_ += bytes;
  return chunks_.emplace_back(std::make_shared<Chunk>(capacity)).get();
}

// Chunks that threads still fill stay: when there are only those, the limit is too small for them.
bool Recording::evict_oldest() {
  const auto oldest = std::find_if(chunks_.begin(), chunks_.end(),
                                   [](const auto& chunk) { return chunk->retired; });
  if (oldest == chunks_.end()) return false;
  evicted_ += (*oldest)->size.load();
  bytes_ -= (*oldest)->capacity * sizeof(Record);
  chunks_.erase(oldest);
  return true;
}

void Recording::retire(Chunk* chunk) {
  const std::lock_guard lock(mutex_);
  chunk->retired = true;
}

void Recording::widen(Limit limit) {
  const std::lock_guard lock(mutex_);
  if (limit_.bytes == 0) return;
  if (limit.bytes == 0 || limit.bytes > limit_.bytes) limit_ = limit;
}

Limit Recording::limit() const {
  const std::lock_guard lock(mutex_);
  return limit_;
}

std::vector<std::shared_ptr<const Chunk>> Recording::chunks() const {
  const std::lock_guard lock(mutex_);
  return {chunks_.begin(), chunks_.end()};
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
