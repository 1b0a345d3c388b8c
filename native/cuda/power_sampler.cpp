#include "cuda/power_sampler.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "core/clock.h"
#include "core/read_clock.h"

namespace stepscope {
namespace {

// Asking for the energy takes the driver some ms; all else takes it some µs.
constexpr int64_t kEnergyEveryNs = 1'000'000'000;

using nvml::kSuccess;

struct Loaded {
  std::mutex mutex;
  bool is_loaded = false;
  nvml::Library library{};
};

Loaded& loaded() {
  static Loaded& one = *new Loaded;  // never destroyed: a thread may still read at exit
  return one;
}

// The value that a function returns for a device; kNotTold if it is missing or fails.
template <typename Value, typename Function, typename... Arguments>
int64_t value_or_absent(Function function, nvml::Device device, Arguments... arguments) {
  Value value{};
  if (!function || function(device, arguments..., &value) != kSuccess) return kNotTold;
  return static_cast<int64_t>(value);
}

PoweredDevice described(const nvml::Library& library, nvml::Device handle, uint32_t number) {
  PoweredDevice device{handle, number, "", 0, 0, 0, kNotTold, kNotTold};
  char name[96] = "";
  if (library.name && library.name(handle, name, sizeof(name)) == kSuccess) device.name = name;
  nvml::PciInfo place{};
  if (library.pci_info(handle, &place) == kSuccess) {
    device.pci_domain = place.domain;
    device.pci_bus = place.bus;
    device.pci_device = place.device;
  }
  device.power_limit_mw = value_or_absent<uint32_t>(library.power_limit_mw, handle);
  device.most_sm_mhz = value_or_absent<uint32_t>(library.most_clock_mhz, handle, nvml::Clock::kSm);
  return device;
}

}  // namespace

void PowerSampler::load(const std::string& path) {
  Loaded& one = loaded();
  const std::lock_guard lock(one.mutex);
  if (one.is_loaded) return;
  one.library = nvml::Library::open(path);
  one.is_loaded = true;
}

PowerSampler::PowerSampler(const ReadingOptions& options, const std::vector<uint32_t>& wanted)
    : DeviceReadings(options) {
  if (!loaded().is_loaded) throw std::runtime_error("NVML is not loaded");
  const nvml::Library& library = loaded().library;
  uint32_t count = 0;
  if (const nvml::Result result = library.device_count(&count); result != kSuccess) {
    throw std::runtime_error(std::string("nvmlDeviceGetCount_v2: ") + library.error_text(result));
  }
  for (uint32_t number = 0; number < count; ++number) {
    if (!wanted.empty() && std::ranges::find(wanted, number) == wanted.end()) continue;
    nvml::Device handle = nullptr;
    if (library.device_at(number, &handle) != kSuccess) continue;  // not ours to see
    devices_.push_back(described(library, handle, number));
  }
  if (devices_.empty()) throw std::runtime_error("NVML knows no device that may be read");
}

void PowerSampler::loop() {
  const OwnThread ours;
  turn_.take();
  const int64_t begin_ns = monotonic_ns();
  int64_t energy_at_ns = begin_ns;
  bool is_last = false;
  while (true) {
    const int64_t now_ns = monotonic_ns();
    const bool with_energy = now_ns >= energy_at_ns || is_last;
    if (with_energy) energy_at_ns = now_ns + kEnergyEveryNs;
    for (const PoweredDevice& device : devices_) {
      const PowerReading reading = read(device, with_energy);
      if (reading.power_mw >= 0) tells_power_ = true;
      keep(reading);
    }
    passes_.fetch_add(1, std::memory_order_relaxed);
    set_times(monotonic_ns() - begin_ns);
    if (is_last) return turn_.end();
    stop_.wait_until(now_ns + options_.interval_ns);
    is_last = stop_.is_set();  // one more, so that the end of the recording is known
  }
}

PowerReading PowerSampler::read(const PoweredDevice& device, bool with_energy) const {
  const nvml::Library& library = loaded().library;
  const nvml::Device handle = device.handle;
  PowerReading reading{};
  reading.time_ns = Clock::now_ns();
  reading.device = static_cast<int32_t>(device.number);
  reading.power_mw = power_of(device);
  reading.energy_mj = with_energy ? value_or_absent<unsigned long long>(library.energy_mj, handle)
                                  : int64_t{kNotTold};
  const auto mhz = [&](nvml::Clock clock) {
    return static_cast<int32_t>(value_or_absent<uint32_t>(library.clock_mhz, handle, clock));
  };
  reading.sm_mhz = mhz(nvml::Clock::kSm);
  reading.memory_mhz = mhz(nvml::Clock::kMemory);
  reading.celsius = celsius_of(device);
  nvml::Utilization busy{};
  const bool knows = library.utilization && library.utilization(handle, &busy) == kSuccess;
  reading.busy_percent = knows ? static_cast<int32_t>(busy.device) : kNotTold;
  reading.memory_busy_percent = knows ? static_cast<int32_t>(busy.memory) : kNotTold;
  reading.reasons = value_or_absent<unsigned long long>(library.reasons, handle);
  return reading;
}

// What nvmlDeviceGetPowerUsage returns is the mean of a second, since Ampere.
int64_t PowerSampler::power_of(const PoweredDevice& device) const {
  const nvml::Library& library = loaded().library;
  if (library.field_values) {
    nvml::FieldValue field{};
    field.field = nvml::kPowerNow;
    if (library.field_values(device.handle, 1, &field) == kSuccess && field.result == kSuccess &&
        field.type == nvml::kUnsignedInt) {
      return field.value.as_uint;
    }
  }
  return value_or_absent<uint32_t>(library.power_mw, device.handle);
}

int32_t PowerSampler::celsius_of(const PoweredDevice& device) const {
  const nvml::Library& library = loaded().library;
  if (library.temperature) {
    nvml::Temperature temperature{nvml::kTemperatureVersion, nvml::kTemperatureOfDie, 0};
    if (library.temperature(device.handle, &temperature) == kSuccess) return temperature.celsius;
  }
  return static_cast<int32_t>(
      value_or_absent<uint32_t>(library.plain_temperature, device.handle, nvml::kTemperatureOfDie));
}

}  // namespace stepscope
