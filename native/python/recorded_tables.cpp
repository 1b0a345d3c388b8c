#include "python/recorded_tables.h"

#include <string>
#include <unordered_map>
#include <vector>

#include "python/columns.h"
#include "python/text.h"

namespace nb = nanobind;

namespace stepscope {
namespace {

// The strings of a trace: texts by id, with the empty one first.
class StringTable {
 public:
  StringTable() { id_of(""); }

  uint32_t id_of(std::string_view text) {
    const auto [entry, is_new] =
        ids_.try_emplace(std::string(text), static_cast<uint32_t>(offsets_.size() - 1));
    if (is_new) {
      blob_ += text;
      offsets_.push_back(static_cast<int64_t>(blob_.size()));
    }
    return entry->second;
  }

  nb::bytes blob() const { return nb::bytes(blob_.data(), blob_.size()); }
  std::vector<int64_t> offsets() { return std::move(offsets_); }

 private:
  std::unordered_map<std::string, uint32_t> ids_;
  std::string blob_;
  std::vector<int64_t> offsets_{0};
};

struct LabelIds {
  std::vector<uint32_t> whole;  // of ranges: the whole label
  std::vector<uint32_t> name;   // of operators: what stands before the overload
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

struct Categories {
  explicit Categories(StringTable& strings)
      : operators(strings.id_of("cpu_op")),
        ranges(strings.id_of("user_annotation")),
        calls(strings.id_of("python_function")),
        modules(strings.id_of("module")),
        requests(strings.id_of("request")),
        tasks(strings.id_of("task")) {}

  uint32_t of(Kind kind) const {
    switch (kind) {
      case Kind::kOperator:
        return operators;
      case Kind::kPython:
        return calls;
      case Kind::kModule:
        return modules;
      case Kind::kRequest:
        return requests;
      case Kind::kTask:
        return tasks;
      default:
        return ranges;
    }
  }

