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

// The same for a Python function, from who evaluates its frame, which is not the interpreter's
// innermost before and after. What begin_frame() returned is for end_frame(): on_return() does not
// end it.
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

// This thread began after us: its frames are new. False when nobody wants to know.
bool on_new_thread() noexcept;

// Have the interpreter tell of its calls; what keeps it from doing so, or nothing. Those of
// functions in C from the code of libraries only where all are wanted.
std::string install_call_hook(bool all_calls);
// They are wanted after all.
void extend_call_hook();
void remove_call_hook();

// A profile function for threading.setprofile(), where a new thread needs one; else None.
PyObject* new_thread_hook();

}  // namespace stepscope
