/* A device that takes 250 W, for machines without one: NVML's functions, as far as they are used.
 * Its power limit holds its clocks down. Its energy counter counts real time, as a device's does.
 * Built with OLD, it is a driver that lacks what came later, and is too hot. */
#include <stdint.h>
#include <string.h>
#include <time.h>

struct pci { char legacy[16]; uint32_t domain, bus, device, id, subsystem; char bus_id[32]; };
struct field { uint32_t id, scope; int64_t time, latency; uint32_t type; int result; uint64_t value; };
struct temperature { uint32_t version, sensor; int32_t celsius; };
struct utilization { uint32_t device, memory; };

static uint64_t now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

int nvmlInit_v2(void) { return 0; }
int nvmlShutdown(void) { return 0; }
const char* nvmlErrorString(int result) { return result == 999 ? "Unknown Error" : "Error"; }
int nvmlDeviceGetCount_v2(uint32_t* count) { *count = 1; return 0; }
int nvmlDeviceGetHandleByIndex_v2(uint32_t index, void** device) {
  *device = (void*)(uintptr_t)(index + 1);
  return 0;
}
int nvmlDeviceGetPciInfo_v3(void* device, struct pci* info) {
  memset(info, 0, sizeof(*info));
  info->bus = 0x1b;
  return 0;
}
int nvmlDeviceGetName(void* device, char* name, uint32_t length) {
  strncpy(name, "Stand-in", length);
  return 0;
}
int nvmlDeviceGetPowerUsage(void* device, uint32_t* mw) { *mw = 240000; return 0; }
int nvmlDeviceGetEnforcedPowerLimit(void* device, uint32_t* mw) { *mw = 300000; return 0; }
int nvmlDeviceGetClockInfo(void* device, uint32_t clock, uint32_t* mhz) {
  *mhz = clock == 1 ? 1500 : 2600;
  return 0;
}
int nvmlDeviceGetMaxClockInfo(void* device, uint32_t clock, uint32_t* mhz) {
  *mhz = clock == 1 ? 2000 : 2600;
  return 0;
}
#ifdef OLD
int nvmlDeviceGetTemperature(void* device, uint32_t sensor, uint32_t* celsius) {
  *celsius = 51;
  return 0;
}
int nvmlDeviceGetUtilizationRates(void* device, struct utilization* used) { return 3; }
int nvmlDeviceGetCurrentClocksThrottleReasons(void* device, unsigned long long* reasons) {
  *reasons = 0x60;
  return 0;
}
#else
int nvmlDeviceGetFieldValues(void* device, int count, struct field* values) {
  values->result = values->id == 186 ? 0 : 3;
  values->type = 1;
  values->value = 250000;
  return 0;
}
int nvmlDeviceGetTotalEnergyConsumption(void* device, unsigned long long* mj) {
  *mj = now_ns() / 4000; /* 250 W */
  return 0;
}
int nvmlDeviceGetTemperatureV(void* device, struct temperature* out) {
  if (out->version != 0x100000C) return 25;
  out->celsius = 61;
  return 0;
}
int nvmlDeviceGetUtilizationRates(void* device, struct utilization* used) {
  used->device = 90;
  used->memory = 40;
  return 0;
}
int nvmlDeviceGetCurrentClocksEventReasons(void* device, unsigned long long* reasons) {
  *reasons = 0x4;
  return 0;
}
#endif
