// The writer of Perfetto traces as Python sees it: columns in, chunks of bytes out.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <string>
#include <tuple>

#include "perfetto/writer.h"
#include "python/columns.h"
#include "python/module.h"

namespace nb = nanobind;

namespace stepscope {
namespace {

using Ids = ColumnView<uint32_t>;
using Numbers = ColumnView<int64_t>;
using PerfettoIntegers = std::vector<std::tuple<std::string, Ids, Numbers>>;

// The columns of a table that Python gives as a dict.
class Columns {
 public:
  explicit Columns(const nb::dict& columns) : columns_(columns) {}

  template <typename T>
  std::span<const T> operator()(const char* name) const {
    if (!columns_.contains(name) || columns_[name].is_none()) return {};
    return as_span(nb::cast<ColumnView<T>>(columns_[name], false));
  }

 private:
  nb::dict columns_;
};

perfetto::SparseColumn flows_of(const Columns& columns, const char* rows, const char* values) {
  return {"", columns.operator()<uint32_t>(rows), columns.operator()<int64_t>(values)};
}

// Keeps the Python objects alive that the writer only looks at.
class PerfettoWriter {
 public:
  PerfettoWriter(nb::bytes blob, Numbers offsets, Numbers uuids, int64_t first_ns,
                 uint64_t free_uuid)
      : blob_(std::move(blob)),
        offsets_(std::move(offsets)),
        uuids_(std::move(uuids)),
        writer_({{blob_.c_str(), blob_.size()}, text_offsets(blob_, offsets_)}, as_span(uuids_),
                first_ns, free_uuid) {}

  void add_events(const nb::dict& table, PerfettoIntegers integers) {
    const Columns columns(table);
    perfetto::Events events;
    events.name = columns.operator()<uint32_t>("name");
    events.category = columns.operator()<uint32_t>("category");
    events.track = columns.operator()<uint32_t>("track");
    events.start_ns = columns.operator()<int64_t>("start_ns");
    events.duration_ns = columns.operator()<int64_t>("duration_ns");
    events.parent = columns.operator()<int32_t>("parent");
    events.is_async = columns.operator()<uint8_t>("is_async");
    events.args.rest = columns.operator()<uint32_t>("rest");
    events.args.stack = columns.operator()<uint32_t>("stack");
    events.flows = flows_of(columns, "flow_row", "flow");
    events.last_flows = flows_of(columns, "last_flow_row", "last_flow");
    for (const auto& [key, rows, values] : integers) {
      events.args.integers.push_back({key, as_span(rows), as_span(values)});
    }
    writer_.add(std::move(events));
    kept_tables_.push_back(table);
    kept_integers_.push_back(std::move(integers));
  }

  void add_counter(uint64_t uuid, Numbers time_ns, std::optional<Numbers> values,
                   std::optional<ColumnView<double>> doubles) {
    writer_.add(perfetto::Counter{uuid, as_span(time_ns), as_span_or_empty(values),
                                  as_span_or_empty(doubles)});
    kept_counters_.emplace_back(std::move(time_ns), std::move(values), std::move(doubles));
  }

  Column<uint8_t> next(size_t chunk_bytes) {
    perfetto::PacketBuffer buffer;
    {
      nb::gil_scoped_release release;
      buffer = writer_.next(chunk_bytes);
    }
    return to_column(std::move(buffer));
  }

  size_t written() const { return writer_.written(); }

 private:
  using KeptCounter =
      std::tuple<Numbers, std::optional<Numbers>, std::optional<ColumnView<double>>>;

  nb::bytes blob_;
  Numbers offsets_;
  Numbers uuids_;
  std::vector<nb::dict> kept_tables_;
  std::vector<PerfettoIntegers> kept_integers_;
  std::vector<KeptCounter> kept_counters_;
  perfetto::Writer writer_;
};

}  // namespace

void bind_perfetto_writer(nb::module_& m) {
  nb::class_<PerfettoWriter>(m, "PerfettoWriter")
      .def(nb::init<nb::bytes, Numbers, Numbers, int64_t, uint64_t>(), nb::arg("blob"),
           nb::arg("offsets"), nb::arg("uuids"), nb::arg("first_ns"), nb::arg("free_uuid"))
      .def("add_events", &PerfettoWriter::add_events, nb::arg("table"), nb::arg("integers"))
      .def("add_counter", &PerfettoWriter::add_counter, nb::arg("uuid"), nb::arg("time_ns"),
           nb::arg("values").none(), nb::arg("doubles").none())
      .def("next", &PerfettoWriter::next, nb::arg("chunk_bytes"))
      .def_prop_ro("written", &PerfettoWriter::written);
}

}  // namespace stepscope
