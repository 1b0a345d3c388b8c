// The bound methods of a range: what `with` looks up. A C function bound by CPython is an
// allocation that the garbage collector tracks; these come from a free list, where they keep the
// reference to their type.
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <structmember.h>

#include <iterator>

#include "python/range.h"

namespace stepscope {
namespace {

PyTypeObject* range_type = nullptr;

struct BoundMethod {
  PyObject_HEAD vectorcallfunc call;
  Range* range;
};

PyTypeObject* bound_type = nullptr;
BoundMethod* spare_methods[8];
int spare_count = 0;

PyObject* bind(Range* range, vectorcallfunc call) {
  BoundMethod* method = nullptr;
  if (spare_count) {
    method = spare_methods[--spare_count];
    Py_SET_REFCNT(reinterpret_cast<PyObject*>(method), 1);
  } else {
    method = PyObject_New(BoundMethod, bound_type);
    if (!method) return nullptr;
  }
  method->call = call;
  Py_INCREF(range);
  method->range = range;
  return reinterpret_cast<PyObject*>(method);
}

void bound_dealloc(PyObject* object) {
  auto* method = reinterpret_cast<BoundMethod*>(object);
  Py_DECREF(method->range);
  if (spare_count < static_cast<int>(std::size(spare_methods))) {
    spare_methods[spare_count++] = method;
    return;
  }
  PyTypeObject* type = Py_TYPE(object);
  PyObject_Free(object);
  Py_DECREF(type);
}

PyObject* call_enter(PyObject* callable, PyObject* const*, size_t, PyObject*) {
  Range* range = reinterpret_cast<BoundMethod*>(callable)->range;
  if (!enter(range)) return nullptr;
  Py_INCREF(range);
  return reinterpret_cast<PyObject*>(range);
}

// Returns None: an exception inside the block goes on.
PyObject* call_exit(PyObject* callable, PyObject* const*, size_t, PyObject*) {
  leave(reinterpret_cast<BoundMethod*>(callable)->range);
  Py_RETURN_NONE;
}

PyMemberDef bound_members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(BoundMethod, call), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr}};
PyType_Slot bound_slots[] = {{Py_tp_dealloc, reinterpret_cast<void*>(&bound_dealloc)},
                             {Py_tp_call, reinterpret_cast<void*>(&PyVectorcall_Call)},
                             {Py_tp_members, bound_members},
                             {0, nullptr}};
PyType_Spec bound_spec = {
    "stepscope._native._BoundMethod", sizeof(BoundMethod), 0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    bound_slots};

// ---- the descriptors that bind them

struct MethodDescriptor {
  PyObject_HEAD vectorcallfunc call;
};

PyObject* descriptor_get(PyObject* descriptor, PyObject* instance, PyObject*) {
  if (!instance || !PyObject_TypeCheck(instance, range_type)) {
    Py_INCREF(descriptor);
    return descriptor;
  }
  return bind(reinterpret_cast<Range*>(instance),
              reinterpret_cast<MethodDescriptor*>(descriptor)->call);
}

// type.__enter__(range), as contextlib.ExitStack calls it.
PyObject* descriptor_call(PyObject* descriptor, PyObject* args, PyObject*) {
  PyObject* instance = PyTuple_GET_SIZE(args) ? PyTuple_GET_ITEM(args, 0) : nullptr;
  if (!instance || !PyObject_TypeCheck(instance, range_type)) {
    PyErr_SetString(PyExc_TypeError, "this method needs a record_function object");
    return nullptr;
  }
  PyObject* bound = descriptor_get(descriptor, instance, nullptr);
  if (!bound) return nullptr;
  PyObject* result = PyObject_CallNoArgs(bound);
  Py_DECREF(bound);
  return result;
}

PyType_Slot descriptor_slots[] = {{Py_tp_descr_get, reinterpret_cast<void*>(&descriptor_get)},
                                  {Py_tp_call, reinterpret_cast<void*>(&descriptor_call)},
                                  {0, nullptr}};
PyType_Spec descriptor_spec = {"stepscope._native._RangeMethod", sizeof(MethodDescriptor), 0,
                               Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                               descriptor_slots};

bool add_method(PyTypeObject* descriptor_type, const char* name, vectorcallfunc call) {
  auto* descriptor = PyObject_New(MethodDescriptor, descriptor_type);
  if (!descriptor) return false;
  descriptor->call = call;
  PyObject* object = reinterpret_cast<PyObject*>(descriptor);
  const int failed = PyObject_SetAttrString(reinterpret_cast<PyObject*>(range_type), name, object);
  Py_DECREF(object);
  return !failed;
}

}  // namespace

bool add_range_methods(PyTypeObject* type) {
  range_type = type;
  bound_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&bound_spec));
  auto* descriptor_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&descriptor_spec));
  return bound_type && descriptor_type && add_method(descriptor_type, "__enter__", &call_enter) &&
         add_method(descriptor_type, "__exit__", &call_exit);
}

}  // namespace stepscope
