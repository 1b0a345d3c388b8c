#include "cuda/nvml_library.h"

#include <dlfcn.h>

#include <stdexcept>

namespace stepscope::nvml {
namespace {

template <typename Function>
void find(void* library, const char* name, Function* function) {
  *function = reinterpret_cast<Function>(dlsym(library, name));
}

template <typename Function>
void require(void* library, const char* name, Function* function) {
  find(library, name, function);
  if (!*function) throw std::runtime_error(std::string("it has no ") + name);
}

}  // namespace

Library Library::open(const std::string& path) {
  // Never closed: the driver's library may have state of its own.
  void* const handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle) throw std::runtime_error(dlerror());
  Library library{};
  require(handle, "nvmlInit_v2", &library.init);
  require(handle, "nvmlErrorString", &library.error_text);
  require(handle, "nvmlDeviceGetCount_v2", &library.device_count);
  require(handle, "nvmlDeviceGetHandleByIndex_v2", &library.device_at);
  require(handle, "nvmlDeviceGetPciInfo_v3", &library.pci_info);
  find(handle, "nvmlDeviceGetName", &library.name);
  find(handle, "nvmlDeviceGetFieldValues", &library.field_values);
  find(handle, "nvmlDeviceGetPowerUsage", &library.power_mw);
  find(handle, "nvmlDeviceGetTotalEnergyConsumption", &library.energy_mj);
  find(handle, "nvmlDeviceGetClockInfo", &library.clock_mhz);
  find(handle, "nvmlDeviceGetMaxClockInfo", &library.most_clock_mhz);
  find(handle, "nvmlDeviceGetEnforcedPowerLimit", &library.power_limit_mw);
  find(handle, "nvmlDeviceGetTemperatureV", &library.temperature);
  find(handle, "nvmlDeviceGetTemperature", &library.plain_temperature);
  find(handle, "nvmlDeviceGetUtilizationRates", &library.utilization);
  find(handle, "nvmlDeviceGetCurrentClocksEventReasons", &library.reasons);
  if (!library.reasons) {  // its name before driver 535
    find(handle, "nvmlDeviceGetCurrentClocksThrottleReasons", &library.reasons);
  }
  if (const Result result = library.init(); result != kSuccess) {
    const char* const text = library.error_text(result);
    throw std::runtime_error(std::string("nvmlInit_v2: ") + (text ? text : std::to_string(result)));
  }
  return library;
}

}  // namespace stepscope::nvml