  uint32_t operators, ranges, calls, modules, requests, tasks;
};

using RecordTable = Table<const Record*>;

RecordTable slices_of(const Snapshot& snapshot, StringTable& strings) {
  const LabelIds labels = intern_labels(snapshot.texts, strings);
  const Categories categories(strings);
  const TickMap& map = snapshot.tick_map;
  const auto is_operator = [](const Record& r) { return r.kind == Kind::kOperator; };
  const auto has_inputs = [&](const Record& r) { return is_operator(r) || r.flags & kHasInputs; };
  RecordTable table(snapshot.records);
  table.column<int64_t>("start_ns", [&](const Record& r) { return map.ns(r.start_ticks); });
  table.column<int64_t>("duration_ns", [&](const Record& r) {
    return map.ns(r.slice.end_ticks) - map.ns(r.start_ticks);
  });
  table.column<uint32_t>("track", [](const Record& r) { return r.thread; });
  table.column<uint8_t>(
      "flags", [](const Record& r) { return static_cast<uint8_t>(r.flags & ~kHasInputs); });
  table.column<int64_t>("sequence", [](const Record& r) { return r.slice.sequence; });
  table.column<int64_t>("forward_thread", [](const Record& r) {
    return r.slice.forward_thread ? int64_t{r.slice.forward_thread} : int64_t{-1};
  });
  table.column<uint32_t>("category", [&](const Record& r) { return categories.of(r.kind); });
  table.column<uint32_t>("name", [&](const Record& r) {
    return (is_operator(r) ? labels.name : labels.whole)[r.slice.label];
  });
  table.column<uint32_t>("overload", [&](const Record& r) {
    return is_operator(r) ? labels.overload[r.slice.label] : 0;
  });
  table.column_if_any<uint32_t>("context", [](const Record& r) { return r.slice.context; });
  table.column_if_any<uint32_t>("stack", [](const Record& r) { return r.slice.stack; });
  table.column_if_any<uint32_t>(
      "inputs", [&](const Record& r) { return has_inputs(r) ? r.slice.detail : 0; });
  table.column_if_any<uint32_t>(
      "detail", [&](const Record& r) { return has_inputs(r) ? 0 : labels.whole[r.slice.detail]; });
  return table;
}

// The columns that all records of blocks have.
RecordTable blocks_of(const std::vector<const Record*>& records, const TickMap& map) {
  RecordTable table(records);
  table.column<int64_t>("time_ns", [&](const Record& r) { return map.ns(r.start_ticks); });
  table.column<int64_t>("address", [](const Record& r) { return r.block.address; });
  table.column<int64_t>("size", [](const Record& r) { return r.block.bytes; });
  table.column<uint32_t>("device", [](const Record& r) { return r.block.device.word(); });
  return table;
}

RecordTable memory_of(const Snapshot& snapshot) {
  RecordTable table = blocks_of(snapshot.memory, snapshot.tick_map);
  table.column<uint32_t>("track", [](const Record& r) { return r.thread; });
  table.column<int64_t>("allocated", [](const Record& r) { return r.change.allocated; });
  table.column<int64_t>("reserved", [](const Record& r) { return r.change.reserved; });
  return table;
}

RecordTable owners_of(const Snapshot& snapshot) {
  RecordTable table = blocks_of(snapshot.owners, snapshot.tick_map);
  table.column<uint8_t>("owner", [](const Record& r) { return r.owner.owner; });
  return table;
}

RecordTable uses_of(const Snapshot& snapshot) {
  RecordTable table(snapshot.uses);
  const TickMap& map = snapshot.tick_map;
  table.column<int64_t>("time_ns", [&](const Record& r) { return map.ns(r.start_ticks); });
  table.column<uint32_t>("track", [](const Record& r) { return r.thread; });
  table.column<uint8_t>("role", [](const Record& r) { return r.use.role; });
  table.column<uint32_t>("position", [](const Record& r) { return r.use.position; });
  table.column<int64_t>("value", [](const Record& r) { return r.use.value; });
  table.column<int64_t>("storage", [](const Record& r) { return r.use.storage; });
  table.column<int64_t>("size", [](const Record& r) { return r.use.bytes; });
  return table;
}

}  // namespace

nb::dict tables_of(const Snapshot& snapshot) {
  StringTable strings;
  nb::dict out = slices_of(snapshot, strings).columns;
  out["memory"] = memory_of(snapshot).columns;
  out["owners"] = owners_of(snapshot).columns;
  out["uses"] = uses_of(snapshot).columns;
  out["blob"] = strings.blob();
  out["offsets"] = to_column(strings.offsets());
  nb::list inputs;
  for (const std::string& text : snapshot.inputs)
    inputs.append(nb::bytes(text.data(), text.size()));
  out["input_texts"] = inputs;
  std::vector<uint32_t> rows;
  std::vector<uint32_t> numbers;
  for (const auto& [row, number] : snapshot.sampled_inputs) {
    rows.push_back(static_cast<uint32_t>(row));
    numbers.push_back(number);
  }
  out["sampled_inputs"] = nb::make_tuple(to_column(std::move(rows)), to_column(std::move(numbers)));
  return out;
}

nb::dict window_of(const Snapshot& snapshot) {
  nb::list threads;
  for (const ThreadInfo& thread : snapshot.threads) {
    threads.append(nb::make_tuple(thread.os_id, thread.logical_id,
                                  nb::bytes(thread.name.data(), thread.name.size())));
  }
  nb::dict out = tables_of(snapshot);
  out["threads"] = threads;
  out["window_start_ns"] = snapshot.tick_map.ns(snapshot.start_ticks);
  out["window_end_ns"] = snapshot.tick_map.ns(snapshot.end_ticks);
  out["lost"] = snapshot.lost;
  out["limit_bytes"] = snapshot.limit.bytes;
  out["is_ring"] = snapshot.limit.is_ring();
  out["keep_newest"] = snapshot.limit.keep == Keep::kNewest;
  return out;
}

nb::list range_tuples(const std::vector<RecentRange>& ranges, const TickMap& map) {
  nb::list tuples;
  for (const RecentRange& range : ranges) {
    tuples.append(
        nb::make_tuple(to_str(range.name), map.ns(range.start_ticks), map.ns(range.end_ticks)));
  }
  return tuples;
}

nb::dict recorded_column_types() {
  const Snapshot nothing;
  StringTable strings;
  nb::dict types;
  types["slices"] = slices_of(nothing, strings).types;
  types["uses"] = uses_of(nothing).types;
  types["memory"] = memory_of(nothing).types;
  types["owners"] = owners_of(nothing).types;
  types["device"] = device_column_types();
  return types;
}

}  // namespace stepscope
