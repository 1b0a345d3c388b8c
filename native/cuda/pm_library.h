// CUPTI's PM sampling as it was found at run time.
#pragma once

#include <string>
#include <vector>

#include "cuda/pm_abi.h"

namespace stepscope::cupti::pm {

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
