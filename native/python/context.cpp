#define PY_SSIZE_T_CLEAN
#include "python/context.h"

#include <Python.h>

#include "python/interrupts.h"

namespace stepscope {
namespace {

// Tasks run in contexts of their own; CPython counts every switch in context_ver, so a pair that
// was seen before needs no second question.
struct SeenContext {
  const PyObject* context = nullptr;
  uint64_t version = 0;
  uint32_t id = 0;
  const PyObject* outside = nullptr;  // the context in which no loop ran
};
thread_local SeenContext last_seen;

uint32_t context_id(const PyObject* context) {
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
      drop_error();
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
  if (thread->context == last_seen.context && thread->context_ver == last_seen.version)
    return last_seen.id;
  const bool in_task = thread->context != last_seen.outside && loop_is_running();
  const uint32_t id = in_task ? context_id(thread->context) : 0;
  if (!in_task) last_seen.outside = thread->context;
  last_seen.context = thread->context;
  last_seen.version = thread->context_ver;
  last_seen.id = id;
  return id;
}

uint32_t current_context_without_gil() {
  const PyThreadState* const thread = PyGILState_GetThisThreadState();
  if (!thread || !thread->context || thread->context == last_seen.outside) return 0;
  if (thread->context == last_seen.context && thread->context_ver == last_seen.version)
    return last_seen.id;
  return context_id(thread->context);
}

}  // namespace stepscope
