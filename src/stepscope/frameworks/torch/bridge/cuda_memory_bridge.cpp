// The bridge to torch's CUDA allocator: every allocation and release, with the totals.
//
// Like the bridge to torch's operators it is compiled on the user's machine, if CUDA's headers are
// present. It is loaded once and never unloaded, as torch keeps the observer forever.
#include <c10/cuda/CUDACachingAllocator.h>

#include <array>
#include <atomic>
#include <mutex>

#include "stepscope/core_api.h"

namespace {

namespace allocator = c10::cuda::CUDACachingAllocator;
using Entry = allocator::TraceEntry;

constexpr uint8_t kCuda = 1;  // c10::DeviceType::CUDA
constexpr size_t kMostDevices = 64;
constexpr size_t kUnit = 512;  // bytes

stepscope_core_api core{};
std::atomic<int> users{0};

struct Totals {
  std::atomic<int64_t> allocated{0};
  std::atomic<int64_t> reserved{0};
};
std::array<Totals, kMostDevices> totals;

// Called by torch under the device's lock, on the allocating thread.
void on_entry(const Entry& entry) {
  if (users.load(std::memory_order_relaxed) == 0) return;
  const auto device = static_cast<size_t>(entry.device_);
  if (device >= kMostDevices) return;
  Totals& total = totals[device];
  // Entries have the requested size; the allocator hands out, and counts, whole units.
  const auto size = static_cast<int64_t>((entry.size_ + kUnit - 1) / kUnit * kUnit);
  int64_t bytes = 0;
  switch (entry.action_) {
    case Entry::ALLOC:
      total.allocated += bytes = size;
      break;
    case Entry::FREE_REQUESTED:
      total.allocated += bytes = -size;
      break;
    case Entry::SEGMENT_ALLOC:
    case Entry::SEGMENT_MAP:
      total.reserved += size;
      break;
    case Entry::SEGMENT_FREE:
    case Entry::SEGMENT_UNMAP:
      total.reserved -= size;
      break;
    default:
      return;
  }
  core.memory_changed(reinterpret_cast<const void*>(entry.addr_), bytes, total.allocated,
                      total.reserved, kCuda, static_cast<int8_t>(device));
}

}  // namespace

#define EXPORT extern "C" __attribute__((visibility("default")))

// Return 0 if this bridge and the core fit each other.
EXPORT int stepscope_cuda_bridge_init(const stepscope_core_api* api) {
  if (api->version != STEPSCOPE_CORE_API_VERSION) return 1;
  core = *api;
  return 0;
}

// Set what a device has in use when recording begins.
EXPORT void stepscope_cuda_bridge_totals(int device, int64_t allocated, int64_t reserved) {
  if (device < 0 || static_cast<size_t>(device) >= kMostDevices || users.load() > 0) return;
  totals[static_cast<size_t>(device)].allocated = allocated;
  totals[static_cast<size_t>(device)].reserved = reserved;
}

// Call this after torch has set CUDA up: the observer is attached to the existing allocators.
EXPORT void stepscope_cuda_bridge_attach() {
  static std::once_flag attached;
  std::call_once(attached, [] { allocator::attachAllocatorTraceTracker(&on_entry); });
}

EXPORT void stepscope_cuda_bridge_start() { users.fetch_add(1); }

EXPORT void stepscope_cuda_bridge_stop() {
  if (users.load() > 0) users.fetch_sub(1);
}
