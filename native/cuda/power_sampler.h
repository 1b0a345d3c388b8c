// How devices are doing, read every 20 ms or so by a thread of its own: power, clocks, heat.
#pragma once

#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <vector>

#include "core/own_threads.h"
#include "cuda/nvml_library.h"
#include "cuda/readings.h"
#include "sampler/stop_signal.h"
#include "stream/stream_turn.h"

namespace stepscope {

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
  bool tells_power() const { return tells_power_.load(std::memory_order_relaxed); }

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
  std::atomic<bool> tells_power_{false};
  StreamTurn<PowerSampler> turn_;  // of the thread
  Worker worker_;
  StopSignal stop_;
};

}  // namespace stepscope
