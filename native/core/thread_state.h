// What a thread owns while it records, and how other threads know that it is outside the recorder.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string_view>
#include <vector>

#include "core/interner.h"
#include "core/recording.h"
#include "core/shared_state.h"
#include "stepscope/lane.h"

namespace stepscope {

struct ThreadState : Lane {
  ThreadState() : Lane(shared_state) {}

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
    OpenSlice* const slice = free_slices;
    free_slices = slice->next();
    return slice;
  }

  // Become part of a recording: nothing of an earlier one is kept.
  void join(Recording& recording);

  // See whether the fast path is open, if that may have changed. The thread is part of the
  // recording.
  void look_again() {
    if (looked != shared_state.epoch.load(kObserve)) look();
  }
  void close_fast_path() { epoch = 0; }

  // The label of a name, and the number of an operator's encoded inputs. The thread is part of the
  // recording, and inside.
  uint32_t label_of(const stepscope_begin& what);
  uint32_t inputs_of(std::string_view encoded) { return id_of(encoded, inputs, recording->inputs); }
  uint32_t text_of(std::string_view text) { return id_of(text, texts, recording->interner); }

  Recording* recording = nullptr;  // that it is part of; may be gone unless the lane is inside
  uint32_t looked = 0;             // the epoch in which it last did
  Lane** bridge_slot = nullptr;    // where a bridge keeps its pointer to this lane
  uint32_t names_changed = 0;      // what the names know of
  bool full = false;               // the limit was met: only ranges are still kept
  bool in_tasks = false;           // a range began inside an asyncio task
  bool is_lasting = false;         // it lies in the stream's memory
  uint32_t limits_seen = 0;        // how often the limit had been widened when it was met

 private:
  static ThreadState* attach();
  static void detach(ThreadState* state);
  void grow();
  void look();

  // One pointer in static TLS: a load instead of a call to find it.
  static thread_local ThreadState* mine_ __attribute__((tls_model("initial-exec")));

  friend struct ThreadExit;
};

// Held while a thread uses what a recording owns. The thread that stops or reads a recording pays
// for the ordering: order_with_others() makes every other thread pass a full barrier, so that what
// was seen of it before comes after all that it did before. Where the kernel cannot do that, each
// entry and exit pays with a fence.
class Inside {
 public:
  explicit Inside(Lane& lane) : lane_(lane) {
    lane_.enter();
    fence();
  }
  ~Inside() {
    fence();
    lane_.leave();
  }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;

  static void order_with_others();

 private:
  static void fence() {
    if constexpr (!kOrdersItself) {
      if (shared_state.needs_fence.load(std::memory_order_relaxed)) [[unlikely]]
        std::atomic_thread_fence(std::memory_order_seq_cst);
    }
  }

  Lane& lane_;
};

}  // namespace stepscope
