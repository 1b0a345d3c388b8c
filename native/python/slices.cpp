// Slices of any kind, begun and ended from Python: what sources written in Python record with.
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <string_view>

#include "core/recorder.h"
#include "python/context.h"
#include "python/module.h"
#include "python/text.h"

namespace stepscope {
namespace {

// A handle is a capsule: its name tells whether the slice has ended, so that ending it twice is an
// error and not a crash.
constexpr char kOpen[] = "stepscope: open slice";
constexpr char kEnded[] = "stepscope: ended slice";

// Dropped while open: the slice ends here.
void drop_handle(PyObject* handle) {
  if (!PyCapsule_IsValid(handle, kOpen)) return;
  Recorder::end(static_cast<OpenSlice*>(PyCapsule_GetPointer(handle, kOpen)));
}

bool kind_of(PyObject* number, Kind* kind) {
  const long value = PyLong_AsLong(number);
  if (value == -1 && PyErr_Occurred()) return false;
  for (const Kind candidate : {Kind::kRange, Kind::kPython, Kind::kModule, Kind::kRequest}) {
    if (value != static_cast<long>(candidate)) continue;
    *kind = candidate;
    return true;
  }
  PyErr_Format(PyExc_ValueError,
               "begin_slice() records ranges (2), Python calls (4), modules (11) and requests "
               "(12), not %ld",
               value);
  return false;
}

bool is_text(const char* function, PyObject* object, const char* role) {
  if (PyUnicode_Check(object)) return true;
  PyErr_Format(PyExc_TypeError, "%s() needs a %s that is a str, not %.100s: %R", function, role,
               Py_TYPE(object)->tp_name, object);
  return false;
}

OpenSlice* begin_of_kind(Kind kind, PyObject* name, PyObject* fragment) {
  Py_INCREF(name);
  Py_INCREF(fragment);
  std::string_view name_utf8;
  std::string_view fragment_utf8;
  OpenSlice* slice = nullptr;
  if (utf8_of(&name, &name_utf8) && utf8_of(&fragment, &fragment_utf8)) {
    slice = Recorder::begin(kind, name_utf8, fragment_utf8, current_context());
  }
  Py_DECREF(name);
  Py_DECREF(fragment);
  return slice;
}

PyObject* begin_slice(PyObject*, PyObject* const* args, Py_ssize_t count) {
  if (count != 3) {
    PyErr_Format(PyExc_TypeError, "begin_slice() takes a kind, a name and a fragment, not %zd",
                 count);
    return nullptr;
  }
  Kind kind = Kind::kOther;
  if (!kind_of(args[0], &kind) || !is_text("begin_slice", args[1], "name") ||
      !is_text("begin_slice", args[2], "fragment")) {
    return nullptr;
  }
  if (!Recorder::recording()) Py_RETURN_NONE;
  OpenSlice* const slice = begin_of_kind(kind, args[1], args[2]);
  if (!slice) {
    if (PyErr_Occurred()) return nullptr;
    Py_RETURN_NONE;
  }
  PyObject* const handle = PyCapsule_New(slice, kOpen, &drop_handle);
  if (!handle) Recorder::end(slice);
  return handle;
}

// Call a slice that is open by another name.
bool rename(OpenSlice* slice, PyObject* name) {
  if (!is_text("end_slice", name, "name")) return false;
  Py_INCREF(name);
  std::string_view utf8;
  const bool is_text = utf8_of(&name, &utf8);
  if (is_text) Recorder::rename(slice, utf8);
  Py_DECREF(name);
  return is_text;
}

PyObject* end_slice(PyObject*, PyObject* const* args, Py_ssize_t count) {
  if (count != 1 && count != 2) {
    PyErr_Format(PyExc_TypeError, "end_slice() takes a handle and maybe a name, not %zd", count);
    return nullptr;
  }
  PyObject* const handle = args[0];
  if (handle == Py_None) Py_RETURN_NONE;
  if (!PyCapsule_IsValid(handle, kOpen)) {
    if (PyCapsule_IsValid(handle, kEnded)) {
      PyErr_SetString(PyExc_ValueError, "end_slice(): this slice has ended already");
    } else {
      PyErr_Format(PyExc_TypeError, "end_slice() needs what begin_slice() returned, not %R",
                   handle);
    }
    return nullptr;
  }
  auto* const slice = static_cast<OpenSlice*>(PyCapsule_GetPointer(handle, kOpen));
  if (count == 2 && !rename(slice, args[1])) return nullptr;
  PyCapsule_SetName(handle, kEnded);
  Recorder::end(slice);
  Py_RETURN_NONE;
}

constexpr char kBeginDoc[] =
    "begin_slice(kind, name, fragment, /)\n--\n\n"
    "Begin a slice on this thread; return its handle, None while nothing records.\n\n"
    "The fragment is the inside of a JSON object, kept with the slice; empty for none.";
constexpr char kEndDoc[] =
    "end_slice(handle, name=..., /)\n--\n\n"
    "End a slice; None is ignored. A name replaces the one that it began with. A handle that is\n"
    "dropped ends its slice then.";

PyMethodDef functions[] = {
    {"begin_slice", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(&begin_slice)),
     METH_FASTCALL, kBeginDoc},
    {"end_slice", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(&end_slice)),
     METH_FASTCALL, kEndDoc},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace

void bind_slices(nanobind::module_& m) {
  if (PyModule_AddFunctions(m.ptr(), functions) < 0) throw nanobind::python_error();
}

}  // namespace stepscope
