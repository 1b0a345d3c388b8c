// The timeline of Python calls, as the interpreter's events write it. All needs the GIL.
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <string>

namespace stepscope {

// A Python function was entered or resumed; it returned, yielded, or was left by an exception. The
// interpreter's innermost frame is that of the function.
void on_call(PyCodeObject* code) noexcept;
void on_return(PyCodeObject* code) noexcept;

// The same for a function written in C, which has no frame; bound to an object or (null) to
// nothing.
void on_c_call(PyMethodDef* method, PyObject* self) noexcept;
void on_c_return(PyMethodDef* method) noexcept;

// This thread began after us: its frames are new. False when nobody wants to know.
bool on_new_thread() noexcept;

// Have the interpreter tell of its calls; what keeps it from doing so, or nothing.
std::string install_call_hook();
void remove_call_hook();

// A profile function for threading.setprofile(), where a new thread needs one; else None.
PyObject* new_thread_hook();

}  // namespace stepscope
