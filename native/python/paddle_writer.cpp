// The writer of Paddle's protobuf files as Python sees it: columns in, bytes out.
#include <nanobind/stl/pair.h>
#include <nanobind/stl/vector.h>

#include <stdexcept>
#include <string>

#include "paddle/proto_writer.h"
#include "protobuf/wire_writer.h"
#include "python/columns.h"
#include "python/module.h"

namespace nb = nanobind;

namespace stepscope {
namespace {

// The columns of a table that Python gives as a dict. The views live as long as this.
class GivenColumns {
 public:
  explicit GivenColumns(const nb::dict& columns) : columns_(columns) {}

  template <typename T>
  std::span<const T> operator()(const char* name) {
    if (!columns_.contains(name)) {
      throw std::invalid_argument(std::string("the column ") + name + " is missing");
    }
    return as_span(nb::cast<ColumnView<T>>(columns_[name], false));
  }
  paddle::Ids ids(const char* name) { return (*this).operator()<uint32_t>(name); }
  paddle::Numbers numbers(const char* name) { return (*this).operator()<int64_t>(name); }
  std::span<const uint8_t> types() { return (*this).operator()<uint8_t>("type"); }

 private:
  nb::dict columns_;
};

paddle::HostNodes host_nodes(GivenColumns table) {
  return {table.ids("name"),         table.types(),
          table.numbers("start_ns"), table.numbers("duration_ns"),
          table.numbers("parent"),   table.ids("supplement"),
          table.numbers("op_id"),    table.ids("thread")};
}

paddle::RuntimeNodes runtime_nodes(GivenColumns table) {
  return {table.ids("owner"),           table.ids("name"),
          table.numbers("start_ns"),    table.numbers("duration_ns"),
          table.numbers("correlation"), table.numbers("callback")};
}

paddle::MemoryNodes memory_nodes(GivenColumns table) {
  return {table.ids("owner"),
          table.types(),
          table.ids("place"),
          table.ids("thread"),
          table.numbers("time_ns"),
          table.numbers("address"),
          table.numbers("increase"),
          table.numbers("allocated"),
          table.numbers("reserved"),
          table.numbers("peak_allocated"),
          table.numbers("peak_reserved")};
}

paddle::DeviceNodes device_nodes(GivenColumns table,
                                 const std::vector<ColumnView<int64_t>>& details) {
  paddle::DeviceNodes nodes = {table.ids("owner"),
                               table.ids("name"),
                               table.types(),
                               table.numbers("start_ns"),
                               table.numbers("duration_ns"),
                               table.numbers("device"),
                               table.numbers("context"),
                               table.numbers("stream"),
                               table.numbers("correlation"),
                               table.ids("info"),
                               {}};
  for (const auto& column : details) nodes.details.push_back(as_span(column));
  return nodes;
}

nb::bytes encode_paddle_trees(const nb::bytes& blob, const ColumnView<int64_t>& offsets,
                              const std::vector<nb::bytes>& encoded,
                              const std::vector<std::pair<uint64_t, uint64_t>>& threads,
                              const nb::dict& host, const nb::dict& runtime, const nb::dict& memory,
                              const nb::dict& device,
                              const std::vector<ColumnView<int64_t>>& details) {
  paddle::Result result;
  result.texts.blob = {blob.c_str(), blob.size()};
  result.texts.offsets = text_offsets(blob, offsets);
  for (const nb::bytes& part : encoded) {
    result.texts.encoded.emplace_back(part.c_str(), part.size());
  }
  for (const auto& [process, id] : threads) result.threads.push_back({process, id});
  result.host = host_nodes(GivenColumns(host));
  result.runtime = runtime_nodes(GivenColumns(runtime));
  result.memory = memory_nodes(GivenColumns(memory));
  result.device = device_nodes(GivenColumns(device), details);
  std::string file;
  {
    nb::gil_scoped_release release;
    file = paddle::encode_trees(result);
  }
  return nb::bytes(file.data(), file.size());
}

// A message as pairs of a field's number and its value: an int, a float of 32 bits, a text, bytes,
// or the pairs of a message within.
protobuf::WireWriter encoded(const nb::list& fields) {
  protobuf::WireWriter out;
  for (nb::handle pair : fields) {
    const auto [field, value] = nb::cast<std::pair<uint32_t, nb::object>>(pair);
    if (PyLong_Check(value.ptr())) {
      out.number(field, PyLong_AsUnsignedLongLongMask(value.ptr()));
    } else if (PyFloat_Check(value.ptr())) {
      out.single(field, PyFloat_AS_DOUBLE(value.ptr()));
    } else if (PyUnicode_Check(value.ptr())) {
      PyObject* utf8 = PyUnicode_AsEncodedString(value.ptr(), "utf-8", "replace");
      if (utf8 == nullptr) throw nb::python_error();
      const auto text = nb::steal<nb::bytes>(utf8);
      out.bytes(field, {text.c_str(), text.size()});
    } else if (PyBytes_Check(value.ptr())) {
      const auto bytes = nb::borrow<nb::bytes>(value);
      out.bytes(field, {bytes.c_str(), bytes.size()});
    } else {
      out.bytes(field, encoded(nb::cast<nb::list>(value)).view());
    }
  }
  return out;
}

nb::bytes encode_proto_fields(const nb::list& fields) {
  const protobuf::WireWriter out = encoded(fields);
  return nb::bytes(out.view().data(), out.view().size());
}

}  // namespace

void bind_paddle_writer(nb::module_& m) {
  m.def("encode_proto_fields", &encode_proto_fields, nb::arg("fields"));
  m.def("encode_paddle_trees", &encode_paddle_trees, nb::arg("blob"), nb::arg("offsets"),
        nb::arg("encoded"), nb::arg("threads"), nb::arg("host"), nb::arg("runtime"),
        nb::arg("memory"), nb::arg("device"), nb::arg("details"));
}

}  // namespace stepscope
