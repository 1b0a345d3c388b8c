// The reader of Paddle's protobuf files as Python sees it: bytes in, NumPy columns out.
#include <utility>

#include "paddle/chrome_labels.h"
#include "paddle/proto_reader.h"
#include "python/columns.h"
#include "python/event_columns.h"
#include "python/module.h"
#include "python/text.h"

namespace nb = nanobind;

namespace stepscope {
namespace {

using paddle::NodeTrees;

constexpr std::pair<paddle::Oddity, const char*> kPaddleOddities[] = {
    {paddle::Oddity::kNegativeDuration, "slices with a negative duration"},
    {paddle::Oddity::kNoTime, "events without a time"},
    {paddle::Oddity::kTimeOutOfRange, "times out of range"},
    {paddle::Oddity::kUnknownType, "events of unknown types"},
    {paddle::Oddity::kMalformed, "malformed events skipped"},
};

nb::dict tree_slices(NodeTrees& trees) {
  nb::dict out;
  out["category"] = to_column(std::move(trees.category));
  out["name"] = to_column(std::move(trees.name));
  out["track"] = to_column(std::move(trees.track));
  out["start_ns"] = to_column(std::move(trees.start_ns));
  out["duration_ns"] = to_column(std::move(trees.duration_ns));
  out["correlation"] = to_column(std::move(trees.correlation));
  out["parent"] = to_column(std::move(trees.parent));
  nb::dict integers;
  for (size_t i = 0; i < trees.integers.size(); ++i) {
    NodeTrees::Integers& column = trees.integers[i];
    if (column.rows.empty()) continue;
    integers[paddle::kIntegerArgNames[i]] =
        nb::make_tuple(to_column(std::move(column.rows)), to_column(std::move(column.values)));
  }
  out["args"] = nb::make_tuple(integers, to_column(std::move(trees.rest)));
  return out;
}

nb::dict to_memory(NodeTrees::Memory&& memory) {
  nb::dict out;
  out["time_ns"] = to_column(std::move(memory.time_ns));
  out["type"] = to_column(std::move(memory.type));
  out["address"] = to_column(std::move(memory.address));
  out["increase"] = to_column(std::move(memory.increase));
  out["place"] = to_column(std::move(memory.place));
  out["track"] = to_column(std::move(memory.track));
  out["allocated"] = to_column(std::move(memory.allocated));
  out["reserved"] = to_column(std::move(memory.reserved));
  out["peak_allocated"] = to_column(std::move(memory.peak_allocated));
  out["peak_reserved"] = to_column(std::move(memory.peak_reserved));
  out["parent"] = to_column(std::move(memory.parent));
  return out;
}

nb::dict to_dict(NodeTrees&& trees) {
  nb::dict out;
  out["slices"] = tree_slices(trees);
  out["memory"] = to_memory(std::move(trees.memory));
  nb::list tracks;
  for (const paddle::Track& track : trees.tracks) {
    tracks.append(nb::make_tuple(track.is_device, track.process, track.thread));
  }
  out["tracks"] = tracks;
  out["strings"] = to_strings(trees.strings);
  out["version"] = trees.has_version ? nb::object(to_str(trees.version)) : nb::none();
  out["span_index"] = trees.span_index;
  nb::list extra;
  for (const auto& [key, value] : trees.extra_info) {
    extra.append(nb::make_tuple(to_str(key), to_str(value)));
  }
  out["extra_info"] = extra;
  nb::list properties;
  for (const NodeTrees::DeviceProperty& property : trees.device_properties) {
    nb::list numbers;
    for (const uint64_t number : property.number) numbers.append(number);
    properties.append(nb::make_tuple(to_str(property.name), numbers));
  }
  out["device_properties"] = properties;
  out["anomalies"] = to_anomalies(trees.oddities, kPaddleOddities);
  out["ends_early"] = trees.ends_early;
  out["broken_at"] = trees.is_broken ? nb::cast(trees.broken_at) : nb::none();
  return out;
}

nb::dict read_paddle_trees(const nb::bytes& data) {
  const std::string_view bytes(data.c_str(), data.size());
  NodeTrees trees;
  {
    nb::gil_scoped_release release;
    trees = paddle::ProtoReader().read(bytes);
  }
  return to_dict(std::move(trees));
}

nb::dict unlabel_paddle_events(const nb::bytes& blob, const ColumnView<int64_t>& offsets,
                               const ColumnView<uint32_t>& name, const ColumnView<uint32_t>& rest) {
  const std::string_view bytes(blob.c_str(), blob.size());
  paddle::Unlabeled events;
  {
    nb::gil_scoped_release release;
    events = paddle::unlabel(bytes, as_span(offsets), as_span(name), as_span(rest));
  }
  nb::dict out;
  out["name"] = to_column(std::move(events.name));
  out["rest"] = to_column(std::move(events.rest));
  out["start_ns"] = to_column(std::move(events.start_ns));
  out["end_ns"] = to_column(std::move(events.end_ns));
  out["strings"] = to_strings(events.strings);
  return out;
}

}  // namespace

void bind_paddle_reader(nb::module_& m) {
  m.def("read_paddle_trees", &read_paddle_trees, nb::arg("data"));
  m.def("unlabel_paddle_events", &unlabel_paddle_events, nb::arg("blob"), nb::arg("offsets"),
        nb::arg("name"), nb::arg("rest"));
}

}  // namespace stepscope
