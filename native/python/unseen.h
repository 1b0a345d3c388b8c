// Our own Python code among the program's: its calls are none of the program's.
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <cstdint>

namespace stepscope {

// While this lives, the thread's calls are not told to anybody.
class Unseen {
 public:
  Unseen() : thread_(PyThreadState_Get()) {
#if PY_VERSION_HEX < 0x030C0000
    before_ = thread_->cframe->use_tracing;
#endif
    PyThreadState_EnterTracing(thread_);
  }
  ~Unseen() {
    PyThreadState_LeaveTracing(thread_);
#if PY_VERSION_HEX < 0x030C0000
    thread_->cframe->use_tracing = before_;
#endif
  }
  Unseen(const Unseen&) = delete;
  Unseen& operator=(const Unseen&) = delete;

 private:
  PyThreadState* const thread_;
#if PY_VERSION_HEX < 0x030C0000
  uint8_t before_ = 0;
#endif
};

}  // namespace stepscope
