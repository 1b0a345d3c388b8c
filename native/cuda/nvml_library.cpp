#include "cuda/nvml_library.h"

#include <stdexcept>

#include "cuda/loaded_library.h"

namespace stepscope::nvml {

Library Library::open(const std::string& path) {
  const LoadedLibrary loaded(path);
  Library library{};
  loaded.require("nvmlInit_v2", &library.init);
  loaded.require("nvmlErrorString", &library.error_text);
  loaded.require("nvmlDeviceGetCount_v2", &library.device_count);
  loaded.require("nvmlDeviceGetHandleByIndex_v2", &library.device_at);
  loaded.require("nvmlDeviceGetPciInfo_v3", &library.pci_info);
  loaded.find("nvmlDeviceGetName", &library.name);
  loaded.find("nvmlDeviceGetFieldValues", &library.field_values);
  loaded.find("nvmlDeviceGetPowerUsage", &library.power_mw);
  loaded.find("nvmlDeviceGetTotalEnergyConsumption", &library.energy_mj);
  loaded.find("nvmlDeviceGetClockInfo", &library.clock_mhz);
  loaded.find("nvmlDeviceGetMaxClockInfo", &library.most_clock_mhz);
  loaded.find("nvmlDeviceGetEnforcedPowerLimit", &library.power_limit_mw);
  loaded.find("nvmlDeviceGetTemperatureV", &library.temperature);
  loaded.find("nvmlDeviceGetTemperature", &library.plain_temperature);
  loaded.find("nvmlDeviceGetUtilizationRates", &library.utilization);
  loaded.find("nvmlDeviceGetCurrentClocksEventReasons", &library.reasons);
  if (!library.reasons) {  // its name before driver 535
    loaded.find("nvmlDeviceGetCurrentClocksThrottleReasons", &library.reasons);
  }
  if (const Result result = library.init(); result != kSuccess) {
    const char* const text = library.error_text(result);
    throw std::runtime_error(std::string("nvmlInit_v2: ") + (text ? text : std::to_string(result)));
  }
  return library;
}

}  // namespace stepscope::nvml
