// What one recording holds: the chunks that threads fill, the threads, and the interned texts.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/clock.h"
#include "core/interner.h"
#include "core/lasting_format.h"
#include "core/memory_blocks.h"
#include "stepscope/lane.h"

namespace stepscope {

enum class Keep : uint8_t { kOldest, kNewest };

struct Limit {
  static constexpr uint64_t kAnyAge = UINT64_MAX;

  uint64_t bytes = 0;  // 0: none
  Keep keep = Keep::kOldest;
  // Of a ring: what ended longer ago falls off, kAnyAge where only the bytes count. 0: no ring.
  uint64_t age_ticks = 0;

  bool is_ring() const { return age_ticks != 0; }
  // What serves the windows of both.
  Limit joined(const Limit& other) const;
};

// Written by one thread, read by any: a record never changes once the cursor has passed it.
struct Chunk {
  // In memory that outlives the process, where the stream has some.
  Chunk(uint32_t generation, size_t records_wanted);
  // The same records in plain memory.
  Chunk(const Chunk& retired, size_t records_in_it);
  // Records that another process has left.
  explicit Chunk(std::span<const Record> records_before);
  ~Chunk();
  Chunk(const Chunk&) = delete;
  Chunk& operator=(const Chunk&) = delete;

  bool is_retired() const { return !cursor; }

  const uint64_t serial;  // that no other of the process has, but for a copy
  BlockHeader* lasting = nullptr;
  Record* records = nullptr;
  const size_t capacity;
  // Guarded by the recording's mutex.
  size_t ready = 0;            // how many records there is memory for
  size_t size = 0;             // once nobody fills it any more
  uint64_t retired_ticks = 0;  // since then nobody fills it: its records ended before
  Cursor* cursor = nullptr;    // of the thread that fills it

 private:
  void take_records();
};

// What the chunks of all recordings take of the process's memory.
uint64_t bytes_of_all_chunks();

// What is in a chunk at some moment.
struct ChunkView {
  std::shared_ptr<const Chunk> chunk;
  size_t size;
  bool is_retired = true;
};

// A range that has ended, as a program is watched while it records.
struct RecentRange {
  uint64_t start_ticks = 0;
  uint64_t end_ticks = 0;
  std::string name;
};

struct ThreadInfo {
  int64_t os_id = 0;
  uint32_t logical_id = 0;  // the framework's own number, 0 when it has none
  std::string name;
};

class Recording {
 public:
  Recording(uint32_t its_generation, Limit limit);

  uint32_t add_thread(ThreadInfo info);
  void set_logical_id(uint32_t thread, uint32_t logical_id);

  // Gives the cursor a new chunk; false if the limit allows none. Ranges may use a reserve beyond
  // the limit: they end late, and are worth more than the operators inside them.
  bool next_chunk(Cursor& cursor, bool use_reserve);

  // Retires the chunk of a cursor whose thread has ended.
  void retire(Cursor& cursor);
  // Retires the chunks of all threads, none of which may be inside.
  void retire_all();

  // Called when blocks begin to be recorded: counts blocks that earlier recordings saw as in use.
  void remember_blocks();
  // The last event of every block, of this recording or of an earlier one.
  ForgottenBlocks blocks_seen() const;
  bool has_blocks() const { return has_blocks_.load(std::memory_order_relaxed); }

  // Another window wants more; threads that were refused may ask again.
  void widen(Limit limit);
  // A window is gone. Only a ring takes less memory from now on.
  void narrow(Limit limit);
  uint32_t limits_set() const { return limits_set_.load(std::memory_order_relaxed); }

  // What a window lost: records dropped since it opened, and evicted ones that began in it.
  struct Watch {
    uint64_t start_ticks = 0;
    Limit limit;
    uint64_t lost = 0;
  };
  void watch(uint64_t window, Limit limit, uint64_t start_ticks);
  void unwatch(uint64_t window);

  // What a window sees at this moment, and what it has lost until then.
  struct View {
    Watch watch;
    std::vector<ChunkView> chunks;
    uint64_t whole_since = 0;    // of what began from then on, nothing was evicted
    MemoryBlocks blocks_before;  // that were in use where the chunks begin
  };
  View view(uint64_t window) const;
  // The chunks in which records may have ended since then; all since 0.
  std::vector<ChunkView> chunks_since(uint64_t ticks) const;
  // Give the lasting memory of a chunk back; what it holds is written to disk.
  void move_to_plain_memory(const ChunkView& view);
  std::vector<ThreadInfo> threads() const;
  TickMap tick_map() const;

  const uint32_t generation;
  Interner interner;
  Interner inputs;                   // the encoded inputs of operators
  std::atomic<uint64_t> dropped{0};  // records that found no room

 private:
  const Chunk* oldest_retired() const;
  bool evict_oldest();
  static ChunkView view_of(const std::shared_ptr<Chunk>& chunk);
  void evict_aged();
  using NewestFirst = std::deque<std::shared_ptr<Chunk>>::reverse_iterator;
  NewestFirst chunk_of(const Cursor& cursor);
  Chunk* retire_locked(NewestFirst place);

  mutable std::mutex mutex_;
  Limit limit_;
  TickMap tick_map_;
  uint64_t bytes_ = 0;
  uint64_t evicted_until_ticks_ = 0;
  std::atomic<uint32_t> limits_set_{0};
  std::deque<std::shared_ptr<Chunk>> chunks_;  // those nobody fills in the order of their ends
  std::vector<ThreadInfo> threads_;
  ForgottenBlocks forgotten_;
  std::atomic<bool> has_blocks_{false};
  std::unordered_map<uint64_t, Watch> watches_;  // by window; `lost` less the drops before it
};

}  // namespace stepscope
