// Keeps calls of our own Python code out of what profilers and compilers see of the program.
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <nanobind/nanobind.h>

#include <cstdint>

#include "python/interrupts.h"

namespace stepscope {

// Sets the compiler of the calling thread's frames and returns the one before; None: no compiler.
// Without it, Dynamo would compile our code and count that. Null: not installed.
inline PyObject* compiler_switch = nullptr;

// While this lives, the thread's calls are neither reported nor compiled.
class Unseen {
 public:
  Unseen() : thread_(PyThreadState_Get()) {
#if PY_VERSION_HEX < 0x030C0000
    before_ = thread_->cframe->use_tracing;
#endif
    PyThreadState_EnterTracing(thread_);
    compiler_ = switched(Py_None);
  }
  ~Unseen() {
    if (compiler_ && compiler_ != Py_None) Py_XDECREF(switched(compiler_));
    Py_XDECREF(compiler_);
    PyThreadState_LeaveTracing(thread_);
#if PY_VERSION_HEX < 0x030C0000
    thread_->cframe->use_tracing = before_;
#endif
  }
  Unseen(const Unseen&) = delete;
  Unseen& operator=(const Unseen&) = delete;

 private:
  static PyObject* switched(PyObject* to) {
    if (!compiler_switch) return nullptr;
    const nanobind::error_scope keep_error;
    PyObject* const before = PyObject_CallOneArg(compiler_switch, to);
    if (!before) drop_error();
    return before;
  }

  PyThreadState* const thread_;
  PyObject* compiler_ = nullptr;  // what was on this thread's frames
#if PY_VERSION_HEX < 0x030C0000
  uint8_t before_ = 0;
#endif
};

}  // namespace stepscope
