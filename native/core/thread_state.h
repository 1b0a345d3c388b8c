// What a thread owns while it records, and how others know that it is not inside the recorder.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

#include "core/interner.h"
#include "core/record.h"
#include "core/recording.h"
#include "core/shared_state.h"
#include "core_api.h"

namespace stepscope {

// A slice that has begun and not ended: one cache line. They are pooled and never freed.
struct alignas(64) OpenSlice : stepscope_open_slice {
  std::atomic<uint64_t> order{0};  // counts the begins of its thread; 0 while it is not open
  uint64_t start_ticks = 0;
  union {
    int64_t sequence = -1;
    OpenSlice* next_free;  // while it is in a pool
  };
  uint32_t label = 0;
  uint32_t thread = 0;
  uint32_t context = 0;
  uint32_t forward_thread = 0;
  uint32_t detail = 0;
  uint32_t stack = 0;
  uint32_t generation = 0;
  Kind kind = Kind::kOther;
  uint8_t flags = 0;

  Record ended(uint64_t end_ticks) const {
    return {.start_ticks = start_ticks,
            .end_ticks = end_ticks,
            .sequence = sequence,
            .order = order.load(std::memory_order_relaxed),
            .label = label,
            .thread = thread,
            .context = context,
            .forward_thread = forward_thread,
            .detail = detail,
            .stack = stack,
            .kind = kind,
            .flags = flags};
  }
};
static_assert(sizeof(OpenSlice) == 64);

struct alignas(64) ThreadState {
  // Null when the thread is already shutting down.
  static ThreadState* current() {
    if (mine_) [[likely]]
      return mine_;
    return attach();
  }

  // End the active recording: when this returns, no thread uses it any more.
  static void end_recording(Recording& recording);

  // The slices that are open in a generation, as if they ended then.
  static std::vector<Record> open_slices(uint32_t generation, uint64_t end_ticks);

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

  // What every operator needs stands first, on one cache line.
  std::atomic<uint32_t> inside{0};
  uint32_t generation = 0;  // of the recording that the fields below belong to
  uint32_t thread = 0;
  uint32_t logical_id = 0;
  uint32_t names_changed = 0;  // what `names` knows of
  bool full = false;           // the limit was met: only ranges are still kept
  bool in_tasks = false;       // a range began inside an asyncio task
  Cursor cursor;
  uint64_t begun = 0;
  OpenSlice* free_slices = nullptr;
  NameCache names;
  TextCache inputs;
  uint32_t limits_seen = 0;  // how often the limit had been widened when it was met

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
    if (shared_state.needs_fence.load(std::memory_order_relaxed)) [[unlikely]] {
      std::atomic_thread_fence(std::memory_order_seq_cst);
    } else {
      std::atomic_signal_fence(std::memory_order_seq_cst);
    }
  }

  ThreadState& state_;
};

}  // namespace stepscope
