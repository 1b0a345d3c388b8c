#include "perfetto/reader.h"

#include <algorithm>
#include <bit>
#include <unordered_set>

#include "json/json_escape.h"
#include "perfetto/messages.h"
#include "perfetto/texts.h"
#include "protobuf/wire.h"

namespace stepscope::perfetto {
namespace {

using protobuf::Field;
using protobuf::FlatMessage;
using protobuf::Got;
using protobuf::Wire;
using protobuf::WireReader;

constexpr uint64_t kLatest = uint64_t{1} << 62;  // as trace/validate.py has it
constexpr uint64_t kFragmentRoom = uint64_t{256} << 20;
constexpr uint64_t kFragmentShare = 32;  // bytes of fragments for each byte of a file
constexpr int64_t kNsOfUs = 1000;

}  // namespace

// A packet, its parts not looked into.
struct Reader::Packet {
  std::optional<uint64_t> time, clock;
  uint32_t sequence = 0;
  bool is_cleared = false;
  bool is_known = false;  // it holds something that is read, or nothing but settings
  std::string_view clocks, event, interned, defaults, track, thread, process, processes, inflated;
  std::string_view own;
  bool has_event = false;
  bool is_ftrace = false;
};

struct Reader::LegacyEvent {
  FlatMessage<legacy::kFields> told;
  bool is_there = false;
  char phase() const { return static_cast<char>(told.number[legacy::kPhase]); }
};

struct Reader::Told {
  uint64_t type = event::kUnknown;
  uint32_t name = 0;
  uint32_t category = 0;
  std::optional<uint64_t> track;
  std::optional<uint64_t> delta_us, absolute_us;
  std::optional<int64_t> counter;
  std::optional<double> number;
  std::vector<std::pair<uint64_t, bool>> flows;  // and whether they end here
  LegacyEvent legacy;
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
        packet.time = field.value;
        break;
      case packet::kClock:
        packet.clock = field.value;
        break;
      case packet::kSequence:
        packet.sequence = static_cast<uint32_t>(field.value);
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
  Sequence& sequence = sequences_[packet.sequence];
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
  if (!packet.clocks.empty() && !clocks_.add_snapshot(packet.clocks, packet.sequence)) {
    count(Oddity::kMalformed);
  }
  if (!packet.track.empty()) read_track(packet.track);
  if (!packet.thread.empty()) read_thread_descriptor(sequence, packet.thread);
  if (!packet.process.empty()) {
    FlatMessage<9> told;
    if (told.read(packet.process)) {
      out_.process_names[as_id(told.number[track::kProcessId])] =
          json::valid_utf8(told.text[track::kProcessName]);
    }
  }
  if (!packet.processes.empty()) read_process_tree(packet.processes);
  if (packet.has_event) read_event(packet, sequence);
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
    FlatMessage<12> told;
    told.read(field.bytes);
    if (told.has(defaults::kTrack)) sequence.track = told.number[defaults::kTrack];
  }
}

