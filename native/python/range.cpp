// record_function: the user's range, as a C type whose `with` block costs tens of nanoseconds.
#include "python/range.h"

#include <nanobind/nanobind.h>
#include <structmember.h>

#include <iterator>

#include "core/recorder.h"
#include "python/context.h"
#include "python/module.h"
#include "python/text.h"
#include "python/torch_ranges.h"

namespace stepscope {

PyTypeObject* range_type = nullptr;

namespace {

bool encode_texts(Range* self) {
  return utf8_of(&self->name, &self->name_utf8) &&
         (!self->args || utf8_of(&self->args, &self->args_utf8));
}

// Several threads and tasks may have entered one range. The entry to leave is the latest one of
// this thread and task; without one, an entry that was not recorded (null); else the latest of all,
// as when a range is handed over to another thread.
OpenSlice* take_own(Range* self) {
  const uint32_t context = current_context();
  const uint32_t thread = Recorder::thread();
  const auto is_own = [&](const OpenSlice* slice) {
    return slice->record.thread == thread && slice->record.slice.context == context;
  };
  OpenSlice* own = self->open;
  std::vector<OpenSlice*>* const earlier = self->also_open;
  if (!is_own(own)) {
    for (size_t i = earlier ? earlier->size() : 0; i-- > 0;) {
      own = (*earlier)[i];
      if (!is_own(own)) continue;
      earlier->erase(earlier->begin() + static_cast<ptrdiff_t>(i));
      return own;
    }
    if (self->unrecorded) {
      --self->unrecorded;
      return nullptr;
    }
    own = self->open;
  }
  self->open = nullptr;
  if (earlier && !earlier->empty()) {
    self->open = earlier->back();
    earlier->pop_back();
  }
  return own;
}

// Most ranges are made, entered once and dropped. Spare ones keep the reference to their type.
Range* spare_ranges[16];
int spare_range_count = 0;

Range* allocate(PyTypeObject* type) {
  if (type != range_type || !spare_range_count) {
    auto* const range = reinterpret_cast<Range*>(type->tp_alloc(type, 0));
    if (range) init_range_methods(range);
    return range;
  }
  Range* range = spare_ranges[--spare_range_count];
  Py_SET_REFCNT(reinterpret_cast<PyObject*>(range), 1);
  return range;
}

void release(Range* range, PyTypeObject* type) {
  if (type == range_type && spare_range_count < static_cast<int>(std::size(spare_ranges))) {
    spare_ranges[spare_range_count++] = range;
    return;
  }
  type->tp_free(range);
  Py_DECREF(type);
}

PyObject* make(PyTypeObject* type, PyObject* name, PyObject* args) {
  if (!PyUnicode_Check(name)) {
    PyErr_Format(PyExc_TypeError, "record_function needs a name that is a str, not %.100s: %R",
                 Py_TYPE(name)->tp_name, name);
    return nullptr;
  }
  if (args && args != Py_None && !PyUnicode_Check(args)) {
    PyErr_Format(PyExc_TypeError,
                 "record_function's args must be a str or None, not %.100s: %R; pass str(...)",
                 Py_TYPE(args)->tp_name, args);
    return nullptr;
  }
  Range* self = allocate(type);
  if (!self) return nullptr;
  Py_INCREF(name);
  self->name = name;
  self->args = args == Py_None ? nullptr : args;
  Py_XINCREF(self->args);
  self->name_utf8 = {};
  self->args_utf8 = {};
  self->open = nullptr;
  self->also_open = nullptr;
  self->unrecorded = 0;
  self->as_torchs = nullptr;
  return reinterpret_cast<PyObject*>(self);
}

PyObject* range_new(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  static const char* keywords[] = {"name", "args", nullptr};
  PyObject* name = nullptr;
  PyObject* detail = nullptr;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|O:record_function",
                                   const_cast<char**>(keywords), &name, &detail)) {
    return nullptr;
  }
  return make(type, name, detail);
}

// The tuple and the dict that vectorcalls do without.
using SlowCall = PyObject* (*)(PyTypeObject*, PyObject*, PyObject*);

PyObject* call_type(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  return PyType_Type.tp_call(reinterpret_cast<PyObject*>(type), args, kwargs);
}

