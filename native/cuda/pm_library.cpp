#include "cuda/pm_library.h"

#include <dlfcn.h>

#include <stdexcept>
#include <utility>

namespace stepscope::cupti::pm {
namespace {

template <typename Function>
void require(void* library, const char* name, Function* function) {
  *function = reinterpret_cast<Function>(dlsym(library, name));
  if (!*function) {
    throw std::runtime_error(std::string("this CUPTI has no ") + name +
                             ": PM sampling needs that of CUDA 12.6 or later");
  }
}

}  // namespace

Library Library::open(const std::string& path) {
  void* const handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle) throw std::runtime_error(dlerror());
  Library library{};
  require(handle, "cuptiGetResultString", &library.get_result_string);
  require(handle, "cuptiProfilerInitialize", &library.initialize);
  require(handle, "cuptiDeviceGetChipName", &library.chip_name);
  require(handle, "cuptiPmSamplingGetCounterAvailability", &library.availability);
  require(handle, "cuptiProfilerHostInitialize", &library.host_initialize);
  require(handle, "cuptiProfilerHostDeinitialize", &library.host_deinitialize);
  require(handle, "cuptiProfilerHostConfigAddMetrics", &library.add_metrics);
  require(handle, "cuptiProfilerHostGetConfigImageSize", &library.config_size);
  require(handle, "cuptiProfilerHostGetConfigImage", &library.config_image);
  require(handle, "cuptiProfilerHostGetNumOfPasses", &library.passes);
  require(handle, "cuptiProfilerHostEvaluateToGpuValues", &library.evaluate);
  require(handle, "cuptiPmSamplingEnable", &library.enable);
  require(handle, "cuptiPmSamplingDisable", &library.disable);
  require(handle, "cuptiPmSamplingSetConfig", &library.set_config);
  require(handle, "cuptiPmSamplingStart", &library.start);
  require(handle, "cuptiPmSamplingStop", &library.stop);
  require(handle, "cuptiPmSamplingGetCounterDataSize", &library.counter_data_size);
  require(handle, "cuptiPmSamplingCounterDataImageInitialize", &library.counter_data_initialize);
  require(handle, "cuptiPmSamplingDecodeData", &library.decode);
  require(handle, "cuptiPmSamplingGetCounterDataInfo", &library.counter_data_info);
  require(handle, "cuptiPmSamplingCounterDataGetSampleInfo", &library.sample_info);
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
