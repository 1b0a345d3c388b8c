// CUPTI's PM sampling as it was found at run time. The part of its binary interface that is used
// (cupti_pmsampling.h, cupti_profiler_host.h, since CUDA 12.6) is declared here: no CUDA header is
// needed to build.
//
// Each function takes one struct that begins with its own size. By that size, later versions know
// which fields ours does not have.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "cuda/cupti_abi.h"

namespace stepscope::cupti::pm {

inline constexpr Result kInsufficientPrivileges = 35;
inline constexpr Result kVirtualizedWithoutPrivileges = 40;

// What all of them begin with.
template <typename Params>
Params sized(size_t bytes = sizeof(Params)) {
  Params params{};
  params.size = bytes;
  return params;
}

struct InitializeParams {
  size_t size;
  void* reserved;
};
static_assert(sizeof(InitializeParams) == 16);

struct ChipNameParams {
  size_t size;
  void* reserved;
  size_t device;
  const char* chip;  // out
};
static_assert(sizeof(ChipNameParams) == 32);

struct AvailabilityParams {
  size_t size;
  void* reserved;
  size_t device;
  size_t image_bytes;  // in and out
  uint8_t* image;
};
static_assert(sizeof(AvailabilityParams) == 40);

inline constexpr uint32_t kPmSampling = 1;  // the type of a profiler

struct HostInitializeParams {
  size_t size;
  void* reserved;
  uint32_t profiler_type;
  const char* chip;
  const uint8_t* availability;
  void* host;  // out
};
static_assert(sizeof(HostInitializeParams) == 48 && offsetof(HostInitializeParams, chip) == 24);

struct HostParams {  // of deinitialising
  size_t size;
  void* reserved;
  void* host;
};
static_assert(sizeof(HostParams) == 24);

struct AddMetricsParams {
  size_t size;
  void* reserved;
  void* host;
  const char** names;
  size_t count;
};
static_assert(sizeof(AddMetricsParams) == 40);

struct ConfigSizeParams {
  size_t size;
  void* reserved;
  void* host;
  size_t bytes;  // out
};
static_assert(sizeof(ConfigSizeParams) == 32);

struct ConfigImageParams {
  size_t size;
  void* reserved;
  void* host;
  size_t bytes;
  uint8_t* image;
};
static_assert(sizeof(ConfigImageParams) == 40);

struct PassesParams {
  size_t size;
  void* reserved;
  size_t bytes;
  uint8_t* image;
  size_t passes;  // out
};
static_assert(sizeof(PassesParams) == 40);

struct EvaluateParams {
  size_t size;
  void* reserved;
  void* host;
  const uint8_t* image;
  size_t image_bytes;
  size_t sample;
  const char** names;
  size_t count;
  double* values;
};
static_assert(sizeof(EvaluateParams) == 72);

struct EnableParams {
  size_t size;
  void* reserved;
  size_t device;
  void* sampling;  // out
};
static_assert(sizeof(EnableParams) == 32);

struct SamplingParams {  // of starting, stopping, disabling
  size_t size;
  void* reserved;
  void* sampling;
};
static_assert(sizeof(SamplingParams) == 24);

inline constexpr uint32_t kBySystemClock = 0;  // not steady; Turing and GA100 have no other
inline constexpr uint32_t kByTime = 1;
inline constexpr uint32_t kKeepOldest = 0;

struct SetConfigParams {
  size_t size;
  void* reserved;
  void* sampling;
  size_t config_bytes;
  const uint8_t* config;
  size_t hardware_buffer_bytes;
  uint64_t interval;
  uint32_t trigger;
  uint32_t append_mode;
};
static_assert(sizeof(SetConfigParams) == 64);

struct CounterDataSizeParams {
  size_t size;
  void* reserved;
  void* sampling;
  const char** names;
  size_t count;
  uint32_t most_samples;
  size_t bytes;  // out
};
static_assert(sizeof(CounterDataSizeParams) == 56);

struct CounterDataInitializeParams {
  size_t size;
  void* reserved;
  void* sampling;
  size_t bytes;
  uint8_t* image;
};
static_assert(sizeof(CounterDataInitializeParams) == 40);

struct DecodeParams {
  size_t size;
  void* reserved;
  void* sampling;
  uint8_t* image;
  size_t image_bytes;
  uint32_t stop_reason;  // out
  uint8_t overflow;      // out
};
inline constexpr size_t kDecodeBytes = offsetof(DecodeParams, overflow) + 1;
static_assert(kDecodeBytes == 45);

struct CounterDataInfoParams {
  size_t size;
  void* reserved;
  const uint8_t* image;
  size_t image_bytes;
  size_t all_samples;  // out, as those below
  size_t populated_samples;
  size_t completed_samples;
};
static_assert(sizeof(CounterDataInfoParams) == 56);

struct SampleInfoParams {
  size_t size;
  void* reserved;
  void* sampling;
  const uint8_t* image;
  size_t image_bytes;
  size_t sample;
  uint64_t start;  // out: ns on the device's clock
  uint64_t end;    // out
};
static_assert(sizeof(SampleInfoParams) == 64);

struct Library {
  Result (*get_result_string)(Result result, const char** text);
  Result (*initialize)(InitializeParams* params);
  Result (*chip_name)(ChipNameParams* params);
  Result (*availability)(AvailabilityParams* params);
  Result (*host_initialize)(HostInitializeParams* params);
  Result (*host_deinitialize)(HostParams* params);
  Result (*add_metrics)(AddMetricsParams* params);
  Result (*config_size)(ConfigSizeParams* params);
  Result (*config_image)(ConfigImageParams* params);
  Result (*passes)(PassesParams* params);
  Result (*evaluate)(EvaluateParams* params);
  Result (*enable)(EnableParams* params);
  Result (*disable)(SamplingParams* params);
  Result (*set_config)(SetConfigParams* params);
  Result (*start)(SamplingParams* params);
  Result (*stop)(SamplingParams* params);
  Result (*counter_data_size)(CounterDataSizeParams* params);
  Result (*counter_data_initialize)(CounterDataInitializeParams* params);
  Result (*decode)(DecodeParams* params);
  Result (*counter_data_info)(CounterDataInfoParams* params);
  Result (*sample_info)(SampleInfoParams* params);

  // From the CUPTI at `path`; throws std::runtime_error saying what it lacks.
  static Library open(const std::string& path);
  // Throws std::runtime_error with CUPTI's own words, and what to do about missing privileges.
  void check(Result result, const char* what) const;
};

// The host's side of PM sampling for one device: which metrics there are, and what samples mean.
class Host {
 public:
  Host(const Library& library, size_t device);
  ~Host();
  Host(const Host&) = delete;
  Host& operator=(const Host&) = delete;

  // How to sample some metrics; empty: the device does not have them, or not at the same time.
  std::vector<uint8_t> config_for(const std::vector<const char*>& metrics);
  // After config_for() of the same metrics.
  void evaluate(const std::vector<uint8_t>& image, size_t sample,
                const std::vector<const char*>& metrics, double* values) const;
  const std::string& chip() const { return chip_; }

 private:
  void make();
  void drop();

  const Library& library_;
  std::string chip_;
  std::vector<uint8_t> availability_;
  void* host_ = nullptr;
};

}  // namespace stepscope::cupti::pm
