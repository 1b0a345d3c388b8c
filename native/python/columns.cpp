// Operations on columns: order and nesting.
#include "python/columns.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/tuple.h>

#include <stdexcept>
#include <tuple>

#include "core/nesting.h"
#include "python/module.h"

namespace nb = nanobind;

namespace stepscope {
namespace {

nb::object slice_order_py(const ColumnView<int64_t>& start, const ColumnView<int64_t>& duration) {
  if (start.shape(0) != duration.shape(0)) {
    throw std::invalid_argument("start and duration differ in length");
  }
  std::optional<std::vector<uint32_t>> order;
  {
    nb::gil_scoped_release release;
    order = slice_order(as_span(start), as_span(duration));
  }
  if (!order) return nb::none();
  return nb::cast(to_column(std::move(*order)));
}

auto nest_py(const ColumnView<int64_t>& start, const ColumnView<int64_t>& duration,
             const ColumnView<uint32_t>& track, const ColumnView<uint8_t>& flags,
             const std::optional<ColumnView<uint32_t>>& context) {
  const size_t n = start.shape(0);
  if (duration.shape(0) != n || track.shape(0) != n || flags.shape(0) != n ||
      (context && context->shape(0) != n)) {
    throw std::invalid_argument("the columns differ in length");
  }
  Nesting nesting;
  {
    nb::gil_scoped_release release;
    nesting = nest({as_span(start), as_span(duration), as_span(track), as_span(flags),
                    as_span_or_empty(context)});
  }
  return std::make_tuple(to_column(std::move(nesting.parent)), to_column(std::move(nesting.depth)),
                         to_column(std::move(nesting.self_ns)), nesting.overlaps,
                         std::make_tuple(to_column(std::move(nesting.outlasted)),
                                         to_column(std::move(nesting.outlasting))));
}

}  // namespace

void bind_columns(nb::module_& m) {
  m.def("slice_order", &slice_order_py, nb::arg("start_ns"), nb::arg("duration_ns"));
  m.def("nest", &nest_py, nb::arg("start_ns"), nb::arg("duration_ns"), nb::arg("track"),
        nb::arg("flags"), nb::arg("context").none());
}

}  // namespace stepscope
