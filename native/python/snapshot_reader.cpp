// The reader of PyTorch's memory snapshots as Python sees it: bytes in, NumPy columns out.
#include <string>
#include <utility>

#include "pickle/memory_snapshot.h"
#include "python/columns.h"
#include "python/event_columns.h"
#include "python/module.h"
#include "python/text.h"

namespace nb = nanobind;

namespace stepscope {
namespace {

using pickle::MemorySnapshot;
using pickle::Value;

void feed_pickle(MemorySnapshot& snapshot, nb::bytes text) {
  const std::string_view bytes(text.c_str(), text.size());
  nb::gil_scoped_release unlocked;
  snapshot.feed(bytes);
}

nb::dict to_events(pickle::SnapshotEvents&& events) {
  nb::dict out;
  out["action"] = to_column(std::move(events.action));
  out["device"] = to_column(std::move(events.list));
  out["address"] = to_column(std::move(events.address));
  out["size"] = to_column(std::move(events.size));
  out["stream"] = to_column(std::move(events.stream));
  out["time_us"] = to_column(std::move(events.time_us));
  out["stack"] = to_column(std::move(events.stack));
  out["note"] = to_column(std::move(events.note));
  return out;
}

nb::dict to_blocks(pickle::SnapshotBlocks&& blocks) {
  nb::dict out;
  out["device"] = to_column(std::move(blocks.device));
  out["address"] = to_column(std::move(blocks.address));
  out["size"] = to_column(std::move(blocks.size));
  out["requested"] = to_column(std::move(blocks.requested));
  out["state"] = to_column(std::move(blocks.state));
  out["stack"] = to_column(std::move(blocks.stack));
  return out;
}

nb::dict to_segments(pickle::SnapshotSegments&& segments) {
  nb::dict out;
  out["device"] = to_column(std::move(segments.device));
  out["address"] = to_column(std::move(segments.address));
  out["size"] = to_column(std::move(segments.size));
  out["stream"] = to_column(std::move(segments.stream));
  return out;
}

nb::dict to_ranges(pickle::SnapshotRanges&& ranges) {
  nb::dict out;
  out["device"] = to_column(std::move(ranges.device));
  out["time_us"] = to_column(std::move(ranges.time_us));
  out["name"] = to_column(std::move(ranges.name));
  out["stage"] = to_column(std::move(ranges.stage));
  return out;
}

nb::object to_object(MemorySnapshot& snapshot, const Value& value) {
  switch (value.kind) {
    case pickle::Kind::kBool:
      return nb::cast(value.integer != 0);
    case pickle::Kind::kInteger:
      return nb::cast(value.integer);
    case pickle::Kind::kReal:
      return nb::cast(value.real);
    case pickle::Kind::kText:
      return to_str(snapshot.strings()[value.at]);
    default:
      return nb::none();
  }
}

nb::dict finish_snapshot(MemorySnapshot& snapshot) {
  {
    nb::gil_scoped_release unlocked;
    snapshot.finish();
  }
  nb::dict out;
  nb::dict settings;
  for (const auto& [key, value] : snapshot.settings) {
    settings[to_str(snapshot.strings()[key])] = to_object(snapshot, value);
  }
  out["settings"] = settings;
  out["events"] = to_events(std::move(snapshot.events));
  out["blocks"] = to_blocks(std::move(snapshot.blocks));
  out["segments"] = to_segments(std::move(snapshot.segments));
  out["ranges"] = to_ranges(std::move(snapshot.ranges));
  out["stacks"] = nb::make_tuple(to_column(std::move(snapshot.stack_parent)),
                                 to_column(std::move(snapshot.stack_frame)));
  out["strings"] = to_strings(snapshot.strings());
  out["devices"] = snapshot.devices;
  out["is_snapshot"] = snapshot.has_parts;
  out["is_whole"] = snapshot.is_whole;
  return out;
}

}  // namespace

void bind_snapshot_reader(nb::module_& m) {
  nb::exception<pickle::Malformed>(m, "MalformedPickleError", PyExc_ValueError);
  nb::exception<pickle::Refused>(m, "RefusedPickleError", PyExc_ValueError);
  nb::class_<MemorySnapshot>(m, "SnapshotReader")
      .def(nb::init<>())
      .def("feed", &feed_pickle)
      .def("finish", &finish_snapshot)
      .def_prop_ro("position", &MemorySnapshot::position);
}

}  // namespace stepscope
