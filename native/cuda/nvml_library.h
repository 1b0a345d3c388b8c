// NVML, the driver's library that tells how a device is doing, as it was found at run time.
#pragma once

#include <cstdint>
#include <string>

#include "cuda/nvml_abi.h"

namespace stepscope::nvml {

// The functions that are used. Those marked optional may be null: not every driver has them.
struct Library {
  Result (*init)();
  const char* (*error_text)(Result result);
  Result (*device_count)(uint32_t* count);
  Result (*device_at)(uint32_t index, Device* device);
  Result (*pci_info)(Device device, PciInfo* info);
  Result (*name)(Device device, char* name, uint32_t length);  // optional, as all below
  Result (*field_values)(Device device, int count, FieldValue* values);
  Result (*power_mw)(Device device, uint32_t* milliwatts);
  Result (*energy_mj)(Device device, unsigned long long* millijoules);
  Result (*clock_mhz)(Device device, Clock clock, uint32_t* mhz);
  Result (*most_clock_mhz)(Device device, Clock clock, uint32_t* mhz);
  Result (*power_limit_mw)(Device device, uint32_t* milliwatts);
  Result (*temperature)(Device device, Temperature* temperature);
  Result (*plain_temperature)(Device device, uint32_t sensor, uint32_t* celsius);
  Result (*utilization)(Device device, Utilization* utilization);
  Result (*reasons)(Device device, unsigned long long* reasons);

  // Load and initialise the library at `path`; throws std::runtime_error saying what is wrong.
  static Library open(const std::string& path);
};

}  // namespace stepscope::nvml
