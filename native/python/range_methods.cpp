// The bound methods of a range: what `with` looks up. A C function bound by CPython is an
// allocation that the garbage collector tracks; these are parts of their range.
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <structmember.h>

#include "python/range.h"

namespace stepscope {
namespace {

PyTypeObject* bound_type = nullptr;

// What happens to most ranges is kept apart from the rest: it then needs no stack.
[[gnu::noinline]] PyObject* bind_another(const BoundMethod* method) {
  BoundMethod* const another = PyObject_New(BoundMethod, bound_type);
  if (!another) return nullptr;
  another->call = method->call;
  another->range = method->range;
  Py_INCREF(another->range);
  return reinterpret_cast<PyObject*>(another);
}

PyObject* bind(BoundMethod* method) {
  if (Py_REFCNT(method)) [[unlikely]]
    return bind_another(method);  // somebody has it
  Py_SET_REFCNT(reinterpret_cast<PyObject*>(method), 1);
  Py_INCREF(method->range);
  return reinterpret_cast<PyObject*>(method);
}

[[gnu::noinline]] void free_another(PyObject* method) {
  PyTypeObject* const type = Py_TYPE(method);
  PyObject_Free(method);
  Py_DECREF(type);
}

void bound_dealloc(PyObject* object) {
  auto* const method = reinterpret_cast<BoundMethod*>(object);
  Range* const range = method->range;
  if (method != &range->enter && method != &range->exit) [[unlikely]]
    free_another(object);
  Py_DECREF(range);
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
  PyObject_HEAD BoundMethod Range::* method;
};

[[gnu::noinline]] PyObject* get_of_any(MethodDescriptor* descriptor, PyObject* instance) {
  if (!instance || !PyObject_TypeCheck(instance, range_type)) {
    return Py_NewRef(reinterpret_cast<PyObject*>(descriptor));
  }
  return bind(&(reinterpret_cast<Range*>(instance)->*descriptor->method));
}

PyObject* descriptor_get(PyObject* object, PyObject* instance, PyObject*) {
  auto* const descriptor = reinterpret_cast<MethodDescriptor*>(object);
  if (!instance || !Py_IS_TYPE(instance, range_type)) return get_of_any(descriptor, instance);
  return bind(&(reinterpret_cast<Range*>(instance)->*descriptor->method));
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

bool add_method(PyTypeObject* descriptor_type, const char* name, BoundMethod Range::* method) {
  auto* descriptor = PyObject_New(MethodDescriptor, descriptor_type);
  if (!descriptor) return false;
  descriptor->method = method;
  PyObject* object = reinterpret_cast<PyObject*>(descriptor);
  const int failed = PyObject_SetAttrString(reinterpret_cast<PyObject*>(range_type), name, object);
  Py_DECREF(object);
  return !failed;
}

}  // namespace

void init_range_methods(Range* range) {
  const auto init = [&](BoundMethod* method, vectorcallfunc call) {
    Py_SET_REFCNT(reinterpret_cast<PyObject*>(method), 0);
    Py_SET_TYPE(reinterpret_cast<PyObject*>(method), bound_type);
    method->call = call;
    method->range = range;
  };
  init(&range->enter, &call_enter);
  init(&range->exit, &call_exit);
}

bool add_range_methods() {
  bound_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&bound_spec));
  auto* descriptor_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&descriptor_spec));
  return bound_type && descriptor_type && add_method(descriptor_type, "__enter__", &Range::enter) &&
         add_method(descriptor_type, "__exit__", &Range::exit);
}

}  // namespace stepscope
