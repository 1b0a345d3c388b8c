// How devices are doing, read every 20 ms or so by a thread of its own: power, clocks, heat.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "cuda/device_readings.h"
#include "cuda/nvml_library.h"

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

class PowerSampler : public DeviceReadings<PowerReading, &PowerReading::time_ns, Entry::kPower> {
 public:
  // Load NVML from `path`, once for the process. Throws std::runtime_error.
  static void load(const std::string& path);

  // Reads these devices, all if none are named. Throws std::runtime_error without any.
  PowerSampler(const ReadingOptions& options, const std::vector<uint32_t>& wanted);
  ~PowerSampler() { stop(); }
  PowerSampler(const PowerSampler&) = delete;
  PowerSampler& operator=(const PowerSampler&) = delete;

  bool start() { return worker_.start<&PowerSampler::loop>(this); }

  const std::vector<PoweredDevice>& devices() const { return devices_; }
  int64_t passes() const { return passes_.load(std::memory_order_relaxed); }
  bool tells_power() const { return tells_power_.load(std::memory_order_relaxed); }

 private:
  void loop();
  PowerReading read(const PoweredDevice& device, bool with_energy) const;
  int64_t power_of(const PoweredDevice& device) const;
  int32_t celsius_of(const PoweredDevice& device) const;

  std::vector<PoweredDevice> devices_;
  std::atomic<int64_t> passes_{0};
  std::atomic<bool> tells_power_{false};
};

}  // namespace stepscope
