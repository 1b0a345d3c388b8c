// Calls of a few functions that are called by the object they are for: a module's, an optimizer's.
// All needs the GIL.
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "core/recorder.h"

namespace stepscope {

bool is_watched(const PyCodeObject* code);

// The label of this call of a watched function; the plain one if its object has no name. The
// watcher is asked once for each object and may run any code, whose calls are not recorded.
Recorder::Label watched_label(const PyCodeObject* code, PyObject* subject, Recorder::Label plain);

// Drops the names of objects, which may be gone by the next recording.
void forget_watched_objects();

}  // namespace stepscope
