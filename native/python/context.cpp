#define PY_SSIZE_T_CLEAN
#include "python/context.h"

#include <Python.h>

#include "python/interrupts.h"

namespace stepscope {
namespace {

// Tasks run in contexts of their own; CPython counts every switch in context_ver, so a pair that
// was seen before needs no second question.
struct Known {
  const PyObject* context = nullptr;
  uint64_t version = 0;
  uint32_t id = 0;
  const PyObject* outside = nullptr;  // the context in which no loop ran
};
thread_local Known known;

uint32_t id_of(const PyObject* context) {
  const auto id = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(context) >> 4);
  return id ? id : 1;
}

bool loop_is_running() {
  static PyObject* get_running_loop = nullptr;
  if (!get_running_loop) {
    PyObject* name = PyUnicode_FromString("asyncio.events");
    PyObject* events = name ? PyImport_GetModule(name) : nullptr;
    Py_XDECREF(name);
    if (events) get_running_loop = PyObject_GetAttrString(events, "_get_running_loop");
    Py_XDECREF(events);
    if (!get_running_loop) {
      PyErr_Clear();
      return false;
    }
  }
  PyObject* loop = PyObject_CallNoArgs(get_running_loop);
  if (!loop) drop_error();
  const bool running = loop && loop != Py_None;
  Py_XDECREF(loop);
  return running;
}

}  // namespace

uint32_t current_context() {
  const PyThreadState* const thread = PyThreadState_Get();
  if (!thread->context) return 0;
  if (thread->context == known.context && thread->context_ver == known.version) return known.id;
  const bool in_task = thread->context != known.outside && loop_is_running();
  const uint32_t id = in_task ? id_of(thread->context) : 0;
  if (!in_task) known.outside = thread->context;
  known.context = thread->context;
  known.version = thread->context_ver;
  known.id = id;
  return id;
}

uint32_t current_context_without_gil() {
  const PyThreadState* const thread = PyGILState_GetThisThreadState();
  if (!thread || !thread->context || thread->context == known.outside) return 0;
  if (thread->context == known.context && thread->context_ver == known.version) return known.id;
  return id_of(thread->context);
}

}  // namespace stepscope
