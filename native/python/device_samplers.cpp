// The samplers of devices for Python, and what they read as columns: NVML's power and clocks, and
// hardware counters by PM sampling.
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cuda/counter_sampler.h"
#include "cuda/power_sampler.h"
#include "python/columns.h"
#include "python/module.h"
#include "python/recovered_tables.h"
#include "python/text.h"

namespace nb = nanobind;

namespace stepscope {
namespace {

template <typename Sampler>
nb::dict counts_of(const Sampler& sampler) {
  nb::dict out;
  out["lost"] = sampler.lost();
  out["cpu_ns"] = sampler.cpu_ns();
  out["wall_ns"] = sampler.wall_ns();
  return out;
}

nb::list power_devices(const PowerSampler& sampler) {
  nb::list list;
  for (const PoweredDevice& device : sampler.devices()) {
    nb::dict entry;
    entry["number"] = device.number;
    entry["name"] = to_str(device.name);
    entry["pci"] = nb::make_tuple(device.pci_domain, device.pci_bus, device.pci_device);
    entry["power_limit_mw"] = device.power_limit_mw;
    entry["most_sm_mhz"] = device.most_sm_mhz;
    list.append(entry);
  }
  return list;
}

nb::dict power_counts(const PowerSampler& sampler) {
  nb::dict out = counts_of(sampler);
  out["passes"] = sampler.passes();
  out["tells_power"] = sampler.tells_power();
  return out;
}

// A forked child inherits the object but not its thread, and CUPTI stays the parent's. There, the
// sampler is neither used nor destroyed.
class PythonCounterSampler {
 public:
  PythonCounterSampler(const std::string& cupti_path, int64_t interval_ns, uint64_t limit_bytes,
                       bool keep_newest, int64_t age_ns,
                       std::vector<std::vector<std::string>> candidates)
      : sampler_(std::make_unique<CounterSampler>(
            cupti_path, ReadingOptions{interval_ns, limit_bytes, keep_newest, age_ns},
            std::move(candidates))) {}

  ~PythonCounterSampler() {
    if (getpid() != pid_) [[maybe_unused]]
      auto* const not_destroyed = sampler_.release();
  }

  bool start() { return sampler_->start(); }
  void stop() { sampler_->stop(); }
  nb::list devices() const { return counter_devices(sampler_->devices()); }
  nb::dict counts() const { return counts_of(*sampler_); }
  nb::dict columns() const { return counter_tables(sampler_->readings()); }

 private:
  std::unique_ptr<CounterSampler> sampler_;
  pid_t pid_ = getpid();
};

}  // namespace

nb::dict power_tables(const std::vector<PowerReading>& readings) {
  using R = PowerReading;
  Table<R> table(readings);
  table.column<int64_t>("time_ns", [](const R& r) { return r.time_ns; });
  table.column<int64_t>("device", [](const R& r) { return r.device; });
  table.column<int64_t>("power_mw", [](const R& r) { return r.power_mw; });
  table.column<int64_t>("energy_mj", [](const R& r) { return r.energy_mj; });
  table.column<int64_t>("sm_mhz", [](const R& r) { return r.sm_mhz; });
  table.column<int64_t>("memory_mhz", [](const R& r) { return r.memory_mhz; });
  table.column<int64_t>("celsius", [](const R& r) { return r.celsius; });
  table.column<int64_t>("busy_percent", [](const R& r) { return r.busy_percent; });
  table.column<int64_t>("memory_busy_percent", [](const R& r) { return r.memory_busy_percent; });
  table.column<int64_t>("reasons", [](const R& r) { return r.reasons; });
  return table.columns;
}

nb::list counter_devices(const std::vector<CounterDevice>& devices) {
  nb::list list;
  for (const CounterDevice& device : devices) {
    nb::dict entry;
    entry["number"] = device.number;
    entry["chip"] = to_str(device.chip);
    entry["obstacle"] = to_str(device.obstacle);
    entry["metrics"] = to_list(device.metrics);
    entry["overflowed"] = device.overflowed;
    nb::list bounds;
    for (const ClockBound& bound : device.bounds) {
      bounds.append(nb::make_tuple(bound.device_ns, bound.from_ns, bound.to_ns));
    }
    entry["bounds"] = bounds;
    list.append(entry);
  }
  return list;
}

nb::dict counter_tables(const std::vector<CounterReading>& readings) {
  using R = CounterReading;
  Table<R> table(readings);
  table.column<int64_t>("start_ns", [](const R& r) { return r.start_ns; });
  table.column<int64_t>("end_ns", [](const R& r) { return r.end_ns; });
  table.column<int64_t>("device", [](const R& r) { return r.device; });
  for (size_t i = 0; i < kMostCounters; ++i) {
    const std::string name = "counter" + std::to_string(i);
    table.column<int64_t>(name.c_str(), [i](const R& r) { return r.thousandths[i]; });
  }
  return table.columns;
}

void bind_device_samplers(nb::module_& m) {
  m.def("load_nvml", &PowerSampler::load, nb::arg("path"),
        nb::call_guard<nb::gil_scoped_release>());
  nb::class_<PowerSampler>(m, "PowerSampler")
      .def(
          "__init__",
          [](PowerSampler* self, int64_t interval_ns, uint64_t limit_bytes, bool keep_newest,
             int64_t age_ns, const std::vector<uint32_t>& devices) {
            new (self) PowerSampler({interval_ns, limit_bytes, keep_newest, age_ns}, devices);
          },
          nb::arg("interval_ns"), nb::arg("limit_bytes"), nb::arg("keep_newest"), nb::arg("age_ns"),
          nb::arg("devices"))
      .def("start", &PowerSampler::start)
      .def("stop", &PowerSampler::stop, nb::call_guard<nb::gil_scoped_release>())
      .def("devices", &power_devices)
      .def("counts", &power_counts)
      .def("columns", [](const PowerSampler& sampler) { return power_tables(sampler.readings()); });
  nb::class_<PythonCounterSampler>(m, "CounterSampler")
      .def(nb::init<const std::string&, int64_t, uint64_t, bool, int64_t,
                    std::vector<std::vector<std::string>>>(),
           nb::arg("cupti_path"), nb::arg("interval_ns"), nb::arg("limit_bytes"),
           nb::arg("keep_newest"), nb::arg("age_ns"), nb::arg("candidates"))
      .def("start", &PythonCounterSampler::start, nb::call_guard<nb::gil_scoped_release>())
      .def("stop", &PythonCounterSampler::stop, nb::call_guard<nb::gil_scoped_release>())
      .def("devices", &PythonCounterSampler::devices)
      .def("counts", &PythonCounterSampler::counts)
      .def("columns", &PythonCounterSampler::columns);
}

}  // namespace stepscope
