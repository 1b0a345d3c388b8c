#include "python/plain_json.h"

#include <charconv>
#include <cmath>
#include <string_view>

#include "json/json_escape.h"
#include "python/text.h"

namespace nb = nanobind;

namespace stepscope {
namespace {

constexpr int kDeepest = 64;  // a list may hold itself

void append(std::string& out, nb::handle value, int depth);

void append_text(std::string& out, nb::handle text) {
  PyObject* holder = text.inc_ref().ptr();
  std::string_view bytes;
  const bool is_text = utf8_of(&holder, &bytes);
  if (is_text) out += json::quoted(bytes);
  Py_DECREF(holder);
  if (!is_text) throw nb::python_error();
}

void append_number(std::string& out, double number) {
  if (!std::isfinite(number)) {
    out += "null";
    return;
  }
  char digits[32];
  const auto end = std::to_chars(digits, digits + sizeof(digits), number).ptr;
  out.append(digits, end);
}

void append_pairs(std::string& out, nb::dict pairs, int depth) {
  out += '{';
  const char* separator = "";
  for (const auto& [key, value] : pairs) {
    if (!nb::isinstance<nb::str>(key)) throw nb::type_error("a key of JSON is a text");
    out += separator;
    append_text(out, key);
    out += ": ";
    append(out, value, depth);
    separator = ", ";
  }
  out += '}';
}

void append_items(std::string& out, nb::handle items, int depth) {
  out += '[';
  const char* separator = "";
  for (const nb::handle item : items) {
    out += separator;
    append(out, item, depth);
    separator = ", ";
  }
  out += ']';
}

void append(std::string& out, nb::handle value, int depth) {
  if (depth == 0) throw nb::type_error("the value is nested too deeply for JSON");
  if (value.is_none()) {
    out += "null";
  } else if (nb::isinstance<nb::bool_>(value)) {
    out += value.is(Py_True) ? "true" : "false";
  } else if (nb::isinstance<nb::int_>(value)) {
    const nb::object digits = nb::steal(PyNumber_ToBase(value.ptr(), 10));
    if (!digits.is_valid()) throw nb::python_error();
    out += nb::borrow<nb::str>(digits).c_str();
  } else if (nb::isinstance<nb::float_>(value)) {
    append_number(out, PyFloat_AsDouble(value.ptr()));
  } else if (nb::isinstance<nb::str>(value)) {
    append_text(out, value);
  } else if (nb::isinstance<nb::dict>(value)) {
    append_pairs(out, nb::borrow<nb::dict>(value), depth - 1);
  } else if (nb::isinstance<nb::list>(value) || nb::isinstance<nb::tuple>(value)) {
    append_items(out, value, depth - 1);
  } else {
    throw nb::type_error("JSON has no form for a value of this type");
  }
}

}  // namespace

std::string json_of(nb::handle value) {
  std::string out;
  append(out, value, kDeepest);
  return out;
}

}  // namespace stepscope
