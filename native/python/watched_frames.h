// Calls of a few functions that are called by the object they are for: a module's, an optimizer's.
// All needs the GIL.
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "core/recorder.h"

namespace stepscope {

bool is_watched(const PyCodeObject* code);

// What to call this call of a watched function; the plain label where nothing else is known. Who
// watches is asked once for each object that the function is called with, and may run any code:
// calls that it makes are not the program's and are not seen.
Recorder::Label watched_label(const PyCodeObject* code, PyObject* subject, Recorder::Label plain);

// What was said of objects, which may be gone by the next recording.
void forget_watched_objects();

}  // namespace stepscope
