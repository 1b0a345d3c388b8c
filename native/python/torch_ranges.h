// Ranges of ours as ranges of torch's, where others than us listen to those: a profiler of torch's
// own beside us, an observer of its graph. All needs the GIL.
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>

namespace stepscope {

// Whether others than us listen to ranges.
bool torch_listens();

// Begin a range of torch's, which we record like all others of torch's. A new reference, or null
// without an exception where that fails.
PyObject* begin_torch_range(PyObject* name, PyObject* args);
void end_torch_range(PyObject* range);

}  // namespace stepscope
