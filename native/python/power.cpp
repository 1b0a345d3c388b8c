// How devices are doing, for Python: the thread that reads NVML, and what it read as columns.
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "cuda/power_sampler.h"
#include "python/columns.h"
#include "python/module.h"
#include "python/recovered_tables.h"
#include "python/text.h"

namespace nb = nanobind;

namespace stepscope {
namespace {

nb::list power_devices(const PowerSampler& sampler) {
  nb::list list;
  for (const PoweredDevice& device : sampler.devices()) {
    nb::dict told;
    told["number"] = device.number;
    told["name"] = to_str(device.name);
    told["pci"] = nb::make_tuple(device.pci_domain, device.pci_bus, device.pci_device);
    told["power_limit_mw"] = device.power_limit_mw;
    told["most_sm_mhz"] = device.most_sm_mhz;
    list.append(told);
  }
  return list;
}

nb::dict power_counts(const PowerSampler& sampler) {
  nb::dict out;
  out["lost"] = sampler.lost();
  out["cpu_ns"] = sampler.cpu_ns();
  out["wall_ns"] = sampler.wall_ns();
  out["passes"] = sampler.passes();
  out["tells_power"] = sampler.tells_power();
  return out;
}

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

void bind_power(nb::module_& m) {
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
}

}  // namespace stepscope
