// Device activity's Python face: CUPTI on and off, and what it told as columns.
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <map>
#include <utility>

#include "core/clock.h"
#include "cuda/device_collector.h"
#include "python/columns.h"
#include "python/module.h"

namespace nb = nanobind;

namespace stepscope {
namespace {

using Records = std::vector<DeviceRecord>;

template <typename T, typename Field>
Column<T> column(const Records& records, Field field) {
  std::vector<T> values;
  values.reserve(records.size());
  for (const DeviceRecord& record : records) values.push_back(static_cast<T>(field(record)));
  return to_column(std::move(values));
}

// Calls are numbered by CUPTI: give their names a place behind those of the device's work.
void name_calls(DeviceColumns* columns) {
  std::map<std::pair<DeviceRecordKind, uint32_t>, uint32_t> places;
  for (DeviceRecord& record : columns->records) {
    if (!is_call(record)) continue;
    const auto [place, is_new] = places.try_emplace({record.kind, record.name},
                                                    static_cast<uint32_t>(columns->names.size()));
    if (is_new) columns->names.push_back(DeviceCollector::function_name(record.kind, record.name));
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

nb::dict stop(uint64_t since_ticks) {
  DeviceColumns columns;
  TickMap map;
  {
    nb::gil_scoped_release release;
    columns = DeviceCollector::stop(since_ticks);
    name_calls(&columns);
    map = TickMap().closed();
  }
  const Records& records = columns.records;
  using R = DeviceRecord;
  nb::dict out;
  out["start_ns"] = column<int64_t>(records, [&map](const R& r) { return map.ns(r.start_ticks); });
  out["duration_ns"] = column<int64_t>(
      records, [&map](const R& r) { return map.ns(r.end_ticks) - map.ns(r.start_ticks); });
  out["kind"] = column<uint8_t>(records, [](const R& r) { return r.kind; });
  out["name"] = column<uint32_t>(records, [](const R& r) { return r.name; });
  out["correlation"] = column<int64_t>(records, [](const R& r) { return r.correlation; });
  out["device"] = column<int64_t>(records, [](const R& r) { return r.device; });
  out["context"] = column<int64_t>(records, [](const R& r) { return r.context; });
  out["stream"] = column<int64_t>(records, [](const R& r) { return r.stream; });
  out["shape"] = column<uint32_t>(records, [](const R& r) { return r.shape; });
  out["bytes"] = column<int64_t>(records, [](const R& r) { return r.bytes; });
  out["graph"] = column<int64_t>(records, [](const R& r) { return r.graph; });
  out["graph_node"] = column<int64_t>(records, [](const R& r) { return r.graph_node; });
  out["names"] = names_of(columns.names);
  out["shapes"] = shape_column(columns.shapes);
  out["lost"] = columns.lost;
  return out;
}

}  // namespace

void bind_cuda(nb::module_& m) {
  m.def("load_cupti", &DeviceCollector::load, nb::arg("path"));
  m.def("start_cuda", &DeviceCollector::start, nb::arg("limit_bytes"), nb::arg("keep_newest"),
        nb::arg("all_calls"), nb::call_guard<nb::gil_scoped_release>());
  m.def("stop_cuda", &stop, nb::arg("since_ticks"));
  m.def("forget_cuda_after_fork", &DeviceCollector::forget_after_fork);
}

}  // namespace stepscope
