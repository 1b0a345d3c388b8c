// Python 3.11: Python calls seen by evaluating their frames (PEP 523), at a fifth of the cost of a
// profile function: while a thread has one, the interpreter runs every instruction slowly.
//
// The profile function stays, for functions written in C, but is asleep while the code of a library
// runs. All needs the GIL.
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <cstdint>

namespace stepscope {

// What the interpreter keeps for a thread: whether it tells its profile function of anything.
constexpr uint8_t kAsleep = 0;
constexpr uint8_t kAwake = 255;

// Evaluate all frames from now on; this profile function may be sent to sleep. False where somebody
// else evaluates them already, or the frames' structure is not known.
bool install_frame_hook(Py_tracefunc profile_function);
void remove_frame_hook();

// Frames are evaluated by us, so the profile function need not tell of Python calls.
bool frame_hook_is_on();
// Somebody has taken our place for good: this frame, just entered, did not come through us.
bool frame_hook_is_lost(PyCodeObject* innermost);

// For the hook: let the profile function tell of all calls instead.
void use_profile_function_only();

}  // namespace stepscope
