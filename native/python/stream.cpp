// The stream for Python: on and off, what another process has left, and the watcher of its death.
#include "core/stream.h"

#include <nanobind/stl/map.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "core/watcher.h"
#include "python/code_names.h"
#include "python/columns.h"
#include "python/module.h"
#include "python/plain_json.h"
#include "python/recorded_tables.h"
#include "python/recovered_tables.h"
#include "python/stack_rows.h"
#include "python/text.h"
#include "read_back/follower.h"
#include "read_back/recovered.h"

namespace nb = nanobind;

namespace stepscope {
namespace {

constexpr double kLongestS = 1e9;  // of a ring

// ---- every second, on the main thread, between two instructions of the program's
//
// A thread of our own would be one more among the program's.

PyObject* ticker = nullptr;  // guarded by the GIL
Py_ssize_t seen_size = -1;
bool tells_always = false;

// How many modules and threads there are. If this changes, so may what is noted of the process.
Py_ssize_t size_of_process() {
  PyObject* const modules = PyImport_GetModuleDict();
  Py_ssize_t size = PyDict_Size(modules);
  PyObject* const threading = PyDict_GetItemString(modules, "threading");
  if (!threading) return size;
  const nb::object threads = nb::steal(PyObject_GetAttrString(threading, "_active"));
  if (threads.is_valid() && PyDict_Check(threads.ptr())) size += PyDict_Size(threads.ptr());
  PyErr_Clear();
  return size;
}

int tell(void*) {
  if (!ticker) return 0;
  const Py_ssize_t size = size_of_process();
  if (size == std::exchange(seen_size, size) && !tells_always) return 0;
  const nb::object kept_ticker = nb::borrow(ticker);
  PyObject* const result = PyObject_CallNoArgs(kept_ticker.ptr());
  if (result) {
    Py_DECREF(result);
    return 0;
  }
  if (!PyErr_ExceptionMatches(PyExc_Exception)) return -1;  // Ctrl-C, which is the program's
  PyErr_Clear();
  return 0;
}

void set_stream_ticker(const nb::object& wanted, bool always) {
  seen_size = -1;
  tells_always = always;
  PyObject* const old = std::exchange(ticker, wanted.is_none() ? nullptr : wanted.inc_ref().ptr());
  Py_XDECREF(old);
  Stream::instance().set_every_second(ticker ? [] { Py_AddPendingCall(&tell, nullptr); }
                                             : static_cast<void (*)()>(nullptr));
}

// ---- what a process has left, as tables like those of a closed window

nb::list recordings_of(const Recovered& recovered) {
  nb::list recordings;
  for (const Snapshot& recording : recovered.recordings) recordings.append(window_of(recording));
  return recordings;
}

nb::dict texts_of(const std::map<std::string, std::string>& texts) {
  nb::dict all;
  for (const auto& [name, text] : texts) all[to_str(name)] = to_str(text);
  return all;
}

nb::dict facts_of(const Recovered& recovered) {
  // When the first recording began; of a ring, what is left of it.
  uint64_t start_ticks = UINT64_MAX;
  for (const Snapshot& recording : recovered.recordings)
    start_ticks = std::min(start_ticks, recording.start_ticks);
  nb::dict facts;
  facts["start_ns"] = recovered.recordings.empty() ? 0 : recovered.tick_map.ns(start_ticks);
  facts["last_ns"] = recovered.last_ns;
  facts["damaged_bytes"] = recovered.damaged;
  facts["bad_records"] = recovered.bad_records;
  facts["is_closed"] = recovered.is_closed;
  facts["memory_lasted"] = recovered.has_lanes;
  return facts;
}

struct PlacedStack {
  uint32_t row = 0;
  bool is_hidden = false;
};

// Callers first; a stack may be deep.
PlacedStack place_stack(const Recovered& recovered, uint32_t number, StackRows& rows,
                        std::map<uint32_t, PlacedStack>& placed) {
  std::vector<std::pair<uint32_t, const RecoveredStack*>> chain;
  PlacedStack at;
  while (number) {
    if (const auto entry = placed.find(number); entry != placed.end()) {
      at = entry->second;
      break;
    }
    const auto stack = recovered.stacks.find(number);
    if (stack == recovered.stacks.end()) break;
    chain.emplace_back(number, &stack->second);
    if (stack->second.parent >= number) break;
    number = stack->second.parent;
  }
  for (auto link = chain.rbegin(); link != chain.rend(); ++link) {
    const RecoveredStack& stack = *link->second;
    if (!stack.file.empty()) {
      at.is_hidden = is_hidden(stack.file, at.is_hidden);
      if (begins_child(stack.file, stack.name)) at.row = 0;
      if (!at.is_hidden) at.row = rows.add(at.row, stack.name);
    }
    placed[link->first] = at;
  }
  return at;
}

// As stack_table() of the process itself.
nb::tuple stack_table_of(const Recovered& recovered, const ColumnView<uint32_t>& numbers) {
  StackRows rows;
  std::map<uint32_t, PlacedStack> placed;
  std::vector<uint32_t> row_of;
  row_of.reserve(numbers.shape(0));
  for (const uint32_t number : as_span(numbers))
    row_of.push_back(place_stack(recovered, number, rows, placed).row);
  return stack_tuple(std::move(row_of), std::move(rows));
}

// The first sample of a device that was sampled until the end of the process began before it was
// asked for, as CounterSampler knows.
nb::list counter_devices_of(const Recovered& recovered) {
  std::vector<CounterDevice> devices;
  for (const auto& [number, device] : recovered.counter_devices) {
    devices.push_back(device);
    devices.back().number = number;
    if (device.bounds.empty() || device.bounds.front().device_ns) continue;
    const auto first =
        std::ranges::find(recovered.counters, devices.back().number, &CounterReading::device);
    if (first != recovered.counters.end()) devices.back().bounds.front().device_ns = first->end_ns;
  }
  return counter_devices(devices);
}

nb::list pauses_of(const Recovered& recovered) {
  nb::list pauses;
  for (const auto& [thread, start_ns, end_ns, generation] : recovered.pauses)
    pauses.append(nb::make_tuple(thread, start_ns, end_ns, generation));
  return pauses;
}

// The ranges that a process has ended since the last call: name, start and end.
nb::list new_ranges(Follower& follower) {
  std::vector<RecentRange> ranges;
  {
    nb::gil_scoped_release release;
    follower.read();
    ranges = follower.take_ranges();
  }
  return range_tuples(ranges, TickMap().closed());  // all processes of a machine share its clocks
}

}  // namespace

void bind_stream(nb::module_& m) {
  m.def(
      "start_stream",
      [](const std::string& memory, const std::string& disk, uint64_t memory_bytes,
         uint64_t ring_bytes, double ring_seconds) {
        const auto ring_ns = static_cast<int64_t>(std::min(ring_seconds, kLongestS) * 1e9);
        return Stream::instance().start({memory, disk, memory_bytes, ring_bytes, ring_ns});
      },
      nb::arg("memory"), nb::arg("disk"), nb::arg("memory_bytes"), nb::arg("ring_bytes") = 0,
      nb::arg("ring_seconds") = 0.0);
  m.def("stop_stream", [] { Stream::instance().stop(); }, nb::call_guard<nb::gil_scoped_release>());
  m.def("rest_stream", [] { Stream::instance().rest(); }, nb::call_guard<nb::gil_scoped_release>());
  m.def("go_on_with_stream", [] { Stream::instance().go_on(); });
  m.def(
      "flush_stream", [] { Stream::instance().flush(); }, nb::call_guard<nb::gil_scoped_release>());
  m.def("stream_obstacle", [] { return Stream::instance().obstacle(); });
  m.def(
      "note_value_in_stream",
      [](std::string_view name, nb::handle value) {
        Stream::instance().note_value(name, json_of(value));
      },
      nb::arg("name"), nb::arg("value").none());
  m.def("set_stream_ticker", &set_stream_ticker, nb::arg("tell").none(), nb::arg("always") = false);
  m.def("start_watcher", &start_watcher, nb::arg("command"));
  m.def("dismiss_watcher", &dismiss_watcher, nb::call_guard<nb::gil_scoped_release>());
  nb::class_<Recovered>(m, "RecoveredStream")
      .def(
          "__init__",
          [](Recovered* self, const std::string& memory, const std::string& disk,
             int64_t since_ns) {
            nb::gil_scoped_release release;
            new (self) Recovered(recover(memory, disk, since_ns));
          },
          nb::arg("memory"), nb::arg("disk"), nb::arg("since_ns") = 0)
      .def("recordings", &recordings_of)
      .def("meta", [](const Recovered& recovered) { return texts_of(recovered.meta); })
      .def("facts", &facts_of)
      .def("stack_table", &stack_table_of, nb::arg("numbers"))
      .def("types", [](const Recovered& recovered) { return to_list(recovered.types); })
      .def("sampled", &sampled_tables, nb::arg("native_text"))
      .def("device", &device_tables)
      .def("held", &held_tables)
      .def("graph_nodes", &graph_node_tables, nb::arg("ids"))
      .def("power", [](const Recovered& recovered) { return power_tables(recovered.power); })
      .def("counters",
           [](const Recovered& recovered) { return counter_tables(recovered.counters); })
      .def("counter_devices", &counter_devices_of)
      .def("pauses", &pauses_of);
  nb::class_<Follower>(m, "StreamFollower")
      .def(nb::init<std::string, std::string, std::vector<std::string>>(), nb::arg("memory"),
           nb::arg("disk"), nb::arg("prefixes"))
      .def("new_ranges", &new_ranges)
      .def_prop_ro("is_ring", &Follower::is_ring)
      .def_prop_ro("is_closed", &Follower::is_closed)
      .def_prop_ro("notes", [](const Follower& follower) { return texts_of(follower.notes()); });
}

}  // namespace stepscope
