#include "perfetto/reader.h"

#include "json/utf8.h"
#include "perfetto/messages.h"
#include "protobuf/wire.h"

namespace stepscope::perfetto {
namespace {

using protobuf::Field;
using protobuf::FlatMessage;
using protobuf::Got;
using protobuf::Wire;
using protobuf::WireReader;

constexpr uint64_t kFragmentRoom = uint64_t{256} << 20;
constexpr uint64_t kFragmentShare = 32;  // bytes of fragments for each byte of a file

}  // namespace

// A packet, its parts not looked into.
struct Reader::Packet {
  PacketTime time;
  bool is_cleared = false;
  bool is_known = false;  // it holds something that is read, or nothing but settings
  std::string_view clocks, event, interned, defaults, track, thread, process, processes, inflated;
  std::string_view own;
  bool has_event = false;
  bool is_ftrace = false;
};

PerfettoColumns Reader::read(std::string_view file) {
  annotations_.emplace(tables_, kFragmentRoom + kFragmentShare * file.size());
  WireReader reader(file);
  Field field;
  Got got = Got::kField;
  while ((got = reader.next(field)) == Got::kField) {
    if (field.number == kPacket && field.wire == Wire::kBytes) read_packet(field.bytes, false);
  }
  out_.ends_early = got == Got::kCut;
  out_.is_broken = got == Got::kBroken;
  out_.broken_at = reader.position();
  add_flows();
  out_.oddities[static_cast<size_t>(Oddity::kMalformed)] += annotations_->malformed;
  out_.events = tables_.finish();
  out_.oddities[static_cast<size_t>(Oddity::kOpenBegin)] = out_.events.open_begins;
  out_.oddities[static_cast<size_t>(Oddity::kStrayEnd)] = out_.events.stray_ends;
  json::MarkColumns& marks = out_.events.marks;
  for (size_t row = 0; row < marks.phase.size(); ++row) {  // a counter is called as its track is
    if (marks.phase[row] == 'C' && marks.name[row] == 0) {
      marks.name[row] = tables_.strings.intern_text(out_.tracks[marks.track[row]].name);
    }
  }
  out_.strings = std::move(tables_.strings);
  out_.keys = std::move(tables_.keys);
  out_.wall_offset_ns = clocks_.wall_offset_ns();
  return std::move(out_);
}

void Reader::read_packets(std::string_view bytes, bool is_inflated) {
  WireReader reader(bytes);
  Field field;
  Got got = Got::kField;
  while ((got = reader.next(field)) == Got::kField) {
    if (field.number == kPacket && field.wire == Wire::kBytes) {
      read_packet(field.bytes, is_inflated);
    }
  }
  if (got != Got::kEnd) count(Oddity::kMalformed);
}

void Reader::read_packet(std::string_view bytes, bool is_inflated) {
  Packet packet;
  WireReader reader(bytes);
  Field field;
  Got got = Got::kField;
  bool has_other = false;
  while ((got = reader.next(field)) == Got::kField) {
    const bool is_bytes = field.wire == Wire::kBytes;
    switch (field.number) {
      case packet::kTimestamp:
        packet.time.time = field.value;
        break;
      case packet::kClock:
        packet.time.clock = field.value;
        break;
      case packet::kSequence:
        packet.time.sequence = static_cast<uint32_t>(field.value);
        break;
      case packet::kSequenceFlags:
        packet.is_cleared = packet.is_cleared || (field.value & packet::kFlagCleared) != 0;
        break;
      case packet::kStateCleared:
        packet.is_cleared = packet.is_cleared || field.value != 0;
        break;
      case packet::kClockSnapshot:
        packet.clocks = field.bytes;
        break;
      case packet::kTrackEvent:
        packet.event = field.bytes;
        packet.has_event = is_bytes;
        break;
      case packet::kInternedData:
        packet.interned = field.bytes;
        break;
      case packet::kDefaults:
        packet.defaults = field.bytes;
        break;
      case packet::kTrackDescriptor:
        packet.track = field.bytes;
        break;
      case packet::kThreadDescriptor:
        packet.thread = field.bytes;
        break;
      case packet::kProcessDescriptor:
        packet.process = field.bytes;
        break;
      case packet::kProcessTree:
        packet.processes = field.bytes;
        break;
      case packet::kCompressed:
        packet.inflated = field.bytes;
        break;
      case packet::kOwn:
        packet.own = field.bytes;
        break;
      case packet::kFtraceEvents:
        packet.is_ftrace = is_bytes;
        break;
      default:
        has_other = has_other || is_bytes;
        break;
    }
  }
  if (got != Got::kEnd) return count(Oddity::kMalformed);
  ++out_.packets;
  if (packet.is_ftrace) count(Oddity::kFtracePackets);
  if (has_other && !packet.has_event) count(Oddity::kOtherPackets);
  Sequence& sequence = sequences_[packet.time.sequence];
  if (packet.is_cleared) {
    sequence.interned.clear();
    sequence.clock.reset();
    sequence.track.reset();
  }
  if (!packet.own.empty()) {
    out_.own = json::valid_utf8(packet.own);
    annotations_->texts_may_be_json = true;
  }
  if (!packet.defaults.empty()) read_defaults(sequence, packet.defaults);
  if (!packet.interned.empty() && !sequence.interned.add(packet.interned, tables_.strings)) {
    count(Oddity::kMalformed);
  }
  if (!packet.clocks.empty() && !clocks_.add_snapshot(packet.clocks, packet.time.sequence)) {
    count(Oddity::kMalformed);
  }
  if (!packet.track.empty()) read_track(packet.track);
  if (!packet.thread.empty()) read_thread_descriptor(sequence, packet.thread);
  if (!packet.process.empty()) {
    FlatMessage<9> message;
    if (message.read(packet.process)) {
      out_.process_names[as_id(message.number[track::kProcessId])] =
          json::valid_utf8(message.text[track::kProcessName]);
    }
  }
  if (!packet.processes.empty()) read_process_tree(packet.processes);
  if (packet.has_event) read_event(packet.event, packet.time, sequence);
  if (!packet.inflated.empty()) {
    if (is_inflated) return count(Oddity::kMalformed);  // Perfetto does not nest them either
    read_packets(inflate_(packet.inflated), true);
  }
}

void Reader::read_defaults(Sequence& sequence, std::string_view bytes) {
  WireReader reader(bytes);
  Field field;
  while (reader.next(field) == Got::kField) {
    if (field.number == defaults::kClock && field.wire == Wire::kVarint) {
      sequence.clock = field.value;
    }
    if (field.number != defaults::kTrackEvent || field.wire != Wire::kBytes) continue;
    FlatMessage<12> message;
    message.read(field.bytes);
    if (message.has(defaults::kTrack)) sequence.track = message.number[defaults::kTrack];
  }
}

// ---- tracks, as descriptors of processes and threads tell of them

void Reader::read_thread(TrackTold& track, std::string_view bytes) {
  FlatMessage<9> message;
  if (!message.read(bytes)) return count(Oddity::kMalformed);
  track.pid = as_id(message.number[track::kThreadProcess]);
  track.tid = static_cast<int64_t>(message.number[track::kThreadId]);
  if (message.has(track::kThreadName))
    track.name = json::valid_utf8(message.text[track::kThreadName]);
}

void Reader::read_track(std::string_view bytes) {
  WireReader reader(bytes);
  Field field;
  TrackTold track;
  Got got = Got::kField;
  while ((got = reader.next(field)) == Got::kField) {
    if (field.number == track::kUuid) track.uuid = field.value;
    if (field.number == track::kParent) track.parent = field.value;
    if (field.wire != Wire::kBytes) continue;
    if (field.number == track::kThread) read_thread(track, field.bytes);
    if ((field.number == track::kName || field.number == track::kStaticName) &&
        track.name.empty()) {
      track.name = json::valid_utf8(field.bytes);
    }
    FlatMessage<9> inner;
    if (field.number == track::kProcess && inner.read(field.bytes)) {
      track.pid = as_id(inner.number[track::kProcessId]);
      track.process_name = json::valid_utf8(inner.text[track::kProcessName]);
      if (!track.process_name.empty()) out_.process_names[*track.pid] = track.process_name;
    }
    if (field.number == track::kCounter && inner.read(field.bytes)) {
      track.is_counter = true;
      track.is_incremental = inner.number[track::kIsIncremental] != 0;
      const auto multiplier = static_cast<int64_t>(inner.number[track::kUnitMultiplier]);
      if (multiplier > 0) track.multiplier = multiplier;
    }
  }
  if (got != Got::kEnd) count(Oddity::kMalformed);
  TrackTold& stored = out_.tracks[track_by_uuid(track.uuid)];
  track.value = stored.value;
  stored = std::move(track);
}

void Reader::read_thread_descriptor(Sequence& sequence, std::string_view bytes) {
  TrackTold track;
  read_thread(track, bytes);
  if (!track.pid) return;
  sequence.thread = {*track.pid, *track.tid};
  if (!track.name.empty()) out_.tracks[track_by_thread(*sequence.thread)].name = track.name;
  FlatMessage<9> message;
  message.read(bytes);
  if (message.has(track::kReferenceUs)) {
    sequence.reference_us = static_cast<int64_t>(message.number[track::kReferenceUs]);
  }
}

void Reader::read_process_tree(std::string_view bytes) {
  WireReader reader(bytes);
  Field field;
  while (reader.next(field) == Got::kField) {
    FlatMessage<4> message;
    if (field.wire != Wire::kBytes || !message.read(field.bytes)) continue;
    if (field.number == process_tree::kProcess) {
      const int64_t pid = as_id(message.number[process_tree::kProcessId]);
      const std::string_view command = message.text[process_tree::kCommand];
      if (!command.empty()) out_.process_names.try_emplace(pid, json::valid_utf8(command));
    } else if (field.number == process_tree::kThread) {
      const int64_t tid = as_id(message.number[process_tree::kThreadId]);
      const std::string_view name = message.text[process_tree::kThreadName];
      if (!name.empty()) out_.thread_names.try_emplace(tid, json::valid_utf8(name));
    }
  }
}

uint32_t Reader::track_by_uuid(uint64_t uuid) {
  const auto [place, is_new] =
      by_uuid_.try_emplace(uuid, static_cast<uint32_t>(out_.tracks.size()));
  if (is_new) {
    TrackTold track;
    track.uuid = uuid;
    out_.tracks.push_back(std::move(track));
  }
  return place->second;
}

uint32_t Reader::track_by_thread(std::pair<int64_t, int64_t> thread) {
  const auto [place, is_new] =
      by_thread_.try_emplace(thread, static_cast<uint32_t>(out_.tracks.size()));
  if (is_new) {
    TrackTold track;
    track.pid = thread.first;
    track.tid = thread.second;
    out_.tracks.push_back(std::move(track));
  }
  return place->second;
}

}  // namespace stepscope::perfetto
