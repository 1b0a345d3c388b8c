// The stream for Python: on and off, what another process has left, and who is told of its death.
#include "stream/stream.h"

#include <nanobind/stl/map.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <utility>

#include "python/code_names.h"
#include "python/columns.h"
#include "python/module.h"
#include "python/recorded_tables.h"
#include "python/recovered_tables.h"
#include "python/stack_rows.h"
#include "python/text.h"
#include "stream/recovered.h"
#include "stream/watcher.h"

namespace nb = nanobind;

namespace stepscope {
namespace {

// ---- every second, on the main thread, between two instructions of the program's
//
// A thread of our own would be one more among the program's.

PyObject* ticker = nullptr;  // guarded by the GIL

int tell(void*) {
  if (!ticker) return 0;
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

void set_stream_ticker(const nb::object& wanted) {
  PyObject* const old = std::exchange(ticker, wanted.is_none() ? nullptr : wanted.inc_ref().ptr());
  Py_XDECREF(old);
  Stream::instance().set_every_second(ticker ? [] { Py_AddPendingCall(&tell, nullptr); }
                                             : static_cast<void (*)()>(nullptr));
}

// What a process has left, as tables like those of a closed window.
class PythonRecovered {
 public:
  PythonRecovered(const std::string& memory, const std::string& disk) {
    nb::gil_scoped_release release;
    found_ = recover(memory, disk);
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

  Recovered found_;
};

}  // namespace

void bind_stream(nb::module_& m) {
  m.def(
      "start_stream",
      [](const std::string& memory, const std::string& disk, uint64_t memory_bytes) {
        return Stream::instance().start({memory, disk, memory_bytes});
      },
      nb::arg("memory"), nb::arg("disk"), nb::arg("memory_bytes"));
  m.def("stop_stream", [] { Stream::instance().stop(); }, nb::call_guard<nb::gil_scoped_release>());
  m.def(
      "flush_stream", [] { Stream::instance().flush(); }, nb::call_guard<nb::gil_scoped_release>());
  m.def("is_streaming", &Stream::is_on);
  m.def("stream_obstacle", [] { return Stream::instance().obstacle(); });
  m.def(
      "note_in_stream",
      [](std::string_view name, std::string_view text) {
        const MetaEntry entry{static_cast<uint32_t>(name.size()), 0};
        Stream::instance().note(Entry::kMeta, entry, name, text);
      },
      nb::arg("name"), nb::arg("text"));
  m.def("set_stream_ticker", &set_stream_ticker, nb::arg("tell").none());
  m.def("start_watcher", &start_watcher, nb::arg("command"));
  m.def("dismiss_watcher", &dismiss_watcher, nb::call_guard<nb::gil_scoped_release>());
  nb::class_<PythonRecovered>(m, "RecoveredStream")
      .def(nb::init<const std::string&, const std::string&>(), nb::arg("memory"), nb::arg("disk"))
      .def("recordings", &PythonRecovered::recordings)
      .def("meta", &PythonRecovered::meta)
      .def("facts", &PythonRecovered::facts)
      .def("stack_table", &PythonRecovered::stack_table, nb::arg("numbers"))
      .def("types", &PythonRecovered::types)
      .def("sampled", &PythonRecovered::sampled, nb::arg("native_text"))
      .def("device", &PythonRecovered::device)
      .def("pauses", &PythonRecovered::pauses);
}

}  // namespace stepscope
