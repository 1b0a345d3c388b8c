// The recorder's Python face: windows, the clock, and a snapshot as columns.
#include "core/recorder.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include <string>
#include <unordered_map>
#include <vector>

#include "core/clock.h"
#include "python/columns.h"
#include "python/module.h"

namespace nb = nanobind;

namespace stepscope {
namespace {

// The strings of a trace: texts by id, with the empty one first.
class StringTable {
 public:
  StringTable() { id_of(""); }

  uint32_t id_of(std::string_view text) {
    const auto [found, is_new] =
        ids_.try_emplace(std::string(text), static_cast<uint32_t>(offsets_.size() - 1));
    if (is_new) {
      blob_ += text;
      offsets_.push_back(static_cast<int64_t>(blob_.size()));
    }
    return found->second;
  }

  nb::bytes blob() const { return nb::bytes(blob_.data(), blob_.size()); }
  std::vector<int64_t> offsets() { return std::move(offsets_); }

 private:
  std::unordered_map<std::string, uint32_t> ids_;
  std::string blob_;
  std::vector<int64_t> offsets_{0};
};

struct LabelIds {
  std::vector<uint32_t> whole;  // the label as it is: ranges
  std::vector<uint32_t> name;   // split at the overload mark: operators
  std::vector<uint32_t> overload;
};

LabelIds intern_labels(const std::vector<std::string>& texts, StringTable& strings) {
  LabelIds ids;
  for (const std::string_view text : texts) {
    const size_t mark = text.find(kOverloadMark);
    ids.whole.push_back(strings.id_of(text));
    ids.name.push_back(strings.id_of(text.substr(0, mark)));
    ids.overload.push_back(mark == std::string_view::npos ? 0
                                                          : strings.id_of(text.substr(mark + 1)));
  }
  return ids;
}

using Records = std::vector<const Record*>;

template <typename T, typename Field>
Column<T> column(const Records& records, Field field) {
  std::vector<T> values;
  values.reserve(records.size());
  for (const Record* record : records) values.push_back(static_cast<T>(field(*record)));
  return to_column(std::move(values));
}

// A column that most recordings do not need: None when all of it is 0.
template <typename Field>
nb::object column_if_any(const Records& records, Field field) {
  for (const Record* record : records) {
    if (field(*record)) return nb::cast(column<uint32_t>(records, field));
  }
  return nb::none();
}

struct Categories {
  explicit Categories(StringTable& strings)
      : operators(strings.id_of("cpu_op")),
        ranges(strings.id_of("user_annotation")),
        calls(strings.id_of("python_function")),
        modules(strings.id_of("module")) {}

  uint32_t of(Kind kind) const {
    switch (kind) {
      case Kind::kOperator:
        return operators;
      case Kind::kPython:
        return calls;
      case Kind::kModule:
        return modules;
      default:
        return ranges;
    }
  }

  uint32_t operators, ranges, calls, modules;
};

nb::dict columns_of(const Snapshot& snapshot) {
  StringTable strings;
  const LabelIds labels = intern_labels(snapshot.texts, strings);
  const Categories categories(strings);
  const auto is_operator = [](const Record& r) { return r.kind == Kind::kOperator; };
  const Records& records = snapshot.records;
  const TickMap& map = snapshot.tick_map;
  nb::dict out;
  out["start_ns"] =
      column<int64_t>(records, [&](const Record& r) { return map.ns(r.start_ticks); });
  out["duration_ns"] = column<int64_t>(
      records, [&](const Record& r) { return map.ns(r.end_ticks) - map.ns(r.start_ticks); });
  out["track"] = column<uint32_t>(records, [](const Record& r) { return r.thread; });
  out["flags"] = column<uint8_t>(records, [](const Record& r) { return r.flags; });
  out["sequence"] = column<int64_t>(records, [](const Record& r) { return r.sequence; });
  out["forward_thread"] = column<int64_t>(records, [](const Record& r) {
    return r.forward_thread ? int64_t{r.forward_thread} : int64_t{-1};
  });
  out["category"] =
      column<uint32_t>(records, [&](const Record& r) { return categories.of(r.kind); });
  out["name"] = column<uint32_t>(records, [&](const Record& r) {
    return is_operator(r) ? labels.name[r.label] : labels.whole[r.label];
  });
  out["overload"] = column<uint32_t>(
      records, [&](const Record& r) { return is_operator(r) ? labels.overload[r.label] : 0; });
  out["context"] = column_if_any(records, [](const Record& r) { return r.context; });
  out["stack"] = column_if_any(records, [](const Record& r) { return r.stack; });
  out["inputs"] =
      column_if_any(records, [&](const Record& r) { return is_operator(r) ? r.detail : 0; });
  out["detail"] = column_if_any(
      records, [&](const Record& r) { return is_operator(r) ? 0 : labels.whole[r.detail]; });
  out["blob"] = strings.blob();
  out["offsets"] = to_column(strings.offsets());
  nb::list inputs;
  for (const std::string& text : snapshot.inputs)
    inputs.append(nb::bytes(text.data(), text.size()));
  out["input_texts"] = inputs;
  return out;
}

// What an event of a block of memory and a statement about one have in common.
nb::dict blocks_of(const Records& records, const TickMap& map) {
  nb::dict out;
  out["time_ns"] = column<int64_t>(records, [&](const Record& r) { return map.ns(r.start_ticks); });
  out["address"] = column<int64_t>(records, [](const Record& r) { return r.sequence; });
  out["size"] = column<int64_t>(records, [](const Record& r) { return r.end_ticks; });
  out["device"] = column<uint32_t>(records, [](const Record& r) { return r.detail; });
  return out;
}

nb::dict memory_of(const Snapshot& snapshot) {
  const Records& records = snapshot.memory;
  nb::dict out = blocks_of(records, snapshot.tick_map);
  out["track"] = column<uint32_t>(records, [](const Record& r) { return r.thread; });
  out["allocated"] = column<int64_t>(records, [](const Record& r) { return r.order; });
  out["reserved"] = column<int64_t>(
      records, [](const Record& r) { return uint64_t{r.forward_thread} << 32 | r.label; });
  return out;
}

nb::dict owners_of(const Snapshot& snapshot) {
  const Records& records = snapshot.owners;
  nb::dict out = blocks_of(records, snapshot.tick_map);
  out["owner"] = column<uint8_t>(records, [](const Record& r) { return r.flags; });
  return out;
}

nb::dict close_window(uint64_t window) {
  Snapshot snapshot;
  {
    nb::gil_scoped_release release;
    snapshot = Recorder::instance().close_window(window);
  }
  nb::list threads;
  for (const ThreadInfo& thread : snapshot.threads) {
    threads.append(nb::make_tuple(thread.os_id, thread.logical_id,
                                  nb::bytes(thread.name.data(), thread.name.size())));
  }
  nb::dict out = columns_of(snapshot);
  out["memory"] = memory_of(snapshot);
  out["owners"] = owners_of(snapshot);
  out["threads"] = threads;
  out["window_start_ns"] = snapshot.tick_map.ns(snapshot.start_ticks);
  out["window_end_ns"] = snapshot.tick_map.ns(snapshot.end_ticks);
  out["lost"] = snapshot.lost;
  out["limit_bytes"] = snapshot.limit.bytes;
  out["keep_newest"] = snapshot.limit.keep == Keep::kNewest;
  return out;
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
