// The timeline of Python calls, as the interpreter's events write it. All needs the GIL.
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <cstdint>
#include <string>

struct _PyInterpreterFrame;

namespace stepscope {

struct OpenSlice;

// A Python function was entered or resumed; it returned, yielded, or was left by an exception. The
// interpreter's innermost frame is that of the function.
void on_call(PyCodeObject* code) noexcept;
void on_return(PyCodeObject* code) noexcept;

// The same for a function written in C, which has no frame; bound to an object or (null) to
// nothing.
void on_c_call(PyMethodDef* method, PyObject* self) noexcept;
void on_c_return(PyMethodDef* method) noexcept;

// The same for a Python function, from the code that evaluates its frame, which is not the
// interpreter's innermost before and after. end_frame() ends the call, not on_return().
struct FrameCall {
  const void* key;
  OpenSlice* slice;
  uint32_t run;     // counts the times that recording was switched on
  uint32_t depth;   // its place among what is open on the thread
  bool in_library;  // code that is not the program's own
};
FrameCall begin_frame(PyCodeObject* code, const _PyInterpreterFrame* frame) noexcept;
void end_frame(const FrameCall& call) noexcept;

// Whether this thread's innermost open call is the code's and was begun by begin_frame().
bool is_innermost_frame(PyCodeObject* code) noexcept;
// Which of the times that recording was switched on this is.
uint32_t calls_run() noexcept;

// Whether the functions in C that this code calls are not wanted.
bool skips_c_calls_of(PyCodeObject* code) noexcept;

// To be called on a thread that began after recording did. False if nothing records calls.
bool on_new_thread() noexcept;

// Has the interpreter report its calls; returns why it cannot, or nothing. Functions in C that the
// code of libraries calls are reported only with `all_calls`.
std::string install_call_hook(bool all_calls);
// From now on, reports all calls.
void extend_call_hook();
void remove_call_hook();

// A profile function for threading.setprofile(), where a new thread needs one; else None.
PyObject* new_thread_hook();

}  // namespace stepscope
