// What one recording holds: the chunks that threads fill, the threads, and the interned texts.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "core/clock.h"
#include "core/interner.h"
#include "core/record.h"

namespace stepscope {

enum class Keep : uint8_t { kOldest, kNewest };

struct Limit {
  uint64_t bytes = 0;  // 0: none
  Keep keep = Keep::kOldest;
};

// Written by one thread, read by any: a record never changes once size counts it.
struct Chunk {
  explicit Chunk(size_t records_wanted)
      : records(std::make_unique_for_overwrite<Record[]>(records_wanted)),
        capacity(records_wanted) {}

  std::unique_ptr<Record[]> records;
  const size_t capacity;
  std::atomic<size_t> size{0};
  bool retired = false;  // its thread has gone on to another; guarded by the recording's mutex
};

struct ThreadInfo {
  int64_t os_id = 0;
  uint32_t logical_id = 0;  // the framework's own number, 0 when it has none
  std::string name;
};

class Recording {
 public:
  Recording(uint32_t its_generation, Limit limit) : generation(its_generation), limit_(limit) {}

  uint32_t add_thread(ThreadInfo info);
  void set_logical_id(uint32_t thread, uint32_t logical_id);

  // A chunk to go on with after a full one (or none yet); null when the limit says no. Ranges may
  // use a reserve beyond the limit: a step or a user's range ends late, and is worth more than the
  // operators that it encloses.
  Chunk* next_chunk(Chunk* full, bool use_reserve);

  // The chunk's thread is gone: nobody fills it any more.
  void retire(Chunk* chunk);

  // Another window wants more.
  void widen(Limit limit);

  Limit limit() const;
  uint64_t lost() const { return dropped.load() + evicted_.load(); }
  std::vector<std::shared_ptr<const Chunk>> chunks() const;
  std::vector<ThreadInfo> threads() const;
  TickMap tick_map() const;

  // The one being recorded, null when nothing records. A thread may use it only while Inside.
  static inline std::atomic<Recording*> active{nullptr};

  const uint32_t generation;
  Interner interner;
  std::atomic<uint64_t> dropped{0};  // records that found no room

 private:
  bool evict_oldest();

  mutable std::mutex mutex_;
  Limit limit_;
  TickMap tick_map_;
  uint64_t bytes_ = 0;
  std::deque<std::shared_ptr<Chunk>> chunks_;
  std::vector<ThreadInfo> threads_;
  std::atomic<uint64_t> evicted_{0};
};

}  // namespace stepscope
