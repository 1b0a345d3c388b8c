// The stream for Python: on and off, what another process has left, and who is told of its death.
#include "stream/stream.h"

#include <nanobind/stl/map.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "python/code_names.h"
#include "python/columns.h"
#include "python/module.h"
#include "python/plain_json.h"
#include "python/recorded_tables.h"
#include "python/recovered_tables.h"
#include "python/stack_rows.h"
#include "python/text.h"
#include "stream/follower.h"
#include "stream/recovered.h"
#include "stream/watcher.h"

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

// How many modules and threads there are: what is told of the process changes with them.
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
  const nb::object held = nb::borrow(ticker);
  PyObject* const result = PyObject_CallNoArgs(held.ptr());
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

// What a process has left, as tables like those of a closed window.
class PythonRecovered {
 public:
  PythonRecovered(const std::string& memory, const std::string& disk, int64_t since_ns) {
    nb::gil_scoped_release release;
    found_ = recover(memory, disk, since_ns);
  }

  nb::list recordings() const {
    nb::list all;
    for (const Snapshot& each : found_.recordings) all.append(window_of(each));
    return all;
  }

  nb::dict meta() const {
    nb::dict all;
    for (const auto& [name, text] : found_.meta) all[to_str(name)] = to_str(text);
    return all;
  }

  nb::dict facts() const {
    nb::dict all;
    all["start_ns"] = start_ns();
    all["last_ns"] = found_.last_ns;
    all["damaged_bytes"] = found_.damaged;
    all["bad_records"] = found_.bad_records;
    all["is_closed"] = found_.is_closed;
    all["memory_lasted"] = found_.has_lanes;
    return all;
  }

  // As stack_table() of the process itself.
  nb::tuple stack_table(const ColumnView<uint32_t>& numbers) const {
    StackRows rows;
    std::map<uint32_t, Placed> placed;
    std::vector<uint32_t> row_of;
    row_of.reserve(numbers.shape(0));
    for (const uint32_t number : as_span(numbers)) row_of.push_back(row(number, rows, placed).row);
    return stack_tuple(std::move(row_of), std::move(rows));
  }

  nb::list types() const { return to_list(found_.types); }

  nb::dict sampled(const nb::callable& native_text) const {
    return sampled_tables(found_, native_text);
  }

  nb::dict device() const { return device_tables(found_); }

  nb::dict held() const { return held_tables(found_); }

  nb::dict graph_nodes(const ColumnView<int64_t>& ids) const {
    return graph_node_tables(found_, ids);
  }

  nb::dict power() const { return power_tables(found_.power); }

  nb::dict counters() const { return counter_tables(found_.counters); }

  nb::list counter_devices() const {
    std::vector<CounterDevice> devices;
    for (const auto& [number, device] : found_.counter_devices) {
      devices.push_back(device);
      devices.back().number = number;
      complete(devices.back());
    }
    return stepscope::counter_devices(devices);
  }

  nb::list pauses() const {
    nb::list all;
    for (const auto& [thread, start_ns, end_ns, generation] : found_.pauses)
      all.append(nb::make_tuple(thread, start_ns, end_ns, generation));
    return all;
  }

 private:
  struct Placed {
    uint32_t row = 0;
    bool is_hidden = false;
  };

  // Callers first; a stack may be deep.
  Placed row(uint32_t number, StackRows& rows, std::map<uint32_t, Placed>& placed) const {
    std::vector<std::pair<uint32_t, const RecoveredStack*>> chain;
    Placed at;
    while (number) {
      if (const auto known = placed.find(number); known != placed.end()) {
        at = known->second;
        break;
      }
      const auto found = found_.stacks.find(number);
      if (found == found_.stacks.end()) break;
      chain.emplace_back(number, &found->second);
      if (found->second.parent >= number) break;
      number = found->second.parent;
    }
    for (auto each = chain.rbegin(); each != chain.rend(); ++each) {
      const RecoveredStack& stack = *each->second;
      if (!stack.file.empty()) {
        at.is_hidden = is_hidden(stack.file, at.is_hidden);
        if (is_launcher(stack.file, stack.name)) at.row = 0;
        if (!at.is_hidden) at.row = rows.add(at.row, stack.name);
      }
      placed[each->first] = at;
    }
    return at;
  }

