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

template <typename T, typename Field>
Column<T> column(const Snapshot& snapshot, Field field) {
  std::vector<T> values;
  values.reserve(snapshot.records.size());
  for (const Record* record : snapshot.records) values.push_back(static_cast<T>(field(*record)));
  return to_column(std::move(values));
}

nb::dict columns_of(const Snapshot& snapshot) {
  StringTable strings;
  const LabelIds labels = intern_labels(snapshot.texts, strings);
  const uint32_t operators = strings.id_of("cpu_op");
  const uint32_t ranges = strings.id_of("user_annotation");
  const auto is_operator = [](const Record& r) { return r.kind == Kind::kOperator; };
  bool any_context = false;
  bool any_detail = false;
  for (const Record* record : snapshot.records) {
    any_context |= record->context != 0;
    any_detail |= record->detail != 0;
  }
  nb::dict out;
  const TickMap& map = snapshot.tick_map;
  out["start_ns"] =
      column<int64_t>(snapshot, [&](const Record& r) { return map.ns(r.start_ticks); });
  out["duration_ns"] = column<int64_t>(
      snapshot, [&](const Record& r) { return map.ns(r.end_ticks) - map.ns(r.start_ticks); });
  out["track"] = column<uint32_t>(snapshot, [](const Record& r) { return r.thread; });
  out["flags"] = column<uint8_t>(snapshot, [](const Record& r) { return r.flags; });
  out["sequence"] = column<int64_t>(snapshot, [](const Record& r) { return r.sequence; });
  out["forward_thread"] = column<int64_t>(snapshot, [](const Record& r) {
    return r.forward_thread ? int64_t{r.forward_thread} : int64_t{-1};
  });
  out["category"] = column<uint32_t>(
      snapshot, [&](const Record& r) { return is_operator(r) ? operators : ranges; });
  out["name"] = column<uint32_t>(snapshot, [&](const Record& r) {
    return is_operator(r) ? labels.name[r.label] : labels.whole[r.label];
  });
  out["overload"] = column<uint32_t>(
      snapshot, [&](const Record& r) { return is_operator(r) ? labels.overload[r.label] : 0; });
  out["context"] = nb::none();
  if (any_context) {
    out["context"] = column<uint32_t>(snapshot, [](const Record& r) { return r.context; });
  }
  out["detail"] = nb::none();
  if (any_detail) {
    out["detail"] =
        column<uint32_t>(snapshot, [&](const Record& r) { return labels.whole[r.detail]; });
  }
  out["blob"] = strings.blob();
  out["offsets"] = to_column(strings.offsets());
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
  m.def("overhead_ns", &overhead_ns, nb::arg("rounds"));
  m.def("core_api_address", [] { return reinterpret_cast<uintptr_t>(&Recorder::core_api()); });
}

}  // namespace stepscope
