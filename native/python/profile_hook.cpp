// Python 3.11: a profile function in C, set for every thread.
//
// Where only the calls of the program are wanted, Python calls are seen by evaluating their frames
// (PEP 523), at a fifth of the cost: while a thread has a profile function, the interpreter runs
// every instruction slowly. The profile function stays, for functions written in C, but is asleep
// while the code of a library runs. All of this needs the GIL.
#include "python/calls.h"

#if PY_VERSION_HEX < 0x030C0000

#include <pthread.h>

#include <cstdint>

#include "python/frames.h"
#include "python/interrupts.h"

namespace stepscope {
namespace {

// The value of a thread's use_tracing: whether its profile function is called.
constexpr uint8_t kAsleep = 0;
constexpr uint8_t kAwake = 255;

// The frame hook does nothing while this is false: another tool that came after us (torch.compile)
// may have remembered the hook, and install it again later.
bool frame_hook_is_on = false;
PyObject* thread_hook = nullptr;  // what threading calls first on a new thread

PyObject* evaluate(PyThreadState* thread, _PyInterpreterFrame* frame, int throwing);
int on_event(PyObject*, PyFrameObject* frame, int what, PyObject* arg);

bool is_ours(const PyThreadState* thread) {
  return thread->c_profilefunc == &on_event || (thread_hook && thread->c_profileobj == thread_hook);
}

PyThreadState* first_thread() { return PyInterpreterState_ThreadHead(PyInterpreterState_Get()); }

_PyFrameEvalFunction installed_evaluator() {
  return _PyInterpreterState_GetEvalFrameFunc(PyInterpreterState_Get());
}

void take_away() {
  _PyInterpreterState_SetEvalFrameFunc(PyInterpreterState_Get(), &_PyEval_EvalFrameDefault);
}

// Evaluates all frames from now on, unless another tool does, or the frames' structure is not
// known. On top of another tool's hook, that tool could be installed once more and remember ours as
// the one before it: the two would then call each other for ever.
void install_frame_hook() {
  const bool is_free = installed_evaluator() == &_PyEval_EvalFrameDefault && internal_frames_work();
  if (installed_evaluator() != &evaluate && !is_free) return;
  _PyInterpreterState_SetEvalFrameFunc(PyInterpreterState_Get(), &evaluate);
  frame_hook_is_on = true;
}

void remove_frame_hook() {
  frame_hook_is_on = false;
  if (installed_evaluator() == &evaluate) take_away();
}

// Has the profile function see all calls, and wakes it where it is asleep.
void use_profile_function_only() {
  remove_frame_hook();
  for (PyThreadState* thread = first_thread(); thread; thread = PyThreadState_Next(thread)) {
    if (is_ours(thread) && !thread->tracing) thread->cframe->use_tracing = kAwake;
  }
}

// ---- the depth of the stack
//
// A call from Python to Python takes no room on the C stack, but for us it does. A program that has
// raised the recursion limit must not die of that.

thread_local uintptr_t stack_begin __attribute__((tls_model("initial-exec"))) = 0;
thread_local uintptr_t stack_reserve __attribute__((tls_model("initial-exec"))) = 0;

[[gnu::noinline]] void find_stack() {
  stack_begin = 1;  // where it is not known, the stack never counts as short
  pthread_attr_t attributes;
  if (pthread_getattr_np(pthread_self(), &attributes) != 0) return;
  void* begin = nullptr;
  size_t bytes = 0;
  if (pthread_attr_getstack(&attributes, &begin, &bytes) == 0) {
    stack_begin = reinterpret_cast<uintptr_t>(begin);
    stack_reserve = bytes / 4;
  }
  pthread_attr_destroy(&attributes);
}

bool stack_is_short() {
  if (!stack_begin) [[unlikely]]
    find_stack();
  return reinterpret_cast<uintptr_t>(__builtin_frame_address(0)) - stack_begin < stack_reserve;
}

// ---- evaluating a frame

[[gnu::noinline]] PyObject* pass_on(PyThreadState* thread, _PyInterpreterFrame* frame,
                                    int throwing) {
  if (!frame_hook_is_on && installed_evaluator() == &evaluate) take_away();
  return _PyEval_EvalFrameDefault(thread, frame, throwing);
}

bool nobody_else_traces(const PyThreadState* thread) {
  return thread->c_profilefunc == &on_event && !thread->c_tracefunc;
}

// An evaluation begins with the value of what it is called from, and leaves its own there. A daemon
// thread may end inside of it, at which the sanitizer's marks on the stack would stay behind.
[[gnu::no_sanitize_address]] PyObject* evaluate(PyThreadState* thread, _PyInterpreterFrame* frame,
                                                int throwing) {
  if (!frame_hook_is_on || thread->tracing || makes_generator(frame)) [[unlikely]]
    return pass_on(thread, frame, throwing);
  if (stack_is_short()) [[unlikely]] {
    use_profile_function_only();
    return pass_on(thread, frame, throwing);
  }
  auto* const code = reinterpret_cast<PyCodeObject*>(executable_of(frame));
  const FrameCall call = begin_frame(code, frame);
  const uint8_t before = thread->cframe->use_tracing;
  if (nobody_else_traces(thread)) thread->cframe->use_tracing = call.in_library ? kAsleep : kAwake;
  PyObject* const result = _PyEval_EvalFrameDefault(thread, frame, throwing);
  // Where recording was switched off or on inside, that has set the value from there outwards.
  if (frame_hook_is_on && call.run == calls_run() && nobody_else_traces(thread)) {
    thread->cframe->use_tracing = before;
  }
  end_frame(call);
  return result;
}

// ---- the profile function

// Another tool has taken the place of the frame hook for good if a frame did not come through it.
void on_python_call(PyCodeObject* code) {
  if (frame_hook_is_on) {
    if (installed_evaluator() == &evaluate || is_innermost_frame(code)) return;
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
  if (!all_calls) install_frame_hook();
  return {};
}

void extend_call_hook() { use_profile_function_only(); }

// A profile function that another tool has set meanwhile stays.
void remove_call_hook() {
  remove_frame_hook();
  for (PyThreadState* thread = first_thread(); thread; thread = PyThreadState_Next(thread)) {
    if (is_ours(thread) && _PyEval_SetProfile(thread, nullptr, nullptr) < 0) drop_error();
  }
}

PyObject* new_thread_hook() {
  if (!thread_hook) thread_hook = PyCFunction_New(&watch_def, nullptr);
  Py_XINCREF(thread_hook);
  return thread_hook;
}

}  // namespace stepscope

#endif
