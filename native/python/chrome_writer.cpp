// The Chrome JSON writer: columns in, chunks of bytes out.
#include "json/chrome_writer.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <tuple>

#include "python/columns.h"
#include "python/module.h"

namespace nb = nanobind;

namespace stepscope {
namespace {

using Ids = ColumnView<uint32_t>;
using Numbers = ColumnView<int64_t>;
using ChromeIntegers = std::vector<std::tuple<nb::bytes, Ids, Numbers>>;
using PairColumns = std::pair<ChromeIntegers, std::optional<Ids>>;

std::string_view as_text(const nb::bytes& bytes) {
  return {static_cast<const char*>(bytes.data()), bytes.size()};
}

Pairs as_pairs(const PairColumns& columns) {
  Pairs pairs;
  for (const auto& [key, rows, values] : columns.first) {
    pairs.integers.push_back({std::string(as_text(key)), as_span(rows), as_span(values)});
  }
  pairs.rest = as_span_or_empty(columns.second);
  return pairs;
}

std::vector<std::string> as_strings(const std::vector<nb::bytes>& texts) {
  std::vector<std::string> strings;
  for (const nb::bytes& text : texts) strings.emplace_back(as_text(text));
  return strings;
}

// Keeps the Python objects alive that the core writer only looks at.
class PyChromeWriter {
 public:
  PyChromeWriter(nb::bytes blob, Numbers offsets, const std::vector<nb::bytes>& tracks,
                 bool continues)
      : blob_(std::move(blob)),
        offsets_(std::move(offsets)),
        writer_(as_text(blob_), text_offsets(blob_, offsets_), as_strings(tracks), continues) {}

  void add(std::optional<ColumnView<uint8_t>> phase, Ids category, Ids name, Numbers time_ns,
           std::optional<Numbers> duration_ns, Ids track, PairColumns args, PairColumns fields,
           std::optional<int64_t> origin_ns) {
    writer_.add({as_span_or_empty(phase), as_span(category), as_span(name), as_span(time_ns),
                 as_span_or_empty(duration_ns), as_span(track), as_pairs(args), as_pairs(fields),
                 origin_ns});
    columns_in_use_.emplace_back(std::move(phase), std::move(category), std::move(name),
                                 std::move(time_ns), std::move(duration_ns), std::move(track),
                                 std::move(args), std::move(fields));
  }

  Column<uint8_t> next(size_t chunk_bytes) {
    JsonBuffer buffer;
    {
      nb::gil_scoped_release release;
      buffer = writer_.next(chunk_bytes);
    }
    return to_column(std::move(buffer));
  }

  size_t written() const { return writer_.written(); }

 private:
  using Kept = std::tuple<std::optional<ColumnView<uint8_t>>, Ids, Ids, Numbers,
                          std::optional<Numbers>, Ids, PairColumns, PairColumns>;

  nb::bytes blob_;
  Numbers offsets_;
  std::vector<Kept> columns_in_use_;
  ChromeWriter writer_;
};

}  // namespace

void bind_chrome_writer(nb::module_& m) {
  nb::class_<PyChromeWriter>(m, "ChromeWriter")
      .def(nb::init<nb::bytes, Numbers, const std::vector<nb::bytes>&, bool>(), nb::arg("blob"),
           nb::arg("offsets"), nb::arg("tracks"), nb::arg("continues"))
      .def("add", &PyChromeWriter::add, nb::arg("phase").none(), nb::arg("category"),
           nb::arg("name"), nb::arg("time_ns"), nb::arg("duration_ns").none(), nb::arg("track"),
           nb::arg("args"), nb::arg("fields"), nb::arg("origin_ns") = nb::none())
      .def("next", &PyChromeWriter::next, nb::arg("chunk_bytes"))
      .def_prop_ro("written", &PyChromeWriter::written);
}

}  // namespace stepscope
