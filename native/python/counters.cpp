// Hardware counters of devices for Python: PM sampling on and off, and what it saw as columns.
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "cuda/counter_sampler.h"
#include "python/columns.h"
#include "python/module.h"

namespace nb = nanobind;

namespace stepscope {
namespace {

nb::list counter_devices(const CounterSampler& sampler) {
  nb::list list;
  for (const CounterDevice& device : sampler.devices()) {
    nb::dict told;
    told["number"] = device.number;
    told["chip"] = device.chip;
    told["obstacle"] = device.obstacle;
    told["metrics"] = device.metrics;
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

nb::dict counter_columns(const CounterSampler& sampler) {
  using R = CounterReading;
  const std::vector<R> readings = sampler.readings();
  Table<R> table(readings);
  table.column<int64_t>("start_ns", [](const R& r) { return r.start_ns; });
  table.column<int64_t>("end_ns", [](const R& r) { return r.end_ns; });
  table.column<int64_t>("device", [](const R& r) { return r.device; });
  for (size_t i = 0; i < kMostCounters; ++i) {
    const std::string name = "counter" + std::to_string(i);
    table.column<int64_t>(name.c_str(), [i](const R& r) { return r.thousandths[i]; });
  }
  nb::dict out = table.columns;
  out["lost"] = sampler.lost();
  out["cpu_ns"] = sampler.cpu_ns();
  out["wall_ns"] = sampler.wall_ns();
  return out;
}

}  // namespace

void bind_counters(nb::module_& m) {
  nb::class_<CounterSampler>(m, "CounterSampler")
      .def(
          "__init__",
          [](CounterSampler* self, const std::string& cupti_path, int64_t interval_ns,
             uint64_t limit_bytes, bool keep_newest, int64_t age_ns,
             std::vector<std::vector<std::string>> candidates) {
            new (self) CounterSampler(cupti_path, {interval_ns, limit_bytes, keep_newest, age_ns},
                                      std::move(candidates));
          },
          nb::arg("cupti_path"), nb::arg("interval_ns"), nb::arg("limit_bytes"),
          nb::arg("keep_newest"), nb::arg("age_ns"), nb::arg("candidates"))
      .def("start", &CounterSampler::start, nb::call_guard<nb::gil_scoped_release>())
      .def("stop", &CounterSampler::stop, nb::call_guard<nb::gil_scoped_release>())
      .def("devices", &counter_devices)
      .def("columns", &counter_columns);
}

}  // namespace stepscope
