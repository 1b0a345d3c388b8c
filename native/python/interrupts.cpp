#include "python/interrupts.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <cstring>
#include <utility>

#include "python/module.h"

namespace nb = nanobind;

namespace stepscope {
namespace {

// Python runs signal handlers on this thread only.
bool runs_signal_handlers() { return syscall(SYS_gettid) == getpid(); }

int raise_again(void* kept_error) {
  PyObject* const error = static_cast<PyObject*>(kept_error);
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error)), error);
  Py_DECREF(error);
  return -1;
}

// Takes the current exception, without its traceback: the frames in it are ours.
PyObject* taken_error() {
#if PY_VERSION_HEX >= 0x030C0000
  PyObject* const value = PyErr_GetRaisedException();
#else
  PyObject *type = nullptr, *value = nullptr, *traceback = nullptr;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  Py_XDECREF(type);
  Py_XDECREF(traceback);
#endif
  if (value) PyException_SetTraceback(value, Py_None);
  return value;
}

bool is_end_of_program() {
  return PyErr_Occurred() && !PyErr_ExceptionMatches(PyExc_Exception) &&
         !PyErr_ExceptionMatches(PyExc_GeneratorExit);
}

// Raises an exception at the next instruction of the main thread.
void raise_later(PyObject* error) {
  if (Py_AddPendingCall(&raise_again, error) == 0) return;
  Py_DECREF(error);  // 32 others wait already
  PyErr_SetInterrupt();
}

// Wraps a function for places where Python drops exceptions, such as at-fork handlers. If a signal
// interrupts it, it is called once more to finish its work, and the interruption is raised later.
nb::object shielded(nb::callable function) {
  return nb::cpp_function([function](nb::args args) {
    PyObject* interruption = nullptr;
    for (int attempt = 0; attempt < 2; ++attempt) {
      PyObject* const result = PyObject_CallObject(function.ptr(), args.ptr());
      Py_XDECREF(result);
      if (result) break;
      if (interruption || !is_end_of_program() || !runs_signal_handlers()) {
        drop_error();
        break;
      }
      interruption = taken_error();
    }
    if (interruption) raise_later(interruption);
  });
}

// What has the main thread call a shielded function as soon as it executes Python code again: not
// before the C function returns that runs now.
nb::object called_soon(nb::callable function) {
  return nb::cpp_function([function] {
    const auto call = [](void* callable) {
      const nb::object callee = nb::steal(static_cast<PyObject*>(callable));
      const nb::object result = nb::steal(PyObject_CallNoArgs(callee.ptr()));
      return result ? 0 : -1;
    };
    PyObject* const callee = nb::object(function).release().ptr();
    if (Py_AddPendingCall(call, callee) != 0) call(callee);  // 32 others wait already
  });
}

// Executes a module and calls `after`. False with an exception set: the loader's, or that of
// `after` without its traceback, whose frames are ours.
bool executed(PyObject* loader, PyObject* after, PyObject* module) {
  const nb::object done = nb::steal(PyObject_CallMethod(loader, "exec_module", "O", module));
  if (!done.is_valid()) return false;
  const nb::object answer = nb::steal(PyObject_CallOneArg(after, module));
  if (answer.is_valid()) return true;
  PyObject* const error = taken_error();
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error)), error);
  Py_XDECREF(error);
  return false;
}

// Has a loader execute a module in a range and then calls `after`, without a Python frame of its
// own: the program's tracebacks go through here. The module is told of its real loader only.
nb::object importing(nb::object scope, nb::object loader, nb::callable after) {
  return nb::cpp_function([scope, loader, after](nb::object module) {
    const nb::object spec = nb::getattr(module, "__spec__", nb::none());
    if (!spec.is_none()) nb::setattr(spec, "loader", loader);
    nb::setattr(module, "__loader__", loader);
    scope.attr("__enter__")();
    if (executed(loader.ptr(), after.ptr(), module.ptr())) {
      scope.attr("__exit__")();
      return;
    }
    nb::python_error failed;  // takes the exception
    scope.attr("__exit__")();
    throw failed;
  });
}

// A finder for sys.meta_path that knows only the names in `wanted`. It is asked at each import, so
// that it must be quick, and have no frame that a tracer of the program would see.
nb::object import_finder(nb::dict wanted, nb::callable spec_of) {
  return nb::cpp_function(
      [wanted, spec_of](nb::handle name, nb::handle path, nb::handle target) -> nb::object {
        const int is_wanted = PyDict_Contains(wanted.ptr(), name.ptr());
        if (is_wanted < 0) throw nb::python_error();
        return is_wanted ? spec_of(name, path, target) : nb::none();
      },
      nb::arg("name"), nb::arg("path").none() = nb::none(), nb::arg("target").none() = nb::none());
}

PyObject* library_listener = nullptr;  // owned for good: Python keeps the hook for good

int hear_of_libraries(const char* event, PyObject* args, void*) {
  if (std::strcmp(event, "ctypes.dlopen") != 0) return 0;
  if (PyInterpreterState_Get() != PyInterpreterState_Main()) return 0;
  PyObject* const done = PyObject_CallOneArg(library_listener, PyTuple_GET_ITEM(args, 0));
  if (!done) PyErr_Clear();
  Py_XDECREF(done);
  return 0;
}

// Calls `listener` with the name of each library before ctypes opens it.
void listen_to_libraries(nb::callable listener) {
  const bool is_first = !library_listener;
  Py_XDECREF(std::exchange(library_listener, listener.release().ptr()));
  if (is_first) PySys_AddAuditHook(&hear_of_libraries, nullptr);
}

}  // namespace

void drop_error() {
  if (!is_end_of_program() || !runs_signal_handlers()) return PyErr_Clear();
  raise_later(taken_error());
}

void bind_interrupts(nb::module_& m) {
  m.def("shielded", &shielded, nb::arg("function"));
  m.def("called_soon", &called_soon, nb::arg("function"));
  m.def("import_finder", &import_finder, nb::arg("wanted"), nb::arg("spec_of"));
  m.def("listen_to_libraries", &listen_to_libraries, nb::arg("listener"));
  m.def("importing", &importing, nb::arg("scope"), nb::arg("loader"), nb::arg("after"));
}

}  // namespace stepscope
