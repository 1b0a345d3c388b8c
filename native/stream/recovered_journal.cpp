#include "stream/recovered_journal.h"

#include <algorithm>
#include <array>

#include "stream/placed_sample.h"

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
        recording.limit_bytes = entry.limit_bytes;
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
        SampledCode* const code = journal_.room.place(out_.codes, entry.number);
        if (!code) return;
        code->first_line = entry.first_line;
        code->file = take_text(bytes, entry.file_bytes);
        code->function = take_text(bytes, entry.function_bytes);
        code->line_table = all_of<uint8_t>(take_text(bytes, entry.lines_bytes));
        code->operations = all_of<uint8_t>(take_text(bytes, entry.operations_bytes));
        return;
      }
      case Entry::kNode:
        for (const NodeEntry& entry : all_of<NodeEntry>(bytes)) {
          if (auto* const node = journal_.room.place(out_.nodes, entry.number))
            *node = {entry.parent, entry.code, entry.instruction};
        }
        return;
      case Entry::kSamples:
        for (const PlacedSample& each : all_of<PlacedSample>(bytes))
          journal_.samples[each.place] = each.sample;
        return;
      case Entry::kSampled: {
        SampledThreadEntry entry;
        if (!take(bytes, entry)) return;
        if (auto* const thread = journal_.room.place(out_.sampled, entry.number))
          *thread = {entry.os_id, std::string(bytes)};
        return;
      }
      case Entry::kResident:
        for (const auto& each : all_of<std::array<int64_t, 2>>(bytes))
          out_.resident.emplace_back(each[0], each[1]);
        return;
      case Entry::kDeviceName: {
        std::array<uint32_t, 2> entry;
        if (!take(bytes, entry)) return;
        if (auto* const name = journal_.room.place(out_.device.names, entry[0])) *name = bytes;
        return;
      }
      case Entry::kDeviceShape:
        for (const LaunchShape& shape : all_of<LaunchShape>(bytes))
          out_.device.shapes.push_back(shape);
        return;
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
        return;  // of a later version
    }
  }

  Journal& journal_;
  Recovered& out_;
};

}  // namespace

void read_journal(std::string_view bytes, Journal& journal, Recovered& out) {
  JournalReader(journal, out).read(bytes);
}

}  // namespace stepscope
