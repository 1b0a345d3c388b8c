#include "read_back/recovered_journal.h"

#include <algorithm>
#include <array>

namespace stepscope {
namespace {

class JournalReader {
 public:
  JournalReader(Journal& journal, Recovered& out) : journal_(journal), out_(out) {}

  void read(std::string_view bytes) {
    EntryHeader header;
    while (take(bytes, header)) {
      if (header.bytes > bytes.size()) {
        out_.damaged += bytes.size();
        return;
      }
      read_entry(static_cast<Entry>(header.kind), bytes.substr(0, header.bytes));
      bytes.remove_prefix(std::min(padded(header.bytes), bytes.size()));
    }
  }

 private:
  void read_entry(Entry kind, std::string_view bytes) {
    switch (kind) {
      case Entry::kText:
        return read_text(bytes);
      case Entry::kThread: {
        ThreadEntry entry;
        if (!take(bytes, entry)) return;
        if (auto* const thread =
                journal_.room.place(journal_.recordings[entry.generation].threads, entry.number)) {
          thread->os_id = entry.os_id;
          thread->name = bytes;
        }
        return;
      }
      case Entry::kLogicalId: {
        LogicalIdEntry entry;
        if (!take(bytes, entry)) return;
        if (auto* const thread =
                journal_.room.place(journal_.recordings[entry.generation].threads, entry.number))
          thread->logical_id = entry.logical_id;
        return;
      }
      case Entry::kSyncPoint: {
        SyncPoint point;
        if (take(bytes, point)) journal_.points.push_back(point);
        return;
      }
      case Entry::kWindow: {
        WindowEntry entry;
        if (!take(bytes, entry)) return;
        FoundRecording& recording = journal_.recordings[entry.generation];
        if (recording.window && recording.window != entry.window) return;
        recording.window = entry.window;
        recording.start_ticks = entry.start_ticks;
        recording.limit = {entry.limit_bytes, entry.keep ? Keep::kNewest : Keep::kOldest,
                           entry.age_ticks};
        return;
      }
      case Entry::kStack: {
        StackEntry entry;
        if (!take(bytes, entry)) return;
        RecoveredStack& stack = out_.stacks[entry.number];
        stack.parent = entry.parent;
        stack.file = take_text(bytes, entry.file_bytes);
        stack.name = bytes;
        return;
      }
      case Entry::kClosed:
        out_.is_closed = true;
        return;
      case Entry::kMeta: {
        MetaEntry entry;
        if (!take(bytes, entry)) return;
        const std::string name(take_text(bytes, entry.name_bytes));
        out_.meta[name] = bytes;
        return;
      }
      case Entry::kPause: {
        std::array<int64_t, 4> pause;
        if (take(bytes, pause)) out_.pauses.push_back(pause);
        return;
      }
      default:
        return read_other(kind, bytes);
    }
  }

  void read_text(std::string_view bytes) {
    TextEntry entry;
    if (!take(bytes, entry)) return;
    if (entry.space == static_cast<uint32_t>(TextSpace::kTypes)) {
      if (auto* const text = journal_.room.place(out_.types, entry.id)) *text = bytes;
      return;
    }
    FoundRecording& recording = journal_.recordings[entry.generation];
    const bool is_label = entry.space == static_cast<uint32_t>(TextSpace::kLabels);
    if (auto* const text =
            journal_.room.place(is_label ? recording.texts : recording.inputs, entry.id))
      *text = bytes;
  }

