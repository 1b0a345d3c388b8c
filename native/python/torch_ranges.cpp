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

// What torch itself says of its profilers. It costs a range that nobody records more than all else,
// so that the answer is kept for as long as nothing in the dictionary changed that it came from.
bool torch_profiles() {
  static PyObject* const is_enabled = interned("_is_profiler_enabled");
#if PY_VERSION_HEX < 0x030C0000  // later versions of Python have no version of a dictionary
  static const PyDictObject* looked_into = nullptr;
  static uint64_t version = 0;
  static bool answer = false;
  if (looked_into && looked_into->ma_version_tag == version) return answer;
  answer = variable(is_enabled) == Py_True;
  PyObject* const variables = torch_profiler();
  looked_into = reinterpret_cast<PyDictObject*>(variables ? variables : PyImport_GetModuleDict());
  version = looked_into->ma_version_tag;
  return answer;
#else
  return variable(is_enabled) == Py_True;
#endif
}

}  // namespace

bool torch_listens() {
  if (Recorder::recording()) return others_listen && others_listen();
  return torch_profiles();
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
