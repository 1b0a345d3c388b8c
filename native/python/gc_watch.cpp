// Pauses for Python's garbage collector. Python drops what its callbacks raise, and a signal
// handler may raise in any Python code: so this callback has none.
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "core/clock.h"
#include "core/stream.h"
#include "python/interrupts.h"
#include "python/module.h"
#include "python/text.h"

namespace nb = nanobind;

namespace stepscope {
namespace {

constexpr long kYoungest = 0;  // collected all the time, in some ten µs: that is no pause

struct Pause {
  int64_t thread;
  int64_t start_ns;
  int64_t end_ns;
  long generation;
};

class GcWatch {
 public:
  explicit GcWatch(int64_t min_pause_ns) : min_pause_ns_(min_pause_ns) {}

  // Called by the collector, before and after each collection.
  void collected(PyObject* phase, PyObject* about) {
    static PyObject* const key = interned("generation");
    PyObject* const number = PyDict_Check(about) ? PyDict_GetItemWithError(about, key) : nullptr;
    const long generation = number ? PyLong_AsLong(number) : kYoungest;
    if (PyErr_Occurred()) return drop_error();
    if (generation == kYoungest && min_pause_ns_ > 0) return;
    const int64_t time_ns = Clock::now_ns();
    if (PyUnicode_Check(phase) && PyUnicode_CompareWithASCIIString(phase, "start") == 0) {
      start_ns_ = time_ns;
    } else if (start_ns_ && time_ns - start_ns_ >= min_pause_ns_) {
      pauses_.push_back({syscall(SYS_gettid), start_ns_, time_ns, generation});
      // Only tests watch all pauses.
      if (Stream::is_on() && min_pause_ns_ > 0) {
        const std::array<int64_t, 4> entry{pauses_.back().thread, start_ns_, time_ns, generation};
        Stream::instance().note(Entry::kPause, entry);
      }
    }
  }

  void restart() {
    pauses_.clear();
    start_ns_ = 0;
  }

  nb::list take() {
    nb::list all;
    for (const Pause& it : std::exchange(pauses_, {}))
      all.append(nb::make_tuple(it.thread, it.start_ns, it.end_ns, it.generation));
    return all;
  }

 private:
  int64_t min_pause_ns_;
  int64_t start_ns_ = 0;  // of the collection under way; there is never more than one
  std::vector<Pause> pauses_;
};

// As a plain function of C, which costs a fraction of a bound object's call.
PyObject* on_collection(PyObject* watch, PyObject* const* args, Py_ssize_t count) {
  if (count == 2) nb::inst_ptr<GcWatch>(watch)->collected(args[0], args[1]);
  Py_RETURN_NONE;
}

PyMethodDef callback_def = {
    "on_collection", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(&on_collection)),
    METH_FASTCALL, nullptr};

}  // namespace

void bind_gc_watch(nb::module_& m) {
  nb::class_<GcWatch>(m, "GcWatch")
      .def(nb::init<int64_t>(), nb::arg("min_pause_ns"))
      .def("callback",
           [](nb::handle self) { return nb::steal(PyCFunction_New(&callback_def, self.ptr())); })
      .def("restart", &GcWatch::restart)
      .def("take", &GcWatch::take);
}

}  // namespace stepscope
