// Device activity for Python: CUPTI on and off, and what it recorded as columns.
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <map>
#include <utility>

#include "core/clock.h"
#include "cuda/device_collector.h"
#include "python/columns.h"
#include "python/module.h"
#include "python/recorded_tables.h"
#include "python/recovered_tables.h"

namespace nb = nanobind;

namespace stepscope {
namespace {

// CUPTI numbers the functions that are called: their names go behind those of the device's work.
template <typename FunctionName>
void give_calls_names(DeviceColumns* columns, const FunctionName& function_name) {
  std::map<std::pair<DeviceRecordKind, uint32_t>, uint32_t> places;
  for (DeviceRecord& record : columns->records) {
    if (!is_call(record)) continue;
    const auto [place, is_new] = places.try_emplace({record.kind, record.name},
                                                    static_cast<uint32_t>(columns->names.size()));
    if (is_new) columns->names.push_back(function_name(record.kind, record.name));
    record.name = place->second;
  }
}

Column<int32_t> shape_column(const std::vector<LaunchShape>& shapes) {
  std::vector<int32_t> values;
  for (const LaunchShape& shape : shapes) {
    values.insert(values.end(), shape.grid, shape.grid + 3);
    values.insert(values.end(), shape.block, shape.block + 3);
    values.push_back(static_cast<int32_t>(shape.registers_per_thread));
    values.push_back(shape.shared_memory);
  }
  return to_column(std::move(values));
}

nb::list names_of(const std::vector<std::string>& names) {
  nb::list list;
  for (const std::string& name : names) list.append(nb::bytes(name.data(), name.size()));
  return list;
}

Table<DeviceRecord> table_of(const std::vector<DeviceRecord>& records, const TickMap& map) {
  using R = DeviceRecord;
  Table<R> table(records);
  table.column<int64_t>("start_ns", [&](const R& r) { return map.ns(r.start_ticks); });
  table.column<int64_t>("duration_ns",
                        [&](const R& r) { return map.ns(r.end_ticks) - map.ns(r.start_ticks); });
  table.column<uint8_t>("kind", [](const R& r) { return r.kind; });
  table.column<uint32_t>("name", [](const R& r) { return r.name; });
  table.column<int64_t>("correlation", [](const R& r) { return r.correlation; });
  table.column<int64_t>("device", [](const R& r) { return r.device; });
  table.column<int64_t>("context", [](const R& r) { return r.context; });
  table.column<int64_t>("stream", [](const R& r) { return r.stream; });
  table.column<uint32_t>("shape", [](const R& r) { return r.shape; });
  table.column<int64_t>("bytes", [](const R& r) { return r.bytes; });
  table.column<int64_t>("graph", [](const R& r) { return r.graph; });
  table.column<int64_t>("graph_node", [](const R& r) { return r.graph_node; });
  return table;
}

nb::dict dict_of(const DeviceColumns& columns, const TickMap& map) {
  nb::dict out = table_of(columns.records, map).columns;
  out["names"] = names_of(columns.names);
  out["shapes"] = shape_column(columns.shapes);
  out["lost"] = columns.lost;
  return out;
}

nb::dict stop(uint64_t since_ticks) {
  DeviceColumns columns;
  TickMap map;
  {
    nb::gil_scoped_release release;
    columns = DeviceCollector::stop(since_ticks);
    give_calls_names(&columns, &DeviceCollector::function_name);
    map = TickMap().closed();
  }
  return dict_of(columns, map);
}

}  // namespace

nb::dict device_tables(const Recovered& recovered) {
  DeviceColumns columns = recovered.device;
  for (DeviceRecord& record : columns.records) {
    const bool is_kernel = record.kind == DeviceRecordKind::kKernel;
    if (is_kernel && record.shape >= columns.shapes.size()) record.shape = 0;
  }
  give_calls_names(&columns, [&](DeviceRecordKind kind, uint32_t function) {
    const auto name = recovered.calls.find({static_cast<uint32_t>(kind), function});
    return name == recovered.calls.end() ? std::string() : name->second;
  });
  std::erase_if(columns.records, [&](const DeviceRecord& record) {
    return record.kind > kLastKind || record.name >= columns.names.size() ||
           (record.kind == DeviceRecordKind::kKernel && columns.shapes.empty());
  });
  return dict_of(columns, recovered.tick_map);
}

nb::list device_column_types() { return table_of({}, TickMap()).types; }

void bind_cuda(nb::module_& m) {
  m.def("load_cupti", &DeviceCollector::load, nb::arg("path"));
  m.def(
      "start_cuda",
      [](uint64_t limit_bytes, bool keep_newest, double ring_seconds, uint32_t extras,
         bool beside) {
        const uint64_t age_ticks = ring_seconds > 0 ? Clock::ticks_in(ring_seconds) : 0;
        return DeviceCollector::start(beside, limit_bytes, keep_newest, age_ticks, extras);
      },
      nb::arg("limit_bytes"), nb::arg("keep_newest"), nb::arg("ring_seconds"),
      nb::arg("extras") = 0, nb::arg("beside") = false, nb::call_guard<nb::gil_scoped_release>());
  m.def("stop_cuda", &stop, nb::arg("since_ticks"));
  m.def(
      "end_cuda", [](uint64_t since_ticks) { return DeviceCollector::stop(since_ticks).lost; },
      nb::arg("since_ticks"), nb::call_guard<nb::gil_scoped_release>());
  m.def("forget_cuda_after_fork", &DeviceCollector::forget_after_fork);
}

}  // namespace stepscope
