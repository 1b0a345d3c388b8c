// Exceptions of signal handlers, which are the program's: none is dropped in code of ours.
#pragma once

#include <Python.h>
#include <nanobind/nanobind.h>

namespace stepscope {

// Drops the current exception, if there is one. What a signal handler raises to end the program
// (KeyboardInterrupt, SystemExit) is raised again at the next instruction of the main thread.
void drop_error();

// The result of a call; if it failed, nothing, without an exception.
inline nanobind::object quietly(PyObject* result) {
  if (!result) drop_error();
  return nanobind::steal(result);
}

}  // namespace stepscope
