#include "cuda/nvml_library.h"

#include <stdexcept>

#include "cuda/loaded_library.h"

namespace stepscope::nvml {

Library Library::open(const std::string& path) {
  const LoadedLibrary found(path);
  Library library{};
  found.require("nvmlInit_v2", &library.init);
  found.require("nvmlErrorString", &library.error_text);
  found.require("nvmlDeviceGetCount_v2", &library.device_count);
  found.require("nvmlDeviceGetHandleByIndex_v2", &library.device_at);
  found.require("nvmlDeviceGetPciInfo_v3", &library.pci_info);
  found.find("nvmlDeviceGetName", &library.name);
  found.find("nvmlDeviceGetFieldValues", &library.field_values);
  found.find("nvmlDeviceGetPowerUsage", &library.power_mw);
  found.find("nvmlDeviceGetTotalEnergyConsumption", &library.energy_mj);
  found.find("nvmlDeviceGetClockInfo", &library.clock_mhz);
  found.find("nvmlDeviceGetMaxClockInfo", &library.most_clock_mhz);
  found.find("nvmlDeviceGetEnforcedPowerLimit", &library.power_limit_mw);
  found.find("nvmlDeviceGetTemperatureV", &library.temperature);
  found.find("nvmlDeviceGetTemperature", &library.plain_temperature);
  found.find("nvmlDeviceGetUtilizationRates", &library.utilization);
  found.find("nvmlDeviceGetCurrentClocksEventReasons", &library.reasons);
  if (!library.reasons) {  // its name before driver 535
    found.find("nvmlDeviceGetCurrentClocksThrottleReasons", &library.reasons);
  }
  if (const Result result = library.init(); result != kSuccess) {
    const char* const text = library.error_text(result);
    throw std::runtime_error(std::string("nvmlInit_v2: ") + (text ? text : std::to_string(result)));
  }
  return library;
}

}  // namespace stepscope::nvml