[[gnu::noinline]] PyObject* call_slowly(SlowCall call, PyObject* type, PyObject* const* args,
                                        Py_ssize_t count, PyObject* keywords) {
  PyObject* tuple = PyTuple_New(count);
  PyObject* kwargs = keywords ? PyDict_New() : nullptr;
  PyObject* result = nullptr;
  if (tuple && (!keywords || kwargs)) {
    for (Py_ssize_t i = 0; i < count; ++i) {
      Py_INCREF(args[i]);
      PyTuple_SET_ITEM(tuple, i, args[i]);
    }
    bool ok = true;
    for (Py_ssize_t i = 0; keywords && ok && i < PyTuple_GET_SIZE(keywords); ++i) {
      ok = PyDict_SetItem(kwargs, PyTuple_GET_ITEM(keywords, i), args[count + i]) == 0;
    }
    if (ok) result = call(reinterpret_cast<PyTypeObject*>(type), tuple, kwargs);
  }
  Py_XDECREF(tuple);
  Py_XDECREF(kwargs);
  return result;
}

// record_function("name"), without building the tuple that tp_new takes.
PyObject* range_vectorcall(PyObject* type, PyObject* const* args, size_t nargsf,
                           PyObject* keywords) {
  const Py_ssize_t count = PyVectorcall_NARGS(nargsf);
  if (!keywords && (count == 1 || count == 2)) {
    return make(reinterpret_cast<PyTypeObject*>(type), args[0], count == 2 ? args[1] : nullptr);
  }
  return call_slowly(&range_new, type, args, count, keywords);
}

// Of a subclass made in Python, type("name") is as quick: no frame of its __new__ is run.
PyObject* hastened_vectorcall(PyObject* type, PyObject* const* args, size_t nargsf,
                              PyObject* keywords) {
  const Py_ssize_t count = PyVectorcall_NARGS(nargsf);
  if (!keywords && count == 1) {
    return make(reinterpret_cast<PyTypeObject*>(type), args[0], nullptr);
  }
  return call_slowly(&call_type, type, args, count, keywords);
}

PyObject* hasten(PyObject*, PyObject* type) {
  if (!PyType_Check(type) || reinterpret_cast<PyTypeObject*>(type) == range_type ||
      !PyType_IsSubtype(reinterpret_cast<PyTypeObject*>(type), range_type)) {
    PyErr_Format(PyExc_TypeError, "hasten() needs a subclass of record_function, not %R", type);
    return nullptr;
  }
  reinterpret_cast<PyTypeObject*>(type)->tp_vectorcall = &hastened_vectorcall;
  Py_INCREF(type);
  return type;
}

// A range that is dropped inside its block ends here. If an exception drops it, that is kept.
[[gnu::noinline]] void leave_all(Range* self) {
  const nanobind::error_scope keep_error;
  self->unrecorded = 0;
  while (self->open || (self->as_torchs && !self->as_torchs->empty())) leave(self);
  delete self->as_torchs;
  delete self->also_open;
}

void range_dealloc(PyObject* object) {
  auto* self = reinterpret_cast<Range*>(object);
  if (self->open || self->as_torchs || self->also_open) [[unlikely]]
    leave_all(self);
  Py_XDECREF(self->name);
  Py_XDECREF(self->args);
  release(self, Py_TYPE(object));
}

PyObject* range_call(PyObject* self, PyObject* args, PyObject* kwargs) {
  PyObject* module = PyImport_ImportModule("stepscope.record.decorate");
  PyObject* decorate = module ? PyObject_GetAttrString(module, "decorate") : nullptr;
  Py_XDECREF(module);
  PyObject* bound = decorate ? PyMethod_New(decorate, self) : nullptr;
  Py_XDECREF(decorate);
  PyObject* result = bound ? PyObject_Call(bound, args, kwargs) : nullptr;
  Py_XDECREF(bound);
  return result;
}

PyObject* range_repr(PyObject* object) {
  return PyUnicode_FromFormat("record_function(%R)", reinterpret_cast<Range*>(object)->name);
}

// A copy or an unpickled range has the same name, and has not been entered.
PyObject* range_reduce(PyObject* object, PyObject*) {
  const auto* self = reinterpret_cast<Range*>(object);
  PyObject* const args = self->args ? self->args : Py_None;
  PyObject* state = PyObject_GetAttrString(object, "__dict__");  // only subclasses have one
  if (!state) {
    PyErr_Clear();
    return Py_BuildValue("O(OO)", Py_TYPE(object), self->name, args);
  }
  return Py_BuildValue("O(OO)N", Py_TYPE(object), self->name, args, state);
}

