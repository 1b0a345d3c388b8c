// Linear passes over columns, as Python calls them.
#include "core/tree_passes.h"

#include <nanobind/stl/pair.h>

#include <stdexcept>
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
  m.def("inside_same", &inside_same_py, nb::arg("parent"), nb::arg("key"), nb::arg("marked"));
  m.def("uncovered", &uncovered_py, nb::arg("key"), nb::arg("keys"), nb::arg("start_ns"),
        nb::arg("end_ns"));
  m.def("lanes", &lanes_py, nb::arg("start_ns"), nb::arg("duration_ns"), nb::arg("track"),
        nb::arg("parent"));
}

}  // namespace stepscope
