/* CUPTI's PM sampling of a device that never has a sample, and the driver that knows that device:
 * the functions that are used. It aborts where a process forked from its own calls it. */
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
FUNCTION(cuptiProfilerHostEvaluateToGpuValues, 0, 0)
FUNCTION(cuptiPmSamplingEnable, 3, 1)
FUNCTION(cuptiPmSamplingDisable, 0, 0)
FUNCTION(cuptiPmSamplingSetConfig, 0, 0)
FUNCTION(cuptiPmSamplingStart, 0, 0)
FUNCTION(cuptiPmSamplingStop, 0, 0)
FUNCTION(cuptiPmSamplingGetCounterDataSize, 6, 1)
FUNCTION(cuptiPmSamplingCounterDataImageInitialize, 0, 0)
FUNCTION(cuptiPmSamplingDecodeData, 0, 0)
FUNCTION(cuptiPmSamplingGetCounterDataInfo, 6, 0)
FUNCTION(cuptiPmSamplingCounterDataGetSampleInfo, 0, 0)
