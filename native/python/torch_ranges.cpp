#include "python/torch_ranges.h"

#include <nanobind/nanobind.h>

#include <cstdint>

#include "core/recorder.h"
#include "python/module.h"

namespace nb = nanobind;

namespace stepscope {
namespace {

// What the bridge to torch tells while we record: whether the calling thread's functions are told
// to others, too.
bool (*others_listen)() = nullptr;

PyObject* interned(const char* text) { return PyUnicode_InternFromString(text); }

// The variables of torch's module for profilers; null before it is imported.
PyObject* torch_profiler() {
  static PyObject* const name = interned("torch.autograd.profiler");
  static PyObject* variables = nullptr;  // for good, once it is there
  if (!variables) {
    PyObject* const module = PyDict_GetItemWithError(PyImport_GetModuleDict(), name);
    if (!module || !PyModule_Check(module)) return nullptr;
    variables = Py_NewRef(PyModule_GetDict(module));
  }
  return variables;
}

PyObject* variable(PyObject* name) {
  PyObject* const variables = torch_profiler();
  return variables ? PyDict_GetItemWithError(variables, name) : nullptr;
}

}  // namespace

bool torch_listens() {
  static PyObject* const is_enabled = interned("_is_profiler_enabled");
  if (Recorder::recording()) return others_listen && others_listen();
  return variable(is_enabled) == Py_True;
}

PyObject* begin_torch_range(PyObject* name, PyObject* args) {
  static PyObject* const type_name = interned("record_function");
  static PyObject* const enter = interned("__enter__");
  const nb::error_scope keep_error;
  PyObject* const type = variable(type_name);
  if (!type) return nullptr;
  PyObject* const of_args = args ? args : Py_None;
  PyObject* range = PyObject_CallFunctionObjArgs(type, name, of_args, nullptr);
  PyObject* const entered = range ? PyObject_CallMethodNoArgs(range, enter) : nullptr;
  if (!entered) Py_CLEAR(range);
  Py_XDECREF(entered);
  PyErr_Clear();
  return range;
}

void end_torch_range(PyObject* range) {
  static PyObject* const exit = interned("__exit__");
  const nb::error_scope keep_error;
  PyObject* const result =
      PyObject_CallMethodObjArgs(range, exit, Py_None, Py_None, Py_None, nullptr);
  Py_XDECREF(result);
  PyErr_Clear();
  Py_DECREF(range);
}

void bind_torch_ranges(nb::module_& m) {
  // The address of a function of the bridge's that stays for good.
  m.def(
      "set_others_listen",
      [](uintptr_t function) { others_listen = reinterpret_cast<bool (*)()>(function); },
      nb::arg("function"));
}

}  // namespace stepscope
