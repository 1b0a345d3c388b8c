// Python 3.11: a profile function in C, set for every thread. It tells of all calls, or only of
// those that the frame hook does not see.
#include "python/calls.h"

#if PY_VERSION_HEX < 0x030C0000

#include "python/frame_hook.h"
#include "python/interrupts.h"

namespace stepscope {
namespace {

void on_python_call(PyCodeObject* code) {
  if (frame_hook_is_on()) {
    if (!frame_hook_is_lost(code)) return;
    use_profile_function_only();
  }
  on_call(code);
}

int on_event(PyObject*, PyFrameObject* frame, int what, PyObject* arg) {
  switch (what) {
    case PyTrace_CALL:
    case PyTrace_RETURN: {
      PyCodeObject* const code = PyFrame_GetCode(frame);
      what == PyTrace_CALL ? on_python_call(code) : on_return(code);
      Py_DECREF(code);
      break;
    }
    case PyTrace_C_CALL:
      if (PyCFunction_Check(arg)) {
        const auto* const function = reinterpret_cast<PyCFunctionObject*>(arg);
        on_c_call(function->m_ml, function->m_self);
      }
      break;
    case PyTrace_C_RETURN:
    case PyTrace_C_EXCEPTION:
      if (PyCFunction_Check(arg)) on_c_return(reinterpret_cast<PyCFunctionObject*>(arg)->m_ml);
      break;
    default:
      break;
  }
  return 0;
}

// threading has a new thread begin with a Python function as its profile function; called for the
// first time, it puts the one in C in its place.
PyObject* watch_this_thread(PyObject*, PyObject*) {
  PyEval_SetProfile(on_new_thread() ? &on_event : nullptr, nullptr);
  Py_RETURN_NONE;
}

PyMethodDef watch_def{"watch_this_thread", &watch_this_thread, METH_VARARGS, nullptr};
PyObject* watcher = nullptr;

bool is_ours(const PyThreadState* thread) {
  return thread->c_profilefunc == &on_event || (watcher && thread->c_profileobj == watcher);
}

PyThreadState* first_thread() { return PyInterpreterState_ThreadHead(PyInterpreterState_Get()); }

}  // namespace

std::string install_call_hook(bool all_calls) {
  for (const PyThreadState* thread = first_thread(); thread; thread = thread->next) {
    if (thread->c_profilefunc && !is_ours(thread)) {
      return "another profiler (sys.setprofile, cProfile) is active";
    }
  }
  for (PyThreadState* thread = first_thread(); thread; thread = PyThreadState_Next(thread)) {
    if (_PyEval_SetProfile(thread, &on_event, nullptr) < 0) {  // an audit hook said no
      drop_error();
      remove_call_hook();
      return "an audit hook forbids profiling";
    }
  }
  if (!all_calls) install_frame_hook(&on_event);  // or else the profile function tells of all
  return {};
}

void extend_call_hook() { use_profile_function_only(); }

// Where it sleeps, it has to be woken.
void use_profile_function_only() {
  remove_frame_hook();
  for (PyThreadState* thread = first_thread(); thread; thread = PyThreadState_Next(thread)) {
    if (is_ours(thread) && !thread->tracing) thread->cframe->use_tracing = kAwake;
  }
}

// Where somebody else has come in meanwhile, that stays.
void remove_call_hook() {
  remove_frame_hook();
  for (PyThreadState* thread = first_thread(); thread; thread = PyThreadState_Next(thread)) {
    if (is_ours(thread) && _PyEval_SetProfile(thread, nullptr, nullptr) < 0) drop_error();
  }
}

PyObject* new_thread_hook() {
  if (!watcher) watcher = PyCFunction_New(&watch_def, nullptr);
  Py_XINCREF(watcher);
  return watcher;
}

}  // namespace stepscope

#endif