constexpr char kHastenDoc[] =
    "hasten(type, /)\n--\n\n"
    "Let a subclass be made of a name alone without a frame of Python; a class decorator.\n\n"
    "Its __new__ must make the same of it. Classes that derive from it are not hastened.";
PyMethodDef range_functions[] = {{"hasten", &hasten, METH_O, kHastenDoc},
                                 {nullptr, nullptr, 0, nullptr}};

PyMethodDef range_methods[] = {{"__reduce__", &range_reduce, METH_NOARGS, nullptr},
                               {nullptr, nullptr, 0, nullptr}};
PyMemberDef range_members[] = {
    {"name", T_OBJECT_EX, offsetof(Range, name), READONLY, "what the trace calls the range"},
    {"args", T_OBJECT, offsetof(Range, args), READONLY, "a text kept with the range, or None"},
    {nullptr, 0, 0, 0, nullptr}};
constexpr char kRangeDoc[] =
    "record_function(name, args=None)\n--\n\n"
    "A named range of the program: a context manager and a decorator.\n\n"
    "Reusable and re-entrant; may be shared by threads and asyncio tasks. Costs nearly nothing\n"
    "while nothing records.";
PyType_Slot range_slots[] = {{Py_tp_new, reinterpret_cast<void*>(&range_new)},
                             {Py_tp_dealloc, reinterpret_cast<void*>(&range_dealloc)},
                             {Py_tp_call, reinterpret_cast<void*>(&range_call)},
                             {Py_tp_repr, reinterpret_cast<void*>(&range_repr)},
                             {Py_tp_methods, range_methods},
                             {Py_tp_members, range_members},
                             {Py_tp_doc, const_cast<char*>(kRangeDoc)},
                             {0, nullptr}};
PyType_Spec range_spec = {"stepscope.record_function", sizeof(Range), 0,
                          Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, range_slots};

// False when torch has no such ranges.
[[gnu::noinline]] bool enter_torchs(Range* self) {
  PyObject* const range = begin_torch_range(self->name, self->args);
  if (!range) return false;
  if (!self->as_torchs) self->as_torchs = new std::vector<PyObject*>;
  self->as_torchs->push_back(range);
  return true;
}

[[gnu::noinline]] bool enter_recorded(Range* self) {
  if (!self->name_utf8.data() && !encode_texts(self)) return false;
  OpenSlice* const slice =
      Recorder::begin(Kind::kRange, self->name_utf8, self->args_utf8, current_context());
  if (!slice) {
    ++self->unrecorded;
    return true;
  }
  if (self->open) {
    if (!self->also_open) self->also_open = new std::vector<OpenSlice*>;
    self->also_open->push_back(self->open);
  }
  self->open = slice;
  return true;
}

[[gnu::noinline]] void leave_entered(Range* self) {
  if (self->as_torchs && !self->as_torchs->empty()) [[unlikely]] {
    PyObject* const range = self->as_torchs->back();
    self->as_torchs->pop_back();
    return end_torch_range(range);
  }
  OpenSlice* slice = self->open;
  if (!slice) {
    if (self->unrecorded) --self->unrecorded;
    return;
  }
  if (self->unrecorded || (self->also_open && !self->also_open->empty())) [[unlikely]] {
    slice = take_own(self);
    if (!slice) return;
  } else {
    self->open = nullptr;
  }
  Recorder::end(slice);
}

}  // namespace

// While nothing records, both are a few instructions and need no stack.
bool enter(Range* self) {
  if (torch_listens() && enter_torchs(self)) [[unlikely]]
    return true;
  if (Recorder::recording()) return enter_recorded(self);
  ++self->unrecorded;
  return true;
}

void leave(Range* self) {
  if (self->open || self->as_torchs) return leave_entered(self);
  if (self->unrecorded) --self->unrecorded;
}

void bind_range(nanobind::module_& m) {
  range_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&range_spec));
  if (!range_type || !add_range_methods()) throw nanobind::python_error();
  range_type->tp_vectorcall = &range_vectorcall;
  // The interpreter specialises calls of a type that cannot change.
  range_type->tp_flags |= Py_TPFLAGS_IMMUTABLETYPE;
  if (PyModule_AddFunctions(m.ptr(), range_functions) < 0) throw nanobind::python_error();
  m.attr("record_function") = nanobind::handle(reinterpret_cast<PyObject*>(range_type));
  Recorder::set_context_source(&current_context_without_gil);
}

}  // namespace stepscope