  // When the first recording began; of a ring, what is left of it.
  int64_t start_ns() const {
    uint64_t start_ticks = UINT64_MAX;
    for (const Snapshot& each : found_.recordings)
      start_ticks = std::min(start_ticks, each.start_ticks);
    return found_.recordings.empty() ? 0 : found_.tick_map.ns(start_ticks);
  }

  // A device that was sampled until the end of the process: its first sample began before it was
  // asked for, as CounterSampler knows.
  void complete(CounterDevice& device) const {
    if (device.bounds.empty() || device.bounds.front().device_ns) return;
    const auto first = std::find_if(found_.counters.begin(), found_.counters.end(),
                                    [&](const auto& each) { return each.device == device.number; });
    if (first != found_.counters.end()) device.bounds.front().device_ns = first->end_ns;
  }

  Recovered found_;
};

// The ranges that a process has ended since the last call: name, start and end.
nb::list new_ranges(Follower& follower) {
  std::vector<RecentRange> found;
  {
    nb::gil_scoped_release release;
    follower.read();
    found = follower.take_ranges();
  }
  // All processes of a machine have the same clocks.
  const TickMap map = TickMap().closed();
  nb::list ranges;
  for (const RecentRange& each : found) {
    ranges.append(
        nb::make_tuple(to_str(each.name), map.ns(each.start_ticks), map.ns(each.end_ticks)));
  }
  return ranges;
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
  m.def("is_streaming", &Stream::is_on);
  m.def("stream_obstacle", [] { return Stream::instance().obstacle(); });
  m.def(
      "note_in_stream",
      [](std::string_view name, std::string_view text) {
        Stream::instance().note_value(name, text);
      },
      nb::arg("name"), nb::arg("text"));
  m.def(
      "note_value_in_stream",
      [](std::string_view name, nb::handle value) {
        Stream::instance().note_value(name, json_of(value));
      },
      nb::arg("name"), nb::arg("value").none());
  m.def("set_stream_ticker", &set_stream_ticker, nb::arg("tell").none(), nb::arg("always") = false);
  m.def("start_watcher", &start_watcher, nb::arg("command"));
  m.def("dismiss_watcher", &dismiss_watcher, nb::call_guard<nb::gil_scoped_release>());
  nb::class_<PythonRecovered>(m, "RecoveredStream")
      .def(nb::init<const std::string&, const std::string&, int64_t>(), nb::arg("memory"),
           nb::arg("disk"), nb::arg("since_ns") = 0)
      .def("recordings", &PythonRecovered::recordings)
      .def("meta", &PythonRecovered::meta)
      .def("facts", &PythonRecovered::facts)
      .def("stack_table", &PythonRecovered::stack_table, nb::arg("numbers"))
      .def("types", &PythonRecovered::types)
      .def("sampled", &PythonRecovered::sampled, nb::arg("native_text"))
      .def("device", &PythonRecovered::device)
      .def("held", &PythonRecovered::held)
      .def("graph_nodes", &PythonRecovered::graph_nodes, nb::arg("ids"))
      .def("power", &PythonRecovered::power)
      .def("counters", &PythonRecovered::counters)
      .def("counter_devices", &PythonRecovered::counter_devices)
      .def("pauses", &PythonRecovered::pauses);
  nb::class_<Follower>(m, "StreamFollower")
      .def(nb::init<std::string, std::string, std::vector<std::string>>(), nb::arg("memory"),
           nb::arg("disk"), nb::arg("prefixes"))
      .def("new_ranges", &new_ranges)
      .def_prop_ro("is_ring", &Follower::is_ring)
      .def_prop_ro("is_closed", &Follower::is_closed)
      .def_prop_ro("notes", [](const Follower& follower) {
        nb::dict all;
        for (const auto& [name, text] : follower.notes()) all[to_str(name)] = to_str(text);
        return all;
      });
}

}  // namespace stepscope
