// Pauses for Python's garbage collector. Python drops what its callbacks raise, and a signal
// handler may raise in any Python code: so this callback has none.
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "core/clock.h"
#include "python/module.h"

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
  void collected(nb::handle phase, nb::handle about) {
    PyObject* const number =
        PyDict_Check(about.ptr()) ? PyDict_GetItemString(about.ptr(), "generation") : nullptr;
    const long generation = number ? PyLong_AsLong(number) : kYoungest;
    if (generation == -1 && PyErr_Occurred()) return PyErr_Clear();
    if (generation == kYoungest) return;
    const int64_t time_ns = Clock::now_ns();
    if (PyUnicode_Check(phase.ptr()) &&
        PyUnicode_CompareWithASCIIString(phase.ptr(), "start") == 0) {
      start_ns_ = time_ns;
    } else if (start_ns_ && time_ns - start_ns_ >= min_pause_ns_) {
      pauses_.push_back({syscall(SYS_gettid), start_ns_, time_ns, generation});
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

}  // namespace

void bind_gc_watch(nb::module_& m) {
  nb::class_<GcWatch>(m, "GcWatch")
      .def(nb::init<int64_t>(), nb::arg("min_pause_ns"))
      .def("__call__", &GcWatch::collected, nb::arg("phase"), nb::arg("about"))
      .def("restart", &GcWatch::restart)
      .def("take", &GcWatch::take);
}

}  // namespace stepscope
