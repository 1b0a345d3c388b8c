// The recorder for Python: windows and the clock.
#include "core/recorder.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include "core/clock.h"
#include "python/columns.h"
#include "python/module.h"
#include "python/recorded_tables.h"

namespace nb = nanobind;

namespace stepscope {
namespace {

nb::dict close_window(uint64_t window) {
  Snapshot snapshot;
  {
    nb::gil_scoped_release release;
    snapshot = Recorder::instance().close_window(window);
  }
  return window_of(snapshot);
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
      [](uint64_t limit_bytes, bool keep_newest) {
        return Recorder::instance().open_window(
            {limit_bytes, keep_newest ? Keep::kNewest : Keep::kOldest});
      },
      nb::arg("limit_bytes"), nb::arg("keep_newest"));
  m.def(
      "restart_window", [](uint64_t w) { Recorder::instance().restart_window(w); },
      nb::arg("window"));
  m.def("close_window", &close_window, nb::arg("window"));
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
