// What blocks of memory hold, as the program's own objects tell: asked before every step of an
// optimizer, so it is done here and not in Python.
#include <Python.h>

#include "core/recorder.h"
#include "python/module.h"

namespace stepscope {
namespace {

// As in stepscope.trace.model.MemoryOwner.
constexpr uint8_t kGradient = 2;
constexpr uint8_t kInput = 4;

// A reference that is given back.
class Owned {
 public:
  explicit Owned(PyObject* object) : object_(object) {}
  ~Owned() { Py_XDECREF(object_); }
  Owned(const Owned&) = delete;
  Owned& operator=(const Owned&) = delete;
  PyObject* get() const { return object_; }
  explicit operator bool() const { return object_ != nullptr; }

 private:
  PyObject* object_;
};

struct Names {
  PyObject* grad = PyUnicode_InternFromString("grad");
  PyObject* grad_fn = PyUnicode_InternFromString("grad_fn");
  PyObject* is_cpu = PyUnicode_InternFromString("is_cpu");
  PyObject* data_ptr = PyUnicode_InternFromString("data_ptr");
  PyObject* nbytes = PyUnicode_InternFromString("nbytes");
  PyObject* storage_offset = PyUnicode_InternFromString("storage_offset");
};

const Names& names() {
  static const Names* const only = new Names;
  return *only;
}

// -1 with an exception set when there is none.
int64_t number(PyObject* object) { return object ? PyLong_AsLongLong(object) : -1; }

int64_t called(PyObject* object, PyObject* method) {
  return number(Owned(PyObject_CallMethodNoArgs(object, method)).get());
}

bool is(PyObject* object, PyObject* attribute, PyObject* expected) {
  const Owned value(PyObject_GetAttr(object, attribute));
  return value.get() == expected;
}

void note(int64_t address, int64_t bytes, Device device, uint8_t owner) {
  if (address <= 0 || bytes <= 0) return;
  Recorder::owned(static_cast<uintptr_t>(address), bytes, device, owner);
}

// note_gradients(parameters, bytes, devices): say of the parameters' gradients that they are such.
// All are tuples; a device is a word of the core's. As few questions as can be: this runs in every
// step.
PyObject* note_gradients(PyObject*, PyObject* const* args, Py_ssize_t count) {
  if (count != 3 || !PyTuple_Check(args[0]) || !PyTuple_Check(args[1]) || !PyTuple_Check(args[2]) ||
      PyTuple_GET_SIZE(args[0]) != PyTuple_GET_SIZE(args[1]) ||
      PyTuple_GET_SIZE(args[0]) != PyTuple_GET_SIZE(args[2])) {
    PyErr_SetString(PyExc_TypeError, "note_gradients() takes three tuples of one length");
    return nullptr;
  }
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(args[0]); ++i) {
    const Owned gradient(PyObject_GetAttr(PyTuple_GET_ITEM(args[0], i), names().grad));
    if (gradient && gradient.get() != Py_None) {
      const auto word = static_cast<uint32_t>(number(PyTuple_GET_ITEM(args[2], i)));
      note(called(gradient.get(), names().data_ptr), number(PyTuple_GET_ITEM(args[1], i)),
           {static_cast<uint8_t>(word >> 8), static_cast<int8_t>(word & 0xFF)}, kGradient);
    }
    PyErr_Clear();  // a statement less is no reason to break a training
  }
  Py_RETURN_NONE;
}

// Whether a tensor is the whole of a block on the CPU that no operator has made.
bool is_plain_input(PyObject* tensor) {
  return is(tensor, names().is_cpu, Py_True) && is(tensor, names().grad_fn, Py_None) &&
         called(tensor, names().storage_offset) == 0;
}

// note_inputs(values, plain): say of the tensors in a tuple that they are inputs; False when one of
// the values is anything but a tensor of exactly that type on the CPU: nothing was said then.
PyObject* note_inputs(PyObject*, PyObject* const* args, Py_ssize_t count) {
  if (count != 2 || !PyTuple_Check(args[0])) {
    PyErr_SetString(PyExc_TypeError, "note_inputs() takes a tuple and the type of tensors");
    return nullptr;
  }
  const Py_ssize_t size = PyTuple_GET_SIZE(args[0]);
  for (Py_ssize_t i = 0; i < size; ++i) {
    PyObject* const value = PyTuple_GET_ITEM(args[0], i);
    if (reinterpret_cast<PyObject*>(Py_TYPE(value)) != args[1] || !is_plain_input(value)) {
      PyErr_Clear();
      Py_RETURN_FALSE;
    }
  }
  for (Py_ssize_t i = 0; i < size; ++i) {
    PyObject* const value = PyTuple_GET_ITEM(args[0], i);
    const Owned nbytes(PyObject_GetAttr(value, names().nbytes));
    note(called(value, names().data_ptr), number(nbytes.get()), Device{}, kInput);
    PyErr_Clear();
  }
  Py_RETURN_TRUE;
}

PyMethodDef functions[] = {
    {"note_gradients", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(&note_gradients)),
     METH_FASTCALL, nullptr},
    {"note_inputs", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(&note_inputs)),
     METH_FASTCALL, nullptr},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace

void bind_owners(nanobind::module_& m) {
  if (PyModule_AddFunctions(m.ptr(), functions) < 0) throw nanobind::python_error();
}

}  // namespace stepscope