// False: it is malformed.
bool Reader::take_apart(std::string_view bytes, Sequence& sequence, Told& told) {
  WireReader reader(bytes);
  Field field;
  Got got = Got::kField;
  const auto interned = [&](const std::unordered_map<uint64_t, uint32_t>& known) {
    const auto place = known.find(field.value);
    if (place == known.end()) count(Oddity::kUnknownName);
    return place == known.end() ? 0 : place->second;
  };
  annotations_->begin();
  while ((got = reader.next(field)) == Got::kField) {
    switch (field.number) {
      case event::kType:
        told.type = field.value;
        break;
      case event::kName:
        told.name = interned(sequence.interned.names);
        break;
      case event::kNameText:
        told.name = tables_.strings.intern_text(field.bytes);
        break;
      case event::kCategory:
        if (field.wire == Wire::kVarint && told.category == 0) {
          told.category = interned(sequence.interned.categories);
        }
        break;
      case event::kCategoryText:
        if (told.category == 0) told.category = tables_.strings.intern_text(field.bytes);
        break;
      case event::kTrack:
        told.track = field.value;
        break;
      case event::kTimeDelta:
        told.delta_us = field.value;
        break;
      case event::kTimeAbsolute:
        told.absolute_us = field.value;
        break;
      case event::kCounter:
        told.counter = static_cast<int64_t>(field.value);
        break;
      case event::kDoubleCounter:
        told.number = std::bit_cast<double>(field.value);
        break;
      case event::kFlow:
      case event::kOldFlow:
        if (field.wire != Wire::kBytes) told.flows.emplace_back(field.value, false);
        break;
      case event::kLastFlow:
      case event::kOldLastFlow:
        if (field.wire != Wire::kBytes) told.flows.emplace_back(field.value, true);
        break;
      case event::kAnnotation:
        annotations_->add(field.bytes, sequence.interned, args_);
        break;
      case event::kLegacy:
        told.legacy.is_there = told.legacy.told.read(field.bytes);
        if (told.legacy.told.has(legacy::kName)) {
          field.value = told.legacy.told.number[legacy::kName];
          told.name = interned(sequence.interned.names);
        }
        break;
      default:
        break;
    }
  }
  if (!annotations_->finish(sequence.interned, args_)) count(Oddity::kLongArguments);
  return got == Got::kEnd;
}

std::optional<int64_t> Reader::time_of(const Packet& packet, Sequence& sequence, const Told& told) {
  std::optional<uint64_t> time = packet.time;
  std::optional<uint64_t> clock = packet.clock ? packet.clock : sequence.clock;
  if (told.absolute_us || told.delta_us) {  // older files, whose clock is the monotonic one
    if (told.absolute_us) {
      sequence.reference_us = static_cast<int64_t>(*told.absolute_us);
    } else {
      sequence.reference_us =
          static_cast<int64_t>(static_cast<uint64_t>(sequence.reference_us) + *told.delta_us);
    }
    time = static_cast<uint64_t>(sequence.reference_us) * kNsOfUs;
    clock = clock::kMonotonic;
  }
  if (!time) {
    count(Oddity::kNoTime);
    return {};
  }
  if (clock) {
    const auto converted = clocks_.convert(*clock, packet.sequence, *time);
    if (!converted) count(Oddity::kUnknownClock);
    time = converted.value_or(*time);
  }
  if (*time > kLatest) {
    count(Oddity::kTimeOutOfRange);
    return {};
  }
  return static_cast<int64_t>(*time);
}

void Reader::read_event(const Packet& packet, Sequence& sequence) {
  Told told;
  args_.clear();
  fields_.clear();
  if (!take_apart(packet.event, sequence, told)) return count(Oddity::kMalformed);
  // Also of an event that is dropped: an incremental clock goes on.
  const std::optional<int64_t> time_ns = time_of(packet, sequence, told);
  if (!time_ns) return;
  ++out_.event_count;
  json::Event event;
  event.time_ns = *time_ns;
  event.name = told.name;
  event.category = told.category;
  event.track = track_of(sequence, told);
  for (const auto& [id, is_last] : told.flows) {
    flows_.push_back({*time_ns, id, event.track, is_last});
  }
  add_event(told, event);
}

uint32_t Reader::track_of(const Sequence& sequence, const Told& told) {
  const auto& legacy = told.legacy.told;
  if (told.legacy.is_there && (legacy.has(legacy::kProcess) || legacy.has(legacy::kThread))) {
    auto thread = sequence.thread.value_or(std::pair<int64_t, int64_t>{0, 0});
    if (legacy.has(legacy::kProcess)) thread.first = as_id(legacy.number[legacy::kProcess]);
    if (legacy.has(legacy::kThread)) thread.second = as_id(legacy.number[legacy::kThread]);
    return track_by_thread(thread);
  }
  if (told.track) return track_by_uuid(*told.track);
  if (sequence.track) return track_by_uuid(*sequence.track);
  return sequence.thread ? track_by_thread(*sequence.thread) : track_by_uuid(0);
}

