// How devices are doing, read every 20 ms or so by a thread of its own: power, clocks, heat.
#pragma once

#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <vector>

#include "core/own_threads.h"
#include "cuda/nvml_library.h"
#include "sampler/stop_signal.h"

namespace stepscope {

inline constexpr int64_t kNotTold = -1;

// What a device told at a moment; kNotTold where it does not.
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

// A device, as far as NVML knows it.
struct PoweredDevice {
  nvml::Device handle;
  uint32_t number;
  std::string name;
  uint32_t pci_domain, pci_bus, pci_device;
  int64_t power_limit_mw;
  int64_t most_sm_mhz;
};

struct PowerOptions {
  int64_t interval_ns;
  uint64_t limit_bytes;  // 0: none
  bool keep_newest;
  int64_t age_ns;  // what is older goes; 0: nothing does
};

class PowerSampler {
 public:
  // Load NVML from `path`, once for the process. Throws std::runtime_error.
  static void load(const std::string& path);

  // Reads these devices, all if none are named. Throws std::runtime_error without any.
  PowerSampler(const PowerOptions& options, const std::vector<uint32_t>& wanted);
  ~PowerSampler() { stop(); }
  PowerSampler(const PowerSampler&) = delete;
  PowerSampler& operator=(const PowerSampler&) = delete;

  bool start();
  void stop();

  const std::vector<PoweredDevice>& devices() const { return devices_; }
  std::vector<PowerReading> readings() const;
  uint64_t lost() const;
  int64_t cpu_ns() const { return cpu_ns_.load(std::memory_order_relaxed); }
  int64_t wall_ns() const { return wall_ns_.load(std::memory_order_relaxed); }
  int64_t passes() const { return passes_.load(std::memory_order_relaxed); }

 private:
  void loop();
  PowerReading read(const PoweredDevice& device, bool with_energy) const;
  int64_t power_of(const PoweredDevice& device) const;
  int32_t celsius_of(const PoweredDevice& device) const;
  void keep(const PowerReading& reading);

  PowerOptions options_;
  std::vector<PoweredDevice> devices_;
  mutable std::mutex mutex_;
  std::deque<PowerReading> readings_;
  uint64_t lost_ = 0;
  std::atomic<int64_t> cpu_ns_{0};
  std::atomic<int64_t> wall_ns_{0};
  std::atomic<int64_t> passes_{0};
  Worker worker_;
  StopSignal stop_;
};

}  // namespace stepscope
