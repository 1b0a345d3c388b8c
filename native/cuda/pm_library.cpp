#include "cuda/pm_library.h"

#include <stdexcept>
#include <utility>

#include "cuda/loaded_library.h"

namespace stepscope::cupti::pm {

Library Library::open(const std::string& path) {
  const LoadedLibrary loaded(path, "this CUPTI", ": PM sampling needs that of CUDA 12.6 or later");
  Library library{};
  loaded.require("cuptiGetResultString", &library.get_result_string);
  loaded.require("cuptiProfilerInitialize", &library.initialize);
  loaded.require("cuptiDeviceGetChipName", &library.chip_name);
  loaded.require("cuptiPmSamplingGetCounterAvailability", &library.availability);
  loaded.require("cuptiProfilerHostInitialize", &library.host_initialize);
  loaded.require("cuptiProfilerHostDeinitialize", &library.host_deinitialize);
  loaded.require("cuptiProfilerHostConfigAddMetrics", &library.add_metrics);
  loaded.require("cuptiProfilerHostGetConfigImageSize", &library.config_size);
  loaded.require("cuptiProfilerHostGetConfigImage", &library.config_image);
  loaded.require("cuptiProfilerHostGetNumOfPasses", &library.passes);
  loaded.require("cuptiProfilerHostEvaluateToGpuValues", &library.evaluate);
  loaded.require("cuptiPmSamplingEnable", &library.enable);
  loaded.require("cuptiPmSamplingDisable", &library.disable);
  loaded.require("cuptiPmSamplingSetConfig", &library.set_config);
  loaded.require("cuptiPmSamplingStart", &library.start);
  loaded.require("cuptiPmSamplingStop", &library.stop);
  loaded.require("cuptiPmSamplingGetCounterDataSize", &library.counter_data_size);
  loaded.require("cuptiPmSamplingCounterDataImageInitialize", &library.counter_data_initialize);
  loaded.require("cuptiPmSamplingDecodeData", &library.decode);
  loaded.require("cuptiPmSamplingGetCounterDataInfo", &library.counter_data_info);
  loaded.require("cuptiPmSamplingCounterDataGetSampleInfo", &library.sample_info);
  return library;
}

void Library::check(Result result, const char* what) const {
  if (result == kSuccess) return;
  const char* text = nullptr;
  get_result_string(result, &text);
  std::string says = std::string(what) + ": " + (text ? text : std::to_string(result));
  if (result == kInsufficientPrivileges || result == kVirtualizedWithoutPrivileges) {
    says +=
        " (the driver lets only root, or processes with CAP_SYS_ADMIN, read counters; its option "
        "NVreg_RestrictProfilingToAdminUsers=0 lets everybody)";
  }
  throw std::runtime_error(says);
}

Host::Host(const Library& library, size_t device) : library_(library) {
  auto initialize = sized<InitializeParams>();
  library_.check(library_.initialize(&initialize), "cuptiProfilerInitialize");
  auto chip = sized<ChipNameParams>();
  chip.device = device;
  library_.check(library_.chip_name(&chip), "cuptiDeviceGetChipName");
  chip_ = chip.chip ? chip.chip : "";
  auto available = sized<AvailabilityParams>();
  available.device = device;
  library_.check(library_.availability(&available), "cuptiPmSamplingGetCounterAvailability");
  availability_.resize(available.image_bytes);
  available.image = availability_.data();
  library_.check(library_.availability(&available), "cuptiPmSamplingGetCounterAvailability");
  make();
}

Host::~Host() { drop(); }

void Host::make() {
  auto params = sized<HostInitializeParams>();
  params.profiler_type = kPmSampling;
  params.chip = chip_.c_str();
  params.availability = availability_.data();
  library_.check(library_.host_initialize(&params), "cuptiProfilerHostInitialize");
  host_ = params.host;
}

void Host::drop() {
  if (!host_) return;
  auto params = sized<HostParams>();
  params.host = std::exchange(host_, nullptr);
  library_.host_deinitialize(&params);
}

std::vector<uint8_t> Host::config_for(const std::vector<const char*>& metrics) {
  drop();  // metrics are added to those from before
  make();
  std::vector<const char*> names = metrics;
  auto add = sized<AddMetricsParams>();
  add.host = host_;
  add.names = names.data();
  add.count = names.size();
  if (library_.add_metrics(&add) != kSuccess) return {};
  auto size = sized<ConfigSizeParams>();
  size.host = host_;
  if (library_.config_size(&size) != kSuccess) return {};
  std::vector<uint8_t> image(size.bytes);
  auto config = sized<ConfigImageParams>();
  config.host = host_;
  config.bytes = image.size();
  config.image = image.data();
  if (library_.config_image(&config) != kSuccess) return {};
  auto passes = sized<PassesParams>();
  passes.bytes = image.size();
  passes.image = image.data();
  if (library_.passes(&passes) != kSuccess || passes.passes != 1) return {};
  return image;
}

void Host::evaluate(const std::vector<uint8_t>& image, size_t sample,
                    const std::vector<const char*>& metrics, double* values) const {
  std::vector<const char*> names = metrics;
  auto params = sized<EvaluateParams>();
  params.host = host_;
  params.image = image.data();
  params.image_bytes = image.size();
  params.sample = sample;
  params.names = names.data();
  params.count = names.size();
  params.values = values;
  library_.check(library_.evaluate(&params), "cuptiProfilerHostEvaluateToGpuValues");
}

}  // namespace stepscope::cupti::pm
