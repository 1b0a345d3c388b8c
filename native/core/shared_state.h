// What an operator reads of the process-wide state, all on one cache line: beside a real program a
// line that is not in the cache costs more than everything else that recording does.
#pragma once

#include <atomic>
#include <cstdint>

namespace stepscope {

class Recording;

enum class ClockSource : uint8_t { kCounter, kMonotonic, kManual };

struct alignas(64) SharedState {
  // The one being recorded, null when nothing records. A thread may use it only while Inside.
  std::atomic<Recording*> active{nullptr};
  std::atomic<uint32_t> generation{0};  // always read with it
  // Counts the times when a name that lasts may have gone after all.
  std::atomic<uint32_t> names_changed{0};
  // The asyncio context of the calling thread; asked only where tasks were seen.
  std::atomic<uint32_t (*)()> context_source{nullptr};
  // The calling thread's Python stack; null while nobody wants it.
  std::atomic<uint32_t (*)()> stack_source{nullptr};
  std::atomic<ClockSource> clock{ClockSource::kMonotonic};
  // Whether each thread has to order its own steps; see Inside.
  std::atomic<bool> needs_fence{true};
};
static_assert(sizeof(SharedState) == 64);

inline constinit SharedState shared_state;

}  // namespace stepscope
