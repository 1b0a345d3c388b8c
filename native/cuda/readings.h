// Readings of devices over time, as they are in the stream.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace stepscope {

inline constexpr int64_t kNotTold = -1;

// What NVML says of a device at a moment; kNotTold where it says nothing.
struct PowerReading {
  int64_t time_ns;
  int64_t power_mw;
  int64_t energy_mj;  // since the driver was loaded
  int32_t device;     // NVML's number
  int32_t sm_mhz;
  int32_t memory_mhz;
  int32_t celsius;
  int32_t busy_percent;
  int32_t memory_busy_percent;
  int64_t reasons;  // bits of NVML's: why clocks are lower than they could be
};
static_assert(sizeof(PowerReading) == 56);

inline constexpr size_t kMostCounters = 8;

// The hardware counters of a device over one interval.
struct CounterReading {
  int64_t start_ns;  // on the device's clock
  int64_t end_ns;
  uint32_t device;                     // as CUDA numbers it
  int32_t thousandths[kMostCounters];  // of a %, by counter; -1: the device does not have it
  uint32_t unused;
};
static_assert(sizeof(CounterReading) == 56);

// A moment of the device's clock, and two moments of our clock between which it lies.
struct ClockBound {
  int64_t device_ns;
  int64_t from_ns;
  int64_t to_ns;
};

struct CounterDevice {
  uint32_t number = 0;
  std::string chip;
  std::string obstacle;              // "": it is sampled
  std::vector<std::string> metrics;  // by counter; "": none of the candidates
  std::vector<ClockBound> bounds;
  bool overflowed = false;
};

}  // namespace stepscope
