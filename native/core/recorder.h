// The recorder: threads append fixed-size records to chunks of their own, without a lock.
//
// A slice in progress is an OpenSlice; when it ends, its record is copied into the ending thread's
// chunk, so that chunks hold finished records only. Several windows (one a session) may be open at
// once over the one recording; it begins with the first and ends with the last.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/recording.h"
#include "core/snapshot.h"
#include "core/thread_state.h"
#include "stepscope/core_api.h"

namespace stepscope {

// Called for sampled blocks of memory, on any thread, with the GIL or without.
struct BlockListener {
  void (*sampled)(uintptr_t address, int64_t bytes, Device device);
  void (*released)(uintptr_t address);
};

class Recorder {
 public:
  static Recorder& instance();

  uint64_t open_window(Limit limit);
  // Let the window begin now; what it saw before is not part of it.
  void restart_window(uint64_t window);
  // What the window has seen so far; it goes on. An unknown window (one that a fork left behind)
  // gives nothing.
  HeldWindow look_at_window(uint64_t window);
  // The ranges that ended since then and whose names begin with one of the prefixes, in no order.
  std::vector<RecentRange> recent_ranges(uint64_t since_ticks,
                                         const std::vector<std::string>& prefixes);
  // What the window saw; its last call for this window.
  HeldWindow end_window(uint64_t window);
  Snapshot close_window(uint64_t window) { return in_order(end_window(window)); }

  // What is being recorded; null when nothing is.
  std::shared_ptr<Recording> current();

  static bool recording() { return shared_state.active.load(std::memory_order_relaxed) != nullptr; }

  // Begin and end slices. Null when nothing records.
  static OpenSlice* begin(const stepscope_begin& what);
  static OpenSlice* begin(Kind kind, std::string_view name, std::string_view detail,
                          uint32_t context);
  static void end(OpenSlice* slice);
  // Renames an open slice.
  static void rename(OpenSlice* slice, std::string_view name);

  // An interned name, which a caller keeps to begin more slices with. It is valid for one
  // recording.
  struct Label {
    uint32_t generation = 0;  // 0: of none
    uint32_t id = 0;
  };
  static Label label(std::string_view name);
  // Begins a slice without a stack, now or at the given time. The label is of this recording.
  static OpenSlice* begin(Kind kind, Label label, uint64_t start_ticks = 0);
  // Records a slice whose end will not be seen, as unfinished at this moment.
  static void cut_off(OpenSlice* slice);

  // The encoded inputs of the operator that this thread began last.
  static void sampled_inputs(std::string_view encoded);
  // An operator that began at that time uses the data of a tensor.
  static void tensor_used(const TensorUse& use, uint64_t ticks);

  // Blocks of memory: handed out, given back, and what one holds (a MemoryOwner).
  static void allocated(uintptr_t address, int64_t bytes, Device device);
  static void released(uintptr_t address);
  // Has this recording see releases of blocks that were allocated in earlier recordings.
  void remember_blocks();
  // The same for an allocator that counts itself: with its totals after the change.
  static void memory_changed(uintptr_t address, int64_t bytes, int64_t allocated, int64_t reserved,
                             Device device);
  static void owned(uintptr_t address, int64_t bytes, Device device, uint8_t owner);

  // The recording's number of the calling thread; kNoThread when it has recorded nothing yet.
  static constexpr uint32_t kNoThread = UINT32_MAX;
  static uint32_t thread();

  static const stepscope_core_api& core_api();
  // The listener is never freed; null: none.
  static void set_block_listener(const BlockListener* listener);

  // Sets what returns the asyncio context of the calling thread; only called once tasks were seen.
  static void set_context_source(uint32_t (*current_context)());
  // Sets what returns the number of the calling thread's Python stack, not 0; null: no stacks.
  static void set_stack_source(uint32_t (*current_stack)());

  // What the types of tensors are called, by their encoded number.
  static std::vector<std::string> type_names();

 private:
  Recorder();
  static void before_fork();
  static void after_fork_in_parent();
  static void after_fork_in_child();
  static void hold_type_names();
  static void release_type_names();

  std::mutex mutex_;
  std::shared_ptr<Recording> current_;
  std::unordered_map<uint64_t, Limit> windows_;
  uint64_t last_window_ = 0;
  uint32_t last_generation_ = 0;
};

}  // namespace stepscope
