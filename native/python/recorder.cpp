// The recorder for Python: windows and the clock.
#include "core/recorder.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>

#include "core/clock.h"
#include "python/columns.h"
#include "python/module.h"
#include "python/recorded_tables.h"

namespace nb = nanobind;

namespace stepscope {
namespace {

// Counts the windows whose stacks must stay known.
class Hold {
 public:
  Hold() { ++count; }
  Hold(Hold&& other) noexcept : holds_(std::exchange(other.holds_, false)) {}
  Hold(const Hold&) = delete;
  Hold& operator=(const Hold&) = delete;
  Hold& operator=(Hold&&) = delete;
  ~Hold() { let_go(); }

  void let_go() { count -= std::exchange(holds_, false); }

  static inline std::atomic<int64_t> count = 0;

 private:
  bool holds_ = true;
};

// What a window saw, to be made into columns later, by any thread, once.
class PythonWindow {
 public:
  explicit PythonWindow(HeldWindow window_records)
      : records_(std::move(window_records)), size_(records_.size()), lost_(records_.lost) {}

  size_t size() const { return size_; }
  uint64_t lost() const { return lost_; }
  void let_go() { hold_.let_go(); }

  nb::dict columns() {
    if (process_ != getpid() && records_.is_in_stream()) {
      throw std::runtime_error("process " + std::to_string(process_) +
                               " recorded this, in memory that a process forked from it does not "
                               "have: ask for the trace there, or before the fork");
    }
    Snapshot snapshot;
    {
      nb::gil_scoped_release release;
      snapshot = in_order(std::exchange(records_, {}));
    }
    nb::dict out = window_of(snapshot);
    {
      nb::gil_scoped_release release;
      snapshot = {};  // many chunks, and large ones
    }
    return out;
  }

 private:
  Hold hold_;
  HeldWindow records_;
  size_t size_;
  uint64_t lost_;
  pid_t process_ = getpid();
};

nb::dict close_window(uint64_t window) {
  HeldWindow window_records;
  {
    nb::gil_scoped_release release;
    window_records = Recorder::instance().end_window(window);
  }
  return PythonWindow(std::move(window_records)).columns();
}

uint64_t age_ticks(bool is_ring, double seconds) {
  if (!is_ring) return 0;
  return seconds > 0 ? Clock::ticks_in(seconds) : Limit::kAnyAge;
}

double overhead_ns(uint32_t rounds) {
  const int64_t before = Clock::now_ns();
  for (uint32_t i = 0; i < rounds; ++i) {
    OpenSlice* slice = Recorder::begin(Kind::kRange, "stepscope: calibration", {}, 0);
    if (!slice) continue;
    Recorder::end(slice);
  }
  return static_cast<double>(Clock::now_ns() - before) / rounds;
}

}  // namespace

void bind_recorder(nb::module_& m) {
  m.def("now_ns", &Clock::now_ns);
  m.def(
      "ns_of_ticks",
      [](ColumnView<uint64_t> ticks) {
        const TickMap map = TickMap().closed();
        std::vector<int64_t> ns;
        for (size_t i = 0; i < ticks.shape(0); ++i) ns.push_back(map.ns(ticks.data()[i]));
        return to_column(std::move(ns));
      },
      nb::arg("ticks"));
  m.def("wall_offset_ns", &Clock::wall_offset_ns);
  m.def("use_manual_clock", &Clock::use_manual, nb::arg("start_ns"), nb::arg("tick_ns"));
  m.def("advance_clock", &Clock::advance_manual, nb::arg("by_ns"));
  m.def("use_system_clock", &Clock::use_system);
  m.def("recording", &Recorder::recording);
  m.def(
      "open_window",
      [](uint64_t limit_bytes, bool keep_newest, bool is_ring, double ring_seconds) {
        return Recorder::instance().open_window({limit_bytes,
                                                 keep_newest ? Keep::kNewest : Keep::kOldest,
                                                 age_ticks(is_ring, ring_seconds)});
      },
      nb::arg("limit_bytes"), nb::arg("keep_newest"), nb::arg("is_ring") = false,
      nb::arg("ring_seconds") = 0.0);
  nb::class_<PythonWindow>(m, "HeldWindow")
      .def("__len__", &PythonWindow::size)
      .def_prop_ro("lost", &PythonWindow::lost)
      .def("columns", &PythonWindow::columns)
      .def("let_go", &PythonWindow::let_go);
  m.def("held_windows", [] { return Hold::count.load(); });
  m.def(
      "look_at_window",
      [](uint64_t w) { return PythonWindow(Recorder::instance().look_at_window(w)); },
      nb::arg("window"), nb::call_guard<nb::gil_scoped_release>());
  m.def(
      "end_window", [](uint64_t w) { return PythonWindow(Recorder::instance().end_window(w)); },
      nb::arg("window"), nb::call_guard<nb::gil_scoped_release>());
  m.def(
      "recent_ranges",
      [](uint64_t since_ticks, const std::vector<std::string>& prefixes) {
        const uint64_t now_ticks = Clock::ticks();
        std::vector<RecentRange> ranges;
        TickMap map;
        {
          nb::gil_scoped_release release;
          ranges = Recorder::instance().recent_ranges(since_ticks, prefixes);
          map = TickMap().closed();
        }
        return nb::make_tuple(range_tuples(ranges, map), now_ticks);
      },
      nb::arg("since_ticks"), nb::arg("prefixes"));
  m.def(
      "restart_window", [](uint64_t w) { Recorder::instance().restart_window(w); },
      nb::arg("window"));
  m.def("close_window", &close_window, nb::arg("window"));
  m.def("remember_blocks", [] { Recorder::instance().remember_blocks(); });
  m.def("record_columns", &recorded_column_types);
  m.def(
      "note_owner",
      [](uintptr_t address, int64_t bytes, uint8_t device_type, int8_t device_index,
         uint8_t owner) { Recorder::owned(address, bytes, {device_type, device_index}, owner); },
      nb::arg("address"), nb::arg("bytes"), nb::arg("device_type"), nb::arg("device_index"),
      nb::arg("owner"));
  m.def("type_names", &Recorder::type_names);
  m.def("overhead_ns", &overhead_ns, nb::arg("rounds"));
  m.def("core_api_address", [] { return reinterpret_cast<uintptr_t>(&Recorder::core_api()); });
}

}  // namespace stepscope
