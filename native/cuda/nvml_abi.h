// The part of NVML's binary interface that is used here, so that no CUDA header is needed to build.
//
// All of it has been unchanged since CUDA 9 (the temperature with a version: since CUDA 12.8); a
// function that a driver does not have is not asked.
#pragma once

#include <cstddef>
#include <cstdint>

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

}  // namespace stepscope::nvml
