// The process's use of CUPTI: it is on while a session records, and buffers are decoded as they
// fill.
#pragma once

#include <cstdint>
#include <string>

#include "cuda/device_records.h"

namespace stepscope {

// What is recorded where asked for, beside the device's work and the calls: bits.
enum DeviceExtras : uint32_t {
  kNoExtras = 0,
  kSynchronizations = 1,  // who waited for what
  kCudaEvents = 2,
  kMemoryOperations = 4,  // of the driver, and its pools
};

class DeviceCollector {
 public:
  // Use the CUPTI at `path`, once for the process; returns its version. Throws std::runtime_error.
  static uint32_t load(const std::string& path);
  // The CUPTI in use, which is never unloaded; null if none is loaded.
  static const cupti::Library* library();

  // Records from now on, except calls that neither launch, copy, wait nor allocate; returns the
  // moment, for stop(). With `beside`, as one of several subscribers of CUPTI: another tool
  // records, too. Throws std::runtime_error if CUPTI, the driver or that tool does not allow it.
  static uint64_t start(bool beside, uint64_t limit_bytes, bool keep_newest, uint64_t age_ticks,
                        uint32_t extras);

  // Waits for the devices, and returns what started since. CUPTI is turned off if no other session
  // records.
  static DeviceColumns stop(uint64_t since_ticks);

  // What CUPTI calls a function of the runtime or the driver; "" when it does not know it.
  static std::string function_name(DeviceRecordKind kind, uint32_t function);

  // In a forked child: CUPTI and the devices are the parent's.
  static void forget_after_fork();
};

}  // namespace stepscope
