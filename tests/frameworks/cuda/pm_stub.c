/* CUPTI's PM sampling of a device, and the driver that knows that device: the functions that are
 * used. It never has a sample; built with SAMPLES, it has one each time, of half of what is possible.
 * It aborts where a process forked from its own calls it. */
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

static pid_t its_process;

__attribute__((constructor)) static void loaded(void) { its_process = getpid(); }

static int called(void** params, int out, size_t value) {
  if (getpid() != its_process) abort();
  if (out) params[out] = (void*)value;
  return 0;
}

int cuDeviceGetCount(int* count) { *count = 1; return 0; }
int cuDevicePrimaryCtxGetState(int device, unsigned* flags, int* is_active) {
  *flags = (unsigned)device;
  *is_active = 1;
  return 0;
}
int cuptiGetResultString(int result, const char** text) { *text = ""; return result; }

#define FUNCTION(name, out, value) \
  int name(void** params) { return called(params, out, (size_t)(value)); }
FUNCTION(cuptiProfilerInitialize, 0, 0)
FUNCTION(cuptiDeviceGetChipName, 3, "stub")
FUNCTION(cuptiPmSamplingGetCounterAvailability, 3, 1)
FUNCTION(cuptiProfilerHostInitialize, 5, 1)
FUNCTION(cuptiProfilerHostDeinitialize, 0, 0)
FUNCTION(cuptiProfilerHostConfigAddMetrics, 0, 0)
FUNCTION(cuptiProfilerHostGetConfigImageSize, 3, 1)
FUNCTION(cuptiProfilerHostGetConfigImage, 0, 0)
FUNCTION(cuptiProfilerHostGetNumOfPasses, 4, 1)
FUNCTION(cuptiPmSamplingEnable, 3, 1)
FUNCTION(cuptiPmSamplingDisable, 0, 0)
FUNCTION(cuptiPmSamplingSetConfig, 0, 0)
FUNCTION(cuptiPmSamplingStart, 0, 0)
FUNCTION(cuptiPmSamplingStop, 0, 0)
FUNCTION(cuptiPmSamplingGetCounterDataSize, 6, 1)
FUNCTION(cuptiPmSamplingCounterDataImageInitialize, 0, 0)
FUNCTION(cuptiPmSamplingDecodeData, 0, 0)
#ifdef SAMPLES
FUNCTION(cuptiPmSamplingGetCounterDataInfo, 6, 1)
int cuptiProfilerHostEvaluateToGpuValues(void** params) {
  for (size_t i = 0; i < (size_t)params[7]; ++i) ((double*)params[8])[i] = 50;
  return 0;
}
int cuptiPmSamplingCounterDataGetSampleInfo(void** params) {
  static uint64_t now_ns = 1000000000; /* the device's clock is not ours */
  params[6] = (void*)(uintptr_t)now_ns;
  params[7] = (void*)(uintptr_t)(now_ns += 1000000);
  return 0;
}
#else
FUNCTION(cuptiPmSamplingGetCounterDataInfo, 6, 0)
FUNCTION(cuptiProfilerHostEvaluateToGpuValues, 0, 0)
FUNCTION(cuptiPmSamplingCounterDataGetSampleInfo, 0, 0)
#endif
