#include "python/torch_ranges.h"

#include <nanobind/nanobind.h>

#include <cstdint>

#include "core/recorder.h"
#include "python/interrupts.h"
#include "python/module.h"
#include "python/text.h"

namespace nb = nanobind;

namespace stepscope {
namespace {

// Set by the bridge to torch: whether others, too, see the functions of the calling thread.
bool (*others_listen)() = nullptr;

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

bool torch_profiles_now() {
  static PyObject* const is_enabled = interned("_is_profiler_enabled");
  return variable(is_enabled) == Py_True;
}

// Asking torch is most of the cost of a range that is not recorded, so the answer is kept until the
// dictionary that it came from changes.
#if PY_VERSION_HEX < 0x030C0000  // later versions of Python have no version of a dictionary
struct {
  const PyDictObject* looked_into;
  uint64_t version;
  bool profiles;
} answer{};

[[gnu::noinline]] bool ask_torch() {
  answer.profiles = torch_profiles_now();
  PyObject* const variables = torch_profiler();
  answer.looked_into =
      reinterpret_cast<PyDictObject*>(variables ? variables : PyImport_GetModuleDict());
  answer.version = answer.looked_into->ma_version_tag;
  return answer.profiles;
}

bool torch_profiles() {
  if (answer.looked_into && answer.looked_into->ma_version_tag == answer.version) [[likely]] {
    return answer.profiles;
  }
  return ask_torch();
}
#else
bool torch_profiles() { return torch_profiles_now(); }
#endif

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
  drop_error();
  return range;
}

void end_torch_range(PyObject* range) {
  static PyObject* const exit = interned("__exit__");
  const nb::error_scope keep_error;
  PyObject* const result =
      PyObject_CallMethodObjArgs(range, exit, Py_None, Py_None, Py_None, nullptr);
  Py_XDECREF(result);
  drop_error();
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
