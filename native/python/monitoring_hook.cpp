// Python 3.12 and later: callbacks for sys.monitoring. They see all threads, new ones as well,
// and several tools may use it at once.
#include "python/calls.h"

#if PY_VERSION_HEX >= 0x030C0000

#include <nanobind/nanobind.h>

#include <initializer_list>

namespace nb = nanobind;

namespace stepscope {
namespace {

// The tool id of profilers, then two of the six that have no purpose.
constexpr int kToolIds[] = {2, 4, 3};
int tool_id = -1;

PyObject* disable = nullptr;  // what a callback returns to hear no more from an instruction

PyObject* py_start(PyObject*, PyObject* const* args, Py_ssize_t) {
  on_call(reinterpret_cast<PyCodeObject*>(args[0]));
  Py_RETURN_NONE;
}

PyObject* py_end(PyObject*, PyObject* const* args, Py_ssize_t) {
  on_return(reinterpret_cast<PyCodeObject*>(args[0]));
  Py_RETURN_NONE;
}

// The method of a callable that sys.setprofile() would report, too; null for any other callable.
PyMethodDef* method_of(PyObject* callable) {
  if (PyCFunction_Check(callable)) return reinterpret_cast<PyCFunctionObject*>(callable)->m_ml;
  if (Py_IS_TYPE(callable, &PyMethodDescr_Type)) {
    return reinterpret_cast<PyMethodDescrObject*>(callable)->d_method;
  }
  return nullptr;
}

// An instruction for which CALL is disabled reports no C_RETURN and C_RAISE either.
PyObject* on_call_event(PyObject*, PyObject* const* args, Py_ssize_t) {
  if (skips_c_calls_of(reinterpret_cast<PyCodeObject*>(args[0]))) return Py_NewRef(disable);
  PyObject* const callable = args[2];
  PyMethodDef* const method = method_of(callable);
  if (!method) Py_RETURN_NONE;
  const bool is_bound = PyCFunction_Check(callable);
  on_c_call(method, is_bound ? reinterpret_cast<PyCFunctionObject*>(callable)->m_self : args[3]);
  Py_RETURN_NONE;
}

PyObject* c_end(PyObject*, PyObject* const* args, Py_ssize_t) {
  if (PyMethodDef* const method = method_of(args[2])) on_c_return(method);
  Py_RETURN_NONE;
}

using FastFunction = PyObject* (*)(PyObject*, PyObject* const*, Py_ssize_t);

struct Callback {
  FastFunction function;
  PyMethodDef def;
  std::initializer_list<const char*> events;

  Callback(const char* name, FastFunction its_function, std::initializer_list<const char*> its)
      : function(its_function),
        def{name, reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(function)),
            METH_FASTCALL, nullptr},
        events(its) {}
};

constexpr std::initializer_list<const char*> kStarts = {"PY_START", "PY_RESUME", "PY_THROW"};
constexpr std::initializer_list<const char*> kEnds = {"PY_RETURN", "PY_YIELD", "PY_UNWIND"};
constexpr std::initializer_list<const char*> kCalls = {"CALL"};
constexpr std::initializer_list<const char*> kCEnds = {"C_RETURN", "C_RAISE"};

Callback callbacks[] = {{"py_start", &py_start, kStarts},
                        {"py_end", &py_end, kEnds},
                        {"call", &on_call_event, kCalls},
                        {"c_end", &c_end, kCEnds}};

int free_tool_id(const nb::object& monitoring) {
  for (const int id : kToolIds) {
    if (monitoring.attr("get_tool")(id).is_none()) return id;
  }
  return -1;
}

}  // namespace

// An instruction may have been told to be silent in an earlier recording.
std::string install_call_hook(bool) {
  const nb::object monitoring = nb::module_::import_("sys").attr("monitoring");
  const int id = free_tool_id(monitoring);
  if (id < 0) return "other tools have taken all of sys.monitoring's places";
  monitoring.attr("use_tool_id")(id, "stepscope");
  tool_id = id;
  if (!disable) disable = nb::object(monitoring.attr("DISABLE")).release().ptr();
  int events = 0;
  for (Callback& callback : callbacks) {
    const nb::object function = nb::steal(PyCFunction_New(&callback.def, nullptr));
    for (const char* name : callback.events) {
      const nb::object event = monitoring.attr("events").attr(name);
      monitoring.attr("register_callback")(id, event, function);
      events |= nb::cast<int>(event);
    }
  }
  monitoring.attr("set_events")(id, events);
  extend_call_hook();
  return {};
}

void extend_call_hook() { nb::module_::import_("sys").attr("monitoring").attr("restart_events")(); }

void remove_call_hook() {
  if (tool_id < 0) return;
  const nb::object monitoring = nb::module_::import_("sys").attr("monitoring");
  monitoring.attr("set_events")(tool_id, 0);
  for (const Callback& callback : callbacks) {
    for (const char* name : callback.events) {
      monitoring.attr("register_callback")(tool_id, monitoring.attr("events").attr(name),
                                           nb::none());
    }
  }
  monitoring.attr("free_tool_id")(tool_id);
  tool_id = -1;
}

PyObject* new_thread_hook() { Py_RETURN_NONE; }

}  // namespace stepscope

#endif