void Reader::add_event(const Told& told, json::Event event) {
  switch (told.type) {
    case event::kBegin:
      event.phase = 'B';
      break;
    case event::kEnd:
      event.phase = 'E';
      break;
    case event::kInstant:
      event.phase = 'i';
      break;
    case event::kCounterType:
      return add_counter(told, event);
    default:
      return add_legacy(told, event);
  }
  tables_.add(event, args_, fields_);
}

void Reader::add_counter(const Told& told, json::Event event) {
  TrackTold& track = out_.tracks[event.track];
  event.phase = 'C';
  event.name = 0;
  if (told.counter) {
    const auto value =
        static_cast<uint64_t>(*told.counter) * static_cast<uint64_t>(track.multiplier);
    track.value = static_cast<int64_t>(
        track.is_incremental ? static_cast<uint64_t>(track.value) + value : value);
    args_.integers.push_back({tables_.keys.intern("value"), track.value});
  } else if (told.number && args_.rest_id == 0) {
    args_.rest = "\"value\": ";
    append_json(args_.rest, *told.number * static_cast<double>(track.multiplier));
  }
  tables_.add(event, args_, fields_);
}

// Events of Chrome's older form, which say what they are by a letter.
void Reader::add_legacy(const Told& told, json::Event event) {
  if (!told.legacy.is_there) return count(Oddity::kMalformed);
  const auto& legacy = told.legacy.told;
  const char phase = told.legacy.phase();
  if (phase <= ' ' || phase > '~' || phase == '"' || phase == '\\') {
    return count(Oddity::kMalformed);
  }
  event.phase = static_cast<uint8_t>(phase == 'I' ? 'i' : phase);
  if (phase == 'X') {
    const auto us = legacy.number[legacy::kDurationUs];
    if (us > kLatest / kNsOfUs || static_cast<uint64_t>(event.time_ns) + us * kNsOfUs > kLatest) {
      return count(Oddity::kTimeOutOfRange);
    }
    event.duration_ns = static_cast<int64_t>(us) * kNsOfUs;
  }
  for (const uint32_t field :
       {legacy::kUnscopedId, legacy::kLocalId, legacy::kGlobalId, legacy::kBindId}) {
    if (!legacy.has(field)) continue;
    fields_.integers.push_back(
        {tables_.keys.intern("id"), static_cast<int64_t>(legacy.number[field])});
    break;
  }
  tables_.add(event, args_, fields_);
}

// By time, the first event of a flow is where it starts.
void Reader::add_flows() {
  std::stable_sort(flows_.begin(), flows_.end(),
                   [](const Flow& a, const Flow& b) { return a.time_ns < b.time_ns; });
  if (flows_.empty()) return;
  std::unordered_map<uint64_t, size_t> left;
  for (const Flow& flow : flows_) ++left[flow.id];
  std::unordered_set<uint64_t> started;
  const uint32_t name = tables_.strings.intern("flow");
  const uint32_t id = tables_.keys.intern("id");
  args_.clear();
  for (const Flow& flow : flows_) {
    const bool is_first = started.insert(flow.id).second;
    const bool is_last = --left[flow.id] == 0 || flow.is_last;
    json::Event event;
    event.phase = is_first ? 's' : is_last ? 'f' : 't';
    event.time_ns = flow.time_ns;
    event.track = flow.track;
    event.name = event.category = name;
    fields_.clear();
    fields_.integers.push_back({id, static_cast<int64_t>(flow.id)});
    if (event.phase == 'f') fields_.rest = "\"bp\": \"e\"";
    tables_.add(event, args_, fields_);
  }
}

}  // namespace stepscope::perfetto
