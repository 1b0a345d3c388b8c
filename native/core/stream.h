// The stream of a process: what it records outlives it, whatever ends it.
//
// Lanes, open slices, chunks and a journal of all else (texts, threads, points of the clock) lie in
// files of a tmpfs, where they are written as if they were plain memory and need no saving. Without
// room there, a thread of the stream writes them to disk, some times a second. Threads that record
// do not wait for it.
#pragma once

#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/lasting_file.h"
#include "core/lasting_format.h"
#include "core/own_threads.h"
#include "core/segment_file.h"
#include "stepscope/record.h"

namespace stepscope {

struct ChunkView;
class Recording;

template <typename T>
std::string_view bytes_of(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

struct StreamPlaces {
  std::string memory;         // a folder of a tmpfs; "": none
  std::string disk;           // the file for what has no room there
  uint64_t memory_bytes = 0;  // the most that is taken of the tmpfs
  // Of a ring: how much of the journal is kept of what happened, 0: all of it.
  uint64_t ring_bytes = 0;
  int64_t ring_ns = 0;
};

class Stream {
 public:
  static Stream& instance();
  // The system's number of the thread that writes to disk; 0 without one. It is not the program's.
  static pid_t thread_id() { return thread_id_.load(std::memory_order_relaxed); }
  static bool is_on() { return on_.load(std::memory_order_relaxed); }

  // Begin; before that, nothing may have been recorded that is to last. Returns whether memory
  // lasts.
  bool start(const StreamPlaces& places);
  // Ends the stream in order: a reader of its files knows that they are complete.
  void stop();
  // End the thread for a while; the stream goes on without what it does now and then.
  void rest();
  void go_on();

  // Memory for a lane or open slices; null: plain memory will do.
  void* take(BlockKind kind, size_t bytes);
  void give_back(void* memory);

  // A block for a chunk; null: plain memory will do.
  BlockHeader* take_chunk(uint32_t generation, uint64_t serial, size_t capacity);
  void give_back_chunk(BlockHeader* block, uint64_t serial);

  // An entry of the journal: numbers, and up to two texts.
  template <typename Numbers>
  void note(Entry kind, const Numbers& numbers, std::string_view text = {},
            std::string_view second = {}) {
    static_assert(sizeof(Numbers) % 8 == 0);
    append(kind, {reinterpret_cast<const char*>(&numbers), sizeof(numbers)}, text, second);
  }
  void append(Entry kind, std::string_view first, std::string_view second, std::string_view third);

  // Why nothing can be written to disk; "" if it can.
  std::string obstacle() const;

  // For the thread that writes to disk, and for tests: write what does not last otherwise.
  void flush();

  // Called by the stream's thread some times a second, so that devices deliver what they have.
  void set_before_flush(void (*before_flush)()) { before_flush_ = before_flush; }

  // Called by the stream's thread every second; must not wait for any lock. Null: nothing is
  // called.
  void set_every_second(void (*every_second)()) { every_second_ = every_second; }

  // Records had to make room: all that began from `whole_since_ticks` on are still there. To be
  // called before their chunk is given back.
  void note_evicted(uint64_t records, uint64_t whole_since_ticks);
  // A record found no room.
  void note_dropped() { lost_.fetch_add(1, std::memory_order_relaxed); }
  // Whether a chunk would have no room in memory that lasts.
  bool is_full(size_t chunk_bytes) const;
  // Keep the last value of a name.
  void note_value(std::string_view name, std::string_view text);

  void hold_for_fork() { mutex_.lock(); }
  void release_after_fork() { mutex_.unlock(); }
  void leave_after_fork();

 private:
  Stream() = default;
  void loop();
  void stop_thread();
  bool flush_journal();
  bool flush_records(Recording& recording, const std::vector<ChunkView>& views,
                     bool memory_is_short);
  void forget_gone(const std::vector<ChunkView>& views);
  bool flush_open_slices(const std::vector<Record>& open, uint64_t now_ticks);
  void make_ready_ahead(std::unique_lock<std::mutex>& lock);
  bool is_short() const;
  void beat(uint64_t ticks);
  bool is_ring() const { return places_.ring_bytes != 0; }
  BlockHeader* take_journal(size_t bytes);
  BlockHeader*& journal_of(Entry kind);
  void retire_passing();
  void forget_blocks();

  static inline constinit std::atomic<bool> on_{false};
  static inline constinit std::atomic<pid_t> thread_id_{0};

  mutable std::mutex mutex_;
  std::condition_variable wake_;
  bool stopping_ = false;
  Worker worker_;
  LastingFile lanes_;
  LastingFile chunks_;
  StreamPlaces places_;
  BlockHeader* journal_ = nullptr;  // the block that is filled
  BlockHeader* passing_ = nullptr;  // the same for what a ring forgets
  struct Passed {
    BlockHeader* block;
    int64_t until_ns;
  };
  std::deque<Passed> passed_;
  uint64_t passed_bytes_ = 0;
  std::unordered_map<std::string, BlockHeader*> values_;  // where the last of each name stands
  uint64_t last_serial_ = 0;                              // of a block of the journal
  Pulse* pulse_ = nullptr;
  std::string pending_;             // of the journal: what has no room in lasting memory
  bool uses_plain_memory_ = false;  // of a chunk at least
  std::string obstacle_;
  std::atomic<uint64_t> lost_{0};
  uint64_t whole_since_ticks_ = 0;
  std::atomic<void (*)()> every_second_{nullptr};
  std::atomic<void (*)()> before_flush_{nullptr};

  std::mutex writing_;  // held while something is written to disk; never waited for by a recorder
  SegmentFile segments_;
  std::unordered_map<uint64_t, size_t> written_;  // records of a chunk, by its number
};

// Of several objects of a kind in a process, only the one that has the turn writes to the stream.
template <typename Kind>
class StreamTurn {
 public:
  StreamTurn() = default;
  StreamTurn(const StreamTurn&) = delete;
  StreamTurn& operator=(const StreamTurn&) = delete;
  ~StreamTurn() { end(); }

  // Takes the turn, if there is a stream and the turn is free. A forked child begins anew.
  void take() {
    const pid_t process = getpid();
    pid_t holder = taken_in_.load();
    if (!Stream::is_on() || holder == process) return;
    if (taken_in_.compare_exchange_strong(holder, process)) process_ = process;
  }
  bool is_mine() const { return process_ != 0; }
  void end() {
    if (process_ && process_ == getpid()) taken_in_ = 0;
    process_ = 0;
  }

 private:
  static inline std::atomic<pid_t> taken_in_{0};

  pid_t process_ = 0;
};

}  // namespace stepscope
