// NVML, the driver's library that tells how a device is doing, as it was found at run time. The
// part of its binary interface that is used is declared here: no CUDA header is needed to build.
//
// The interface has not changed since CUDA 9; only the temperature with a version came with CUDA
// 12.8. A function that the driver does not have is not called.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace stepscope::nvml {

using Result = int;
inline constexpr Result kSuccess = 0;

using Device = void*;

enum class Clock : uint32_t { kGraphics = 0, kSm = 1, kMemory = 2 };

inline constexpr uint32_t kTemperatureOfDie = 0;
inline constexpr uint32_t kPowerNow = 186;  // a field's number: power in mW, not averaged over 1 s

struct Utilization {
  uint32_t device;  // %, of the last sixth of a second to a second
  uint32_t memory;
};
static_assert(sizeof(Utilization) == 8);

struct PciInfo {
  char legacy_bus_id[16];
  uint32_t domain;
  uint32_t bus;
  uint32_t device;
  uint32_t device_id;
  uint32_t subsystem_id;
  char bus_id[32];
};
static_assert(sizeof(PciInfo) == 68 && offsetof(PciInfo, domain) == 16);

struct FieldValue {
  uint32_t field;
  uint32_t scope;
  int64_t timestamp;
  int64_t latency_us;
  uint32_t type;
  Result result;
  union {
    double as_double;
    uint32_t as_uint;
    uint64_t as_uint64;
  } value;
};
static_assert(sizeof(FieldValue) == 40 && offsetof(FieldValue, result) == 28);
inline constexpr uint32_t kUnsignedInt = 1;  // FieldValue::type

struct Temperature {
  uint32_t version;
  uint32_t sensor;
  int32_t celsius;
};
static_assert(sizeof(Temperature) == 12);
inline constexpr uint32_t kTemperatureVersion = sizeof(Temperature) | 1U << 24;
static_assert(kTemperatureVersion == 0x100000C);

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
