// What a thread owns while it records, and how others know that it is not inside the recorder.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

#include "core/interner.h"
#include "core/record.h"
#include "core/recording.h"
#include "core_api.h"

namespace stepscope {

// A slice that has begun and not ended. They are pooled and never freed.
struct OpenSlice : stepscope_open_slice {
  Record record{};
  std::atomic<uint64_t> stamp{0};  // unique while open, 0 while free
  uint32_t generation = 0;
  OpenSlice* next_free = nullptr;
};

struct ThreadState {
  // Null when the thread is already shutting down.
  static ThreadState* current() {
    if (mine_) [[likely]]
      return mine_;
    return attach();
  }

  // Wait until no thread is inside the recorder with what it saw before the call.
  static void wait_until_none_is_inside();

  // Copies of the slices that are open in a generation.
  static std::vector<Record> open_slices(uint32_t generation);

  static void hold_all_for_fork();
  static void release_all_after_fork();
  static void forget_others_after_fork();

  OpenSlice* take_slice() {
    if (!free_slices) [[unlikely]]
      grow();
    OpenSlice* slice = free_slices;
    free_slices = slice->next_free;
    return slice;
  }
  void give_slice(OpenSlice* slice) {
    slice->next_free = free_slices;
    free_slices = slice;
  }

  // Become part of a recording: nothing of an earlier one is kept.
  void join(Recording& recording);

  std::atomic<uint32_t> inside{0};
  uint32_t generation = 0;  // of the recording that the fields below belong to
  uint32_t thread = 0;
  uint32_t logical_id = 0;
  bool full = false;      // the limit was met: only ranges are still kept
  bool in_tasks = false;  // a range began inside an asyncio task
  Recording* recording = nullptr;
  Chunk* chunk = nullptr;
  uint64_t begun = 0;
  OpenSlice* free_slices = nullptr;
  NameCache names;

 private:
  static ThreadState* attach();
  static void detach(ThreadState* state);
  void grow();

  // One pointer in static TLS: a load instead of a call to find it.
  static thread_local ThreadState* mine_ __attribute__((tls_model("initial-exec")));

  friend struct ThreadExit;
};

// Held while a thread uses what a recording owns. The thread that stops or reads a recording pays
// for the ordering: order_with_others() makes every other thread pass a full barrier, so that what
// was seen of it before stands after all that it did before. Where the kernel cannot do that, each
// entry and exit pays with a fence.
class Inside {
 public:
  explicit Inside(ThreadState& state) : state_(state) {
    state_.inside.store(1, std::memory_order_relaxed);
    fence();
  }
  ~Inside() {
    fence();
    state_.inside.store(0, std::memory_order_relaxed);
  }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;

  static void order_with_others();

 private:
  static void fence() {
    if (needs_fence_) [[unlikely]] {
      std::atomic_thread_fence(std::memory_order_seq_cst);
    } else {
      std::atomic_signal_fence(std::memory_order_seq_cst);
    }
  }

  static const bool needs_fence_;

  ThreadState& state_;
};

}  // namespace stepscope
