// Hardware counters of devices for Python: PM sampling on and off, and what it saw as columns.
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cuda/counter_sampler.h"
#include "python/columns.h"
#include "python/module.h"
#include "python/recovered_tables.h"
#include "python/text.h"

namespace nb = nanobind;

namespace stepscope {
namespace {

nb::dict counter_counts(const CounterSampler& sampler) {
  nb::dict out;
  out["lost"] = sampler.lost();
  out["cpu_ns"] = sampler.cpu_ns();
  out["wall_ns"] = sampler.wall_ns();
  return out;
}

// A forked child has the parent's object without its thread, and CUPTI is the parent's: there, the
// sampler is left as it is, and asked for nothing.
class PythonCounterSampler {
 public:
  PythonCounterSampler(const std::string& cupti_path, int64_t interval_ns, uint64_t limit_bytes,
                       bool keep_newest, int64_t age_ns,
                       std::vector<std::vector<std::string>> candidates)
      : sampler_(std::make_unique<CounterSampler>(
            cupti_path, CounterOptions{interval_ns, limit_bytes, keep_newest, age_ns},
            std::move(candidates))) {}

  ~PythonCounterSampler() {
    if (getpid() != pid_) [[maybe_unused]]
      auto* const left = sampler_.release();
  }

  bool start() { return sampler_->start(); }
  void stop() { sampler_->stop(); }
  nb::list devices() const { return counter_devices(sampler_->devices()); }
  nb::dict counts() const { return counter_counts(*sampler_); }
  nb::dict columns() const { return counter_tables(sampler_->readings()); }

 private:
  std::unique_ptr<CounterSampler> sampler_;
  pid_t pid_ = getpid();
};

}  // namespace

nb::list counter_devices(const std::vector<CounterDevice>& devices) {
  nb::list list;
  for (const CounterDevice& device : devices) {
    nb::dict told;
    told["number"] = device.number;
    told["chip"] = to_str(device.chip);
    told["obstacle"] = to_str(device.obstacle);
    told["metrics"] = to_list(device.metrics);
    told["overflowed"] = device.overflowed;
    nb::list bounds;
    for (const ClockBound& each : device.bounds) {
      bounds.append(nb::make_tuple(each.device_ns, each.from_ns, each.to_ns));
    }
    told["bounds"] = bounds;
    list.append(told);
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

void bind_counters(nb::module_& m) {
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