  // What the sampler and the device left.
  void read_other(Entry kind, std::string_view bytes) {
    switch (kind) {
      case Entry::kCode: {
        CodeEntry entry;
        if (!take(bytes, entry)) return;
        SampledCode* const code =
            journal_.room.place(out_.copied_stacks[entry.owner].codes, entry.number);
        if (!code) return;
        code->first_line = entry.first_line;
        code->file = take_text(bytes, entry.file_bytes);
        code->function = take_text(bytes, entry.function_bytes);
        code->line_table = all_of<uint8_t>(take_text(bytes, entry.lines_bytes));
        code->operations = all_of<uint8_t>(take_text(bytes, entry.operations_bytes));
        return;
      }
      case Entry::kNodes: {
        NodesEntry header;
        if (!take(bytes, header)) return;
        std::vector<StackNodes::Node>& nodes = out_.copied_stacks[header.owner].nodes;
        for (const NodeEntry& entry : all_of<NodeEntry>(bytes)) {
          if (auto* const node = journal_.room.place(nodes, entry.number))
            *node = {entry.parent, entry.code, entry.instruction};
        }
        return;
      }
      case Entry::kSamples: {
        int64_t written_ns = 0;
        if (!take(bytes, written_ns)) return;
        for (const PlacedSample& placed : all_of<PlacedSample>(bytes)) {
          WrittenSample& sample = journal_.samples[placed.place];
          if (sample.written_ns <= written_ns) sample = {written_ns, placed.sample};
        }
        return;
      }
      case Entry::kSampled: {
        SampledThreadEntry entry;
        if (!take(bytes, entry)) return;
        if (auto* const thread = journal_.room.place(out_.sampled, entry.number))
          *thread = {entry.os_id, std::string(bytes)};
        return;
      }
      case Entry::kResident:
        for (const auto& pair : all_of<std::array<int64_t, 2>>(bytes))
          out_.resident.emplace_back(pair[0], pair[1]);
        return;
      case Entry::kDeviceName: {
        std::array<uint32_t, 2> entry;
        if (!take(bytes, entry)) return;
        if (auto* const name = journal_.room.place(out_.device.names, entry[0])) *name = bytes;
        return;
      }
      case Entry::kDeviceShapes: {
        std::array<uint32_t, 2> entry;
        if (!take(bytes, entry)) return;
        for (const LaunchShape& launch_shape : all_of<LaunchShape>(bytes)) {
          if (auto* const shape = journal_.room.place(out_.device.shapes, entry[0]++))
            *shape = launch_shape;
        }
        return;
      }
      case Entry::kDeviceRecords:
        for (const DeviceRecord& record : all_of<DeviceRecord>(bytes))
          out_.device.records.push_back(record);
        return;
      case Entry::kDeviceCall: {
        std::array<uint32_t, 2> entry;
        if (take(bytes, entry)) out_.calls[{entry[0], entry[1]}] = bytes;
        return;
      }
      default:
        return read_held(kind, bytes);
    }
  }

  void read_held(Entry kind, std::string_view bytes) {
    switch (kind) {
      case Entry::kHeldBlock:
        return add_all(bytes, out_.held_blocks);
      case Entry::kReleased:
        return add_all(bytes, out_.released);
      case Entry::kGraphNodes:
        for (const GraphNodeEntry& entry : all_of<GraphNodeEntry>(bytes)) {
          if (auto* const node = journal_.room.place(out_.graph_nodes, entry.number)) *node = entry;
        }
        return;
      case Entry::kGraphCopies:
        return add_all(bytes, out_.graph_copies);
      case Entry::kGraphOperator: {
        std::array<uint32_t, 2> entry;
        if (!take(bytes, entry)) return;
        if (auto* const name = journal_.room.place(out_.graph_operators, entry[0])) *name = bytes;
        return;
      }
      case Entry::kPower:
        return add_all(bytes, out_.power);
      case Entry::kCounters:
        return add_all(bytes, out_.counters);
      case Entry::kCounterDevice:
        return read_counter_device(bytes);
      default:
        return;  // of a later version
    }
  }

  template <typename Row>
  static void add_all(std::string_view bytes, std::vector<Row>& rows) {
    for (const Row& row : all_of<Row>(bytes)) rows.push_back(row);
  }

  // A device is noted when sampling begins, and again, with one more bound, when it ends.
  void read_counter_device(std::string_view bytes) {
    CounterDeviceEntry entry;
    if (!take(bytes, entry)) return;
    CounterDevice device;
    device.number = entry.number;
    device.overflowed = entry.overflowed != 0;
    device.chip = take_text(bytes, entry.chip_bytes);
    device.obstacle = take_text(bytes, entry.obstacle_bytes);
    device.bounds = all_of<ClockBound>(take_text(bytes, entry.bounds * sizeof(ClockBound)));
    while (!bytes.empty()) {
      const size_t end = std::min(bytes.find('\0'), bytes.size());
      device.metrics.emplace_back(bytes.substr(0, end));
      bytes.remove_prefix(std::min(end + 1, bytes.size()));
    }
    CounterDevice& stored = out_.counter_devices[entry.number];
    if (stored.bounds.size() <= device.bounds.size()) stored = std::move(device);
  }

  Journal& journal_;
  Recovered& out_;
};

}  // namespace

void read_journal(std::string_view bytes, Journal& journal, Recovered& out) {
  JournalReader(journal, out).read(bytes);
}

}  // namespace stepscope
