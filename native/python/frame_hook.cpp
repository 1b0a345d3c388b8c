#include "python/frame_hook.h"

#if PY_VERSION_HEX < 0x030C0000

#include <pthread.h>

#include <cstdint>

#include "python/calls.h"
#include "python/frames.h"

namespace stepscope {
namespace {

// Ours stays harmless when it is off: whoever came after us (torch.compile) may have remembered it,
// and put it back later.
bool is_on = false;
Py_tracefunc our_profile_function = nullptr;

PyObject* evaluate(PyThreadState* thread, _PyInterpreterFrame* frame, int throwing);

bool is_installed() {
  return _PyInterpreterState_GetEvalFrameFunc(PyInterpreterState_Get()) == &evaluate;
}

bool nobody_is_installed() {
  return _PyInterpreterState_GetEvalFrameFunc(PyInterpreterState_Get()) ==
         &_PyEval_EvalFrameDefault;
}

void take_away() {
  _PyInterpreterState_SetEvalFrameFunc(PyInterpreterState_Get(), &_PyEval_EvalFrameDefault);
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

// ---- evaluating

[[gnu::noinline]] PyObject* pass_on(PyThreadState* thread, _PyInterpreterFrame* frame,
                                    int throwing) {
  if (!is_on && is_installed()) take_away();
  return _PyEval_EvalFrameDefault(thread, frame, throwing);
}

bool nobody_else_traces(const PyThreadState* thread) {
  return thread->c_profilefunc == our_profile_function && !thread->c_tracefunc;
}

// An evaluation begins with the value of what it is called from, and leaves its own there. A daemon
// thread may end inside of it, at which the sanitizer's marks on the stack would stay behind.
[[gnu::no_sanitize_address]] PyObject* evaluate(PyThreadState* thread, _PyInterpreterFrame* frame,
                                                int throwing) {
  if (!is_on || thread->tracing || makes_generator(frame)) [[unlikely]]
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
  if (is_on && call.run == calls_run() && nobody_else_traces(thread)) {
    thread->cframe->use_tracing = before;
  }
  end_frame(call);
  return result;
}

}  // namespace

// Never on top of another: it might be installed once more and remember us as what was there
// before, and then each of the two would call the other for ever.
bool install_frame_hook(Py_tracefunc profile_function) {
  if (!is_installed() && !(nobody_is_installed() && internal_frames_work())) return false;
  _PyInterpreterState_SetEvalFrameFunc(PyInterpreterState_Get(), &evaluate);
  our_profile_function = profile_function;
  is_on = true;
  return true;
}

void remove_frame_hook() {
  is_on = false;
  if (is_installed()) take_away();
}

bool frame_hook_is_on() { return is_on; }

bool frame_hook_is_lost(PyCodeObject* innermost) {
  return !is_installed() && !is_innermost_frame(innermost);
}

}  // namespace stepscope

#endif
