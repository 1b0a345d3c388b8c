// Linear passes over columns, as Python calls them.
#include "core/tree_passes.h"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/tuple.h>

#include <stdexcept>
#include <tuple>
#include <utility>

#include "python/columns.h"
#include "python/module.h"

namespace nb = nanobind;

namespace stepscope {
namespace {

void check(bool same_length) {
  if (!same_length) throw std::invalid_argument("the columns differ in length");
}

template <typename Pass>
auto computed(const Pass& pass) {
  nb::gil_scoped_release release;
  return pass();
}

template <typename Place>
Column<int64_t> summed_at_py(const ColumnView<Place>& place, const ColumnView<int64_t>& values,
                             size_t places) {
  check(place.shape(0) == values.shape(0));
  return to_column(computed([&] { return summed_at(as_span(place), as_span(values), places); }));
}

Column<int64_t> summed_up_py(const ColumnView<int32_t>& parent, const ColumnView<int64_t>& values) {
  check(parent.shape(0) == values.shape(0));
  return to_column(computed([&] { return summed_up(as_span(parent), as_span(values)); }));
}

Column<int32_t> handed_down_py(const ColumnView<int32_t>& parent,
                               const ColumnView<int32_t>& values) {
  check(parent.shape(0) == values.shape(0));
  return to_column(computed([&] { return handed_down(as_span(parent), as_span(values)); }));
}

bool is_sound_py(const ColumnView<int64_t>& start, const ColumnView<int64_t>& duration,
                 const ColumnView<int64_t>& own, const ColumnView<int32_t>& parent,
                 const ColumnView<int32_t>& depth, int64_t latest_ns) {
  const size_t rows = start.shape(0);
  check(duration.shape(0) == rows && own.shape(0) == rows && parent.shape(0) == rows &&
        depth.shape(0) == rows);
  const SliceTree slices{as_span(start), as_span(duration), as_span(own), as_span(parent),
                         as_span(depth)};
  return computed([&] { return is_sound(slices, latest_ns); });
}

Column<uint8_t> inside_same_py(const ColumnView<int32_t>& parent, const ColumnView<uint32_t>& key,
                               const ColumnView<uint8_t>& marked) {
  check(parent.shape(0) == key.shape(0) && parent.shape(0) == marked.shape(0));
  return to_column(
      computed([&] { return inside_same(as_span(parent), as_span(key), as_span(marked)); }));
}

auto uncovered_py(const ColumnView<int64_t>& key, size_t keys, const ColumnView<int64_t>& start,
                  const ColumnView<int64_t>& end) {
  check(key.shape(0) == start.shape(0) && key.shape(0) == end.shape(0));
  for (const int64_t one : as_span(key)) {
    if (one < 0 || static_cast<size_t>(one) >= keys) throw std::invalid_argument("no such key");
  }
  Uncovered found =
      computed([&] { return uncovered(as_span(key), keys, as_span(start), as_span(end)); });
  return std::make_pair(to_column(std::move(found.from_ns)), to_column(std::move(found.outermost)));
}

Column<int64_t> covered_before_py(const ColumnView<int64_t>& start, const ColumnView<int64_t>& end,
                                  const ColumnView<int64_t>& time) {
  check(start.shape(0) == end.shape(0));
  return to_column(
      computed([&] { return covered_before(as_span(start), as_span(end), as_span(time)); }));
}

auto part_moments_py(const ColumnView<int64_t>& start, const ColumnView<int64_t>& duration,
                     const ColumnView<int32_t>& parent, const ColumnView<int32_t>& depth,
                     const ColumnView<int8_t>& part, const ColumnView<int64_t>& rows,
                     int8_t outside) {
  const size_t n = start.shape(0);
  check(duration.shape(0) == n && parent.shape(0) == n && depth.shape(0) == n &&
        part.shape(0) == n);
  for (const int64_t row : as_span(rows)) {
    if (row < 0 || static_cast<size_t>(row) >= n) throw std::invalid_argument("no such row");
  }
  Moments moments = computed([&] {
    return part_moments(
        {as_span(start), as_span(duration), as_span(parent), as_span(depth), as_span(part)},
        as_span(rows), outside);
  });
  return std::make_tuple(to_column(std::move(moments.part)), to_column(std::move(moments.start_ns)),
                         to_column(std::move(moments.end_ns)));
}

template <typename Value>
auto distinct_py(const ColumnView<Value>& values, int64_t least, int64_t most) {
  for (const Value value : as_span(values)) {
    if (value < least || value > most) throw std::invalid_argument("a value is out of range");
  }
  Distinct values_seen = computed([&] { return distinct(as_span(values), least, most); });
  return std::make_pair(to_column(std::move(values_seen.values)),
                        to_column(std::move(values_seen.codes)));
}

Column<int64_t> present_py(const ColumnView<uint32_t>& numbers) {
  return to_column(computed([&] { return present(as_span(numbers)); }));
}

auto paths_py(const ColumnView<int64_t>& rows, const ColumnView<int32_t>& around,
              const ColumnView<int64_t>& base, const ColumnView<int64_t>& code, int64_t first) {
  const size_t n = around.shape(0);
  check(base.shape(0) == n && code.shape(0) == n);
  for (const int64_t row : as_span(rows)) {
    if (row < 0 || static_cast<size_t>(row) >= n || around.data()[row] >= static_cast<int64_t>(n)) {
      throw std::invalid_argument("no such row");
    }
  }
  Paths result = computed(
      [&] { return paths({as_span(rows), as_span(around), as_span(base), as_span(code)}, first); });
  return std::make_tuple(to_column(std::move(result.node)), to_column(std::move(result.parent)),
                         to_column(std::move(result.code)), to_column(std::move(result.row)));
}

Column<int32_t> lanes_py(const ColumnView<int64_t>& start, const ColumnView<int64_t>& duration,
                         const ColumnView<uint32_t>& track, const ColumnView<int32_t>& parent) {
  const size_t n = start.shape(0);
  check(duration.shape(0) == n && track.shape(0) == n && parent.shape(0) == n);
  return to_column(computed(
      [&] { return lanes(as_span(start), as_span(duration), as_span(track), as_span(parent)); }));
}

}  // namespace

void bind_tree_passes(nb::module_& m) {
  m.def("summed_at", &summed_at_py<int64_t>, nb::arg("place").noconvert(), nb::arg("values"),
        nb::arg("places"));
  m.def("summed_at", &summed_at_py<int32_t>, nb::arg("place").noconvert(), nb::arg("values"),
        nb::arg("places"));
  m.def("summed_at", &summed_at_py<uint32_t>, nb::arg("place").noconvert(), nb::arg("values"),
        nb::arg("places"));
  m.def("summed_up", &summed_up_py, nb::arg("parent"), nb::arg("values"));
  m.def("handed_down", &handed_down_py, nb::arg("parent"), nb::arg("values"));
  m.def("is_sound", &is_sound_py, nb::arg("start_ns"), nb::arg("duration_ns"), nb::arg("self_ns"),
        nb::arg("parent"), nb::arg("depth"), nb::arg("latest_ns"));
  m.def("inside_same", &inside_same_py, nb::arg("parent"), nb::arg("key"), nb::arg("marked"));
  m.def("uncovered", &uncovered_py, nb::arg("key"), nb::arg("keys"), nb::arg("start_ns"),
        nb::arg("end_ns"));
  m.def("covered_before", &covered_before_py, nb::arg("start_ns"), nb::arg("end_ns"),
        nb::arg("time_ns"));
  m.def("part_moments", &part_moments_py, nb::arg("start_ns"), nb::arg("duration_ns"),
        nb::arg("parent"), nb::arg("depth"), nb::arg("part"), nb::arg("rows"), nb::arg("outside"));
  m.def("distinct", &distinct_py<int64_t>, nb::arg("values").noconvert(), nb::arg("least"),
        nb::arg("most"));
  m.def("distinct", &distinct_py<int32_t>, nb::arg("values").noconvert(), nb::arg("least"),
        nb::arg("most"));
  m.def("distinct", &distinct_py<uint32_t>, nb::arg("values").noconvert(), nb::arg("least"),
        nb::arg("most"));
  m.def("present", &present_py, nb::arg("numbers"));
  m.def("paths", &paths_py, nb::arg("rows"), nb::arg("around"), nb::arg("base"), nb::arg("code"),
        nb::arg("first"));
  m.def("lanes", &lanes_py, nb::arg("start_ns"), nb::arg("duration_ns"), nb::arg("track"),
        nb::arg("parent"));
}

}  // namespace stepscope
