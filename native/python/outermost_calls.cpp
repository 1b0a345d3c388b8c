// Calls of a model: those of objects of a class (torch.nn.Module) that are made outside of any
// other such call, as slices.
//
// They are seen in the slot behind the call operator, tp_call, of each class. Nothing that Python
// code can look at changes: compilers that recognise the plain __call__ (Dynamo) still do, there
// is no frame of ours in a traceback, and a call within a call costs one look at a flag.
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <nanobind/nanobind.h>

#include <string>
#include <string_view>
#include <utility>

#include "core/recorder.h"
#include "json/json_escape.h"
#include "python/context.h"
#include "python/module.h"
#include "python/text.h"

namespace nb = nanobind;

namespace stepscope {
namespace {

// What CPython puts into the slot of a class whose __call__ is written in Python: one function for
// all of them, which looks __call__ up.
ternaryfunc plain_call = nullptr;

thread_local bool is_inside __attribute__((tls_model("initial-exec"))) = false;

PyObject* training_name() {
  static PyObject* const name = PyUnicode_InternFromString("training");
  return name;
}

// Without an exception, whatever the object does.
nb::object quietly(PyObject* result) {
  if (!result) PyErr_Clear();
  return nb::steal(result);
}

// Those who tell whether gradients are recorded, and of which classes. Never freed: a class may
// keep the slot for as long as the process lives.
struct Family {
  PyTypeObject* base;
  PyObject* is_grad_enabled;
  Family* next;
};
Family* families = nullptr;

const Family* family_of(PyTypeObject* type) {
  const Family* family = families;
  while (family && !PyType_IsSubtype(type, family->base)) family = family->next;
  return family;
}

// The inside of a JSON object: the class, whether it is in training mode, and whether what it does
// can be differentiated. The attribute is read as the object's own code would, but for __getattr__.
std::string described(PyObject* self, std::string_view class_name) {
  std::string text = "\"Class\": ";
  text += json::quoted(class_name);
  const nb::object training = quietly(PyObject_GenericGetAttr(self, training_name()));
  if (training.is_valid() && PyBool_Check(training.ptr())) {
    text += training.ptr() == Py_True ? ", \"Training\": 1" : ", \"Training\": 0";
  }
  if (const Family* const family = family_of(Py_TYPE(self))) {
    const nb::object grad = quietly(PyObject_CallNoArgs(family->is_grad_enabled));
    if (grad.is_valid() && PyBool_Check(grad.ptr())) {
      text += grad.ptr() == Py_True ? ", \"Grad\": 1" : ", \"Grad\": 0";
    }
  }
  return text;
}

OpenSlice* begin(PyObject* self) {
  nb::object name = quietly(PyType_GetName(Py_TYPE(self)));
  PyObject* holder = name.release().ptr();
  std::string_view utf8;
  OpenSlice* slice = nullptr;
  if (holder && utf8_of(&holder, &utf8)) {
    slice = Recorder::begin(Kind::kModule, utf8, described(self, utf8), current_context());
  } else {
    PyErr_Clear();
  }
  Py_XDECREF(holder);
  return slice;
}

[[gnu::noinline]] PyObject* call_outermost(PyObject* self, PyObject* args, PyObject* kwargs) {
  is_inside = true;
  OpenSlice* const slice = begin(self);
  PyObject* const result = plain_call(self, args, kwargs);
  if (slice) Recorder::end(slice);
  is_inside = false;
  return result;
}

PyObject* call(PyObject* self, PyObject* args, PyObject* kwargs) {
  if (is_inside || !Recorder::recording()) return plain_call(self, args, kwargs);
  return call_outermost(self, args, kwargs);
}

PyTypeObject* as_type(nb::handle type) { return reinterpret_cast<PyTypeObject*>(type.ptr()); }

// Whose calls are to be seen, and how to learn whether gradients are recorded.
void add_family(nb::type_object base, nb::object is_grad_enabled) {
  if (!plain_call && as_type(base)->tp_call != &call) plain_call = as_type(base)->tp_call;
  for (Family* family = families; family; family = family->next) {
    if (family->base == as_type(base)) return;
  }
  families = new Family{as_type(base.release()), is_grad_enabled.release().ptr(), families};
}

// Watch a class, unless its calls are none of Python code; whether it was watched before.
bool watch_calls(nb::type_object type) {
  ternaryfunc& slot = as_type(type)->tp_call;
  if (slot == &call) return true;
  if (slot == plain_call) slot = &call;
  return false;
}

void leave_calls(nb::type_object type) {
  ternaryfunc& slot = as_type(type)->tp_call;
  if (slot == &call) slot = plain_call;
}

}  // namespace

void bind_outermost_calls(nb::module_& m) {
  m.def("add_call_family", &add_family, nb::arg("base"), nb::arg("is_grad_enabled"));
  m.def("watch_calls", &watch_calls, nb::arg("type"));
  m.def("leave_calls", &leave_calls, nb::arg("type"));
}

}  // namespace stepscope
