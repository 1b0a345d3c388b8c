#define PY_SSIZE_T_CLEAN
#include "python/text.h"

#include <nanobind/stl/string.h>

#include <string>

#include "core/demangled.h"
#include "python/module.h"

namespace stepscope {

bool utf8_of(PyObject** holder, std::string_view* text) {
  Py_ssize_t size = 0;
  const char* data = PyUnicode_AsUTF8AndSize(*holder, &size);
  if (!data) {
    PyErr_Clear();
    PyObject* bytes = PyUnicode_AsEncodedString(*holder, "utf-8", "replace");
    PyObject* clean = bytes ? PyUnicode_FromEncodedObject(bytes, "utf-8", "strict") : nullptr;
    Py_XDECREF(bytes);
    if (!clean) return false;
    Py_SETREF(*holder, clean);
    data = PyUnicode_AsUTF8AndSize(clean, &size);
    if (!data) return false;
  }
  *text = {data, static_cast<size_t>(size)};
  return true;
}

nanobind::str to_str(std::string_view text) {
  PyObject* str =
      PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "replace");
  if (str == nullptr) throw nanobind::python_error();
  return nanobind::steal<nanobind::str>(str);
}

void bind_text(nanobind::module_& m) {
  m.def(
      "demangled", [](const std::string& symbol) { return to_str(demangled(symbol.c_str())); },
      nanobind::arg("symbol"));
}

}  // namespace stepscope
