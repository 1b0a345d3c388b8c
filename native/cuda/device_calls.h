// Which calls of CUDA's runtime and driver are recorded.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "cuda/device_collector.h"

namespace stepscope {

// The calls that matter, by how their names begin: what makes the device work, waits for it, or
// takes its memory.
inline constexpr std::string_view kRuntimeCalls[] = {"cudaLaunch",
                                                     "cudaGraphLaunch",
                                                     "cudaMemcpy",
                                                     "cudaMemset",
                                                     "cudaDeviceSynchronize",
                                                     "cudaStreamSynchronize",
                                                     "cudaEventSynchronize",
                                                     "cudaStreamWaitEvent",
                                                     "cudaMalloc",
                                                     "cudaFree",
                                                     "cudaHostAlloc",
                                                     "cudaHostRegister",
                                                     "cudaHostUnregister"};
inline constexpr std::string_view kDriverCalls[] = {
    "cuLaunch",         "cuGraphLaunch",       "cuMemcpy",           "cuMemset",
    "cuCtxSynchronize", "cuStreamSynchronize", "cuEventSynchronize", "cuStreamWaitEvent",
    "cuMemAlloc",       "cuMemFree",           "cuMemHostAlloc",     "cuMemCreate",
    "cuMemMap",         "cuMemUnmap",          "cuMemRelease"};

// Calls that matter with some of the extras.
struct ExtraCall {
  uint32_t extra;
  std::string_view name;
};
inline constexpr ExtraCall kExtraCalls[] = {{kSynchronizations | kCudaEvents, "cudaEventRecord"},
                                            {kSynchronizations | kCudaEvents, "cuEventRecord"},
                                            {kMemoryOperations, "cudaMemPool"},
                                            {kMemoryOperations, "cuMemPool"}};

inline bool matters_with(uint32_t extras, std::string_view name) {
  for (const ExtraCall& call : kExtraCalls) {
    if ((call.extra & extras) && name.starts_with(call.name)) return true;
  }
  return false;
}

template <size_t size>
bool matters(std::string_view name, const std::string_view (&prefixes)[size]) {
  for (const std::string_view prefix : prefixes) {
    if (name.starts_with(prefix)) return true;
  }
  return false;
}

}  // namespace stepscope
