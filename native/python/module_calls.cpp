// Calls of a model's modules as slices: those of objects of a class (torch.nn.Module) that are
// made outside of any other such call, and those within where their names are wanted. And as ranges
// of a phase, all of them, where a framework has such (Paddle's Forward).
//
// They are seen in the slot behind the call operator, tp_call, of each class. Nothing that Python
// code can look at changes: compilers that recognise the plain __call__ (Dynamo, SOT) still do,
// there is no frame of ours in a traceback, and a call that is not recorded costs one look at a
// flag.
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <nanobind/nanobind.h>

#include <string>
#include <string_view>
#include <utility>

#include "core/recorder.h"
#include "json/json_escape.h"
#include "python/context.h"
#include "python/interrupts.h"
#include "python/module.h"
#include "python/text.h"
#include "python/unseen.h"

namespace nb = nanobind;

namespace stepscope {
namespace {

// The one function that CPython puts into the slot of every class whose __call__ is written in
// Python.
ternaryfunc plain_call = nullptr;

// The modules of one framework. Never freed: a class may keep the slot until the process ends.
struct Family {
  PyTypeObject* base;
  PyObject* is_grad_enabled;
  bool tells_input;  // the type of a tensor may be asked for: no code of the program sees that
  Family* next;
  bool recorded = false;
  PyObject* names_of = nullptr;   // who knows the names within a model; null: only models' calls
  PyObject* phase = nullptr;      // what makes a range of the phase; null: no ranges are wanted
  PyObject* is_marked = nullptr;  // tells whether somebody else marks the phase now
  PyObject* listener = nullptr;   // who is told of a model that is about to be called
};
Family* families = nullptr;
bool has_phases = false;  // some family wants ranges
bool someone_listens = false;

Family* family_of(PyTypeObject* type) {
  Family* family = families;
  while (family && !PyType_IsSubtype(type, family->base)) family = family->next;
  return family;
}

// What this thread is in: no call, or that of a model, whose names it may have.
struct Here {
  bool is_in_call = false;
  PyObject* names = nullptr;  // borrowed from the call
};
thread_local Here this_call __attribute__((tls_model("initial-exec")));

// ---- the details of a call

const char* mode_text(const nb::object& answer, const char* yes, const char* no) {
  if (!answer.is_valid() || !PyBool_Check(answer.ptr())) return "";
  return answer.ptr() == Py_True ? yes : no;
}

// The model's id, whether it is in training mode, and whether gradients are recorded. The attribute
// is read as the model's own code would, but without __getattr__.
std::string modes_of(PyObject* model, const Family& family) {
  static PyObject* const training = interned("training");
  const Unseen unseen;
  std::string text = mode_text(quietly(PyObject_GenericGetAttr(model, training)),
                               ", \"Training\": 1", ", \"Training\": 0");
  text += mode_text(quietly(PyObject_CallNoArgs(family.is_grad_enabled)), ", \"Grad\": 1",
                    ", \"Grad\": 0");
  return text += ", \"Model id\": " + std::to_string(reinterpret_cast<uintptr_t>(model));
}

// The UTF-8 of a text, which lives as long as the text; empty if it has none.
std::string_view utf8(nb::object& text) {
  PyObject* holder = text.release().ptr();
  std::string_view bytes;
  if (holder && !utf8_of(&holder, &bytes)) PyErr_Clear();
  text = nb::steal(holder);
  return bytes;
}

// The type of the elements of a model's first input, where that is a tensor.
std::string type_of_input(PyObject* args) {
  static PyObject* const dtype = interned("dtype");
  if (!PyTuple_GET_SIZE(args)) return {};
  PyObject* const input = PyTuple_GET_ITEM(args, 0);
  // An input whose class has no dtype could run any code when it is asked.
  if (!quietly(PyObject_GetAttr(reinterpret_cast<PyObject*>(Py_TYPE(input)), dtype)).is_valid()) {
    return {};
  }
  const nb::object type = quietly(PyObject_GetAttr(input, dtype));
  nb::object text = type.is_valid() ? quietly(PyObject_Str(type.ptr())) : nb::object();
  return text.is_valid() ? ", \"Input dtype\": " + json::quoted(utf8(text)) : std::string();
}

std::string told_of(PyObject* model, PyObject* args, const Family& family) {
  return modes_of(model, family) + (family.tells_input ? type_of_input(args) : std::string());
}

struct ModuleWords {
  nb::object name;
  nb::object fragment;  // the inside of a JSON object; null: nothing is known but the class
};

bool is_about(PyObject* reference, const PyObject* module) {
#if PY_VERSION_HEX >= 0x030D0000
  PyObject* object = nullptr;
  if (PyWeakref_GetRef(reference, &object) < 0) PyErr_Clear();
  Py_XDECREF(object);
  return object == module;
#else
  return PyWeakref_GetObject(reference) == module;
#endif
}

// `names` maps module ids to tuples: a weak reference to the module (its id may be reused), its
// name and a fragment of JSON. New modules are learned.
nb::object entry_of(PyObject* names, PyObject* module) {
  static PyObject* const learn = interned("learn");
  const nb::object key = quietly(PyLong_FromVoidPtr(module));
  PyObject* const entry = key.is_valid() ? PyDict_GetItemWithError(names, key.ptr()) : nullptr;
  if (entry && is_about(PyTuple_GET_ITEM(entry, 0), module)) return nb::borrow(entry);
  drop_error();
  const Unseen unseen;
  return quietly(PyObject_CallMethodOneArg(names, learn, module));
}

ModuleWords words_of(PyObject* names, PyObject* module) {
  if (names) {
    const nb::object entry = entry_of(names, module);
    if (entry.is_valid()) {
      return {nb::borrow(PyTuple_GET_ITEM(entry.ptr(), 1)),
              nb::borrow(PyTuple_GET_ITEM(entry.ptr(), 2))};
    }
  }
  return {quietly(PyType_GetName(Py_TYPE(module))), {}};
}

OpenSlice* begin_module(ModuleWords words, const std::string& modes) {
  const std::string_view name = utf8(words.name);
  if (words.fragment.is_valid() && modes.empty()) {
    return Recorder::begin(Kind::kModule, name, utf8(words.fragment), current_context());
  }
  std::string detail = words.fragment.is_valid() ? std::string(utf8(words.fragment))
                                                 : "\"Class\": " + json::quoted(name);
  return Recorder::begin(Kind::kModule, name, detail += modes, current_context());
}

// ---- the calls

bool is_true(const nb::object& answer) { return answer.ptr() == Py_True; }

// As a range that is called like the class.
[[gnu::noinline]] PyObject* call_in_phase(PyObject* self, PyObject* args, PyObject* kwargs) {
  const Family* const family = family_of(Py_TYPE(self));
  if (!family || !family->phase || is_true(quietly(PyObject_CallNoArgs(family->is_marked)))) {
    return plain_call(self, args, kwargs);
  }
  nb::object name = quietly(PyType_GetName(Py_TYPE(self)));
  nb::object phase = nb::borrow(family->phase);
  OpenSlice* const slice =
      Recorder::begin(Kind::kRange, utf8(name), utf8(phase), current_context());
  PyObject* const result = plain_call(self, args, kwargs);
  if (slice) Recorder::end(slice);
  return result;
}

PyObject* call_within(PyObject* self, PyObject* args, PyObject* kwargs) {
  return has_phases && Recorder::recording() ? call_in_phase(self, args, kwargs)
                                             : plain_call(self, args, kwargs);
}

[[gnu::noinline]] PyObject* call_model(PyObject* self, PyObject* args, PyObject* kwargs) {
  const Family* const family = family_of(Py_TYPE(self));
  if (!family || !(family->recorded || family->listener)) return call_within(self, args, kwargs);
  this_call.is_in_call = true;
  if (family->listener) {
    const Unseen unseen;
    const nb::object listener = nb::borrow(family->listener);
    PyObject* const named = kwargs ? kwargs : Py_None;
    quietly(PyObject_CallFunctionObjArgs(listener.ptr(), self, args, named, nullptr));
  }
  if (!family->recorded) {
    PyObject* const result = call_within(self, args, kwargs);
    this_call = {};
    return result;
  }
  nb::object names;
  if (family->names_of) {
    const Unseen unseen;
    names = quietly(PyObject_CallOneArg(family->names_of, self));
  }
  OpenSlice* const slice = begin_module(words_of(names.ptr(), self), told_of(self, args, *family));
  this_call.names = names.ptr();
  PyObject* const result = call_within(self, args, kwargs);
  if (slice) Recorder::end(slice);
  this_call = {};
  return result;
}

[[gnu::noinline]] PyObject* call_part(PyObject* self, PyObject* args, PyObject* kwargs) {
  OpenSlice* const slice = begin_module(words_of(this_call.names, self), {});
  PyObject* const result = call_within(self, args, kwargs);
  if (slice) Recorder::end(slice);
  return result;
}

PyObject* watched_call(PyObject* self, PyObject* args, PyObject* kwargs) {
  if (this_call.is_in_call) {
    return this_call.names ? call_part(self, args, kwargs) : call_within(self, args, kwargs);
  }
  const bool is_wanted = Recorder::recording() || someone_listens;
  return is_wanted ? call_model(self, args, kwargs) : plain_call(self, args, kwargs);
}

// ---- for Python

PyTypeObject* as_type(nb::handle type) { return reinterpret_cast<PyTypeObject*>(type.ptr()); }

void add_family(nb::type_object base, nb::object is_grad_enabled, bool tells_input) {
  if (!plain_call) plain_call = as_type(base)->tp_call;
  for (const Family* family = families; family; family = family->next) {
    if (family->base == as_type(base)) return;
  }
  families =
      new Family{as_type(base.release()), is_grad_enabled.release().ptr(), tells_input, families};
}

void set(PyObject*& place, const nb::object& value) {
  PyObject* const before = place;
  place = value.is_none() ? nullptr : nb::object(value).release().ptr();
  Py_XDECREF(before);
}

// Records all calls as ranges of a phase, unless `is_marked` says that they are marked already.
// None: no longer.
void mark_calls(nb::type_object base, nb::object phase, nb::object is_marked) {
  Family* const family = family_of(as_type(base));
  if (!family) return;
  set(family->phase, phase);
  if (!is_marked.is_none()) set(family->is_marked, is_marked);  // kept: a call may be asking it
  has_phases = false;
  for (const Family* other = families; other; other = other->next)
    has_phases |= other->phase != nullptr;
}

// Records all calls with the names that `names_of` returns for a model. None: only calls of models.
void name_calls(nb::type_object base, nb::object names_of) {
  if (Family* const family = family_of(as_type(base))) set(family->names_of, names_of);
}

void record_calls(nb::type_object base, bool recorded) {
  if (Family* const family = family_of(as_type(base))) family->recorded = recorded;
}

// Sets what is called before each call that is made outside of any other: with the model, its
// arguments, and its keyword arguments or None. None: nothing is called.
void tell_calls(nb::type_object base, nb::object listener) {
  Family* const family = family_of(as_type(base));
  if (!family) return;
  someone_listens = !listener.is_none();
  set(family->listener, listener);
}

// Watches a class whose __call__ is written in Python; returns whether it was watched before.
bool watch_calls(nb::type_object type) {
  ternaryfunc& slot = as_type(type)->tp_call;
  if (slot == &watched_call) return true;
  if (slot == plain_call) slot = &watched_call;
  return false;
}

void leave_calls(nb::type_object type) {
  ternaryfunc& slot = as_type(type)->tp_call;
  if (slot == &watched_call) slot = plain_call;
}

}  // namespace

void bind_module_calls(nb::module_& m) {
  m.def("add_call_family", &add_family, nb::arg("base"), nb::arg("is_grad_enabled"),
        nb::arg("tells_input") = false);
  m.def("mark_calls", &mark_calls, nb::arg("base"), nb::arg("phase").none(),
        nb::arg("is_marked").none());
  m.def("name_calls", &name_calls, nb::arg("base"), nb::arg("names_of").none());
  m.def("record_calls", &record_calls, nb::arg("base"), nb::arg("recorded"));
  m.def("tell_calls", &tell_calls, nb::arg("base"), nb::arg("listener").none());
  m.def("watch_calls", &watch_calls, nb::arg("type"));
  m.def("leave_calls", &leave_calls, nb::arg("type"));
}

}  // namespace stepscope
