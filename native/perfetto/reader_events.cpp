// The track events of a Perfetto trace.
#include <algorithm>
#include <bit>
#include <unordered_set>

#include "perfetto/messages.h"
#include "perfetto/reader.h"
#include "protobuf/wire.h"

namespace stepscope::perfetto {
namespace {

using protobuf::Field;
using protobuf::FlatMessage;
using protobuf::Got;
using protobuf::Wire;
using protobuf::WireReader;

constexpr uint64_t kLatest = uint64_t{1} << 62;  // as trace/validate.py has it
constexpr int64_t kNsOfUs = 1000;

}  // namespace

struct Reader::LegacyEvent {
  FlatMessage<legacy::kFields> message;
  bool is_there = false;
  char phase() const { return static_cast<char>(message.number[legacy::kPhase]); }
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

// False: it is malformed.
bool Reader::take_apart(std::string_view bytes, Sequence& sequence, Told& event_fields) {
  WireReader reader(bytes);
  Field field;
  Got got = Got::kField;
  const auto interned = [&](const std::unordered_map<uint64_t, uint32_t>& texts) {
    const auto place = texts.find(field.value);
    if (place == texts.end()) count(Oddity::kUnknownName);
    return place == texts.end() ? 0 : place->second;
  };
  annotations_->begin();
  while ((got = reader.next(field)) == Got::kField) {
    switch (field.number) {
      case event::kType:
        event_fields.type = field.value;
        break;
      case event::kName:
        event_fields.name = interned(sequence.interned.names);
        break;
      case event::kNameText:
        event_fields.name = tables_.strings.intern_text(field.bytes);
        break;
      case event::kCategory:
        if (field.wire == Wire::kVarint && event_fields.category == 0) {
          event_fields.category = interned(sequence.interned.categories);
        }
        break;
      case event::kCategoryText:
        if (event_fields.category == 0)
          event_fields.category = tables_.strings.intern_text(field.bytes);
        break;
      case event::kTrack:
        event_fields.track = field.value;
        break;
      case event::kTimeDelta:
        event_fields.delta_us = field.value;
        break;
      case event::kTimeAbsolute:
        event_fields.absolute_us = field.value;
        break;
      case event::kCounter:
        event_fields.counter = static_cast<int64_t>(field.value);
        break;
      case event::kDoubleCounter:
        event_fields.number = std::bit_cast<double>(field.value);
        break;
      case event::kFlow:
      case event::kOldFlow:
        if (field.wire != Wire::kBytes) event_fields.flows.emplace_back(field.value, false);
        break;
      case event::kLastFlow:
      case event::kOldLastFlow:
        if (field.wire != Wire::kBytes) event_fields.flows.emplace_back(field.value, true);
        break;
      case event::kAnnotation:
        annotations_->add(field.bytes, sequence.interned, args_);
        break;
      case event::kLegacy:
        event_fields.legacy.is_there = event_fields.legacy.message.read(field.bytes);
        if (event_fields.legacy.message.has(legacy::kName)) {
          field.value = event_fields.legacy.message.number[legacy::kName];
          event_fields.name = interned(sequence.interned.names);
        }
        break;
      default:
        break;
    }
  }
  if (!annotations_->finish(sequence.interned, args_)) count(Oddity::kLongArguments);
  return got == Got::kEnd;
}

std::optional<int64_t> Reader::time_of(const PacketTime& packet, Sequence& sequence,
                                       const Told& event_fields) {
  std::optional<uint64_t> time = packet.time;
  std::optional<uint64_t> clock = packet.clock ? packet.clock : sequence.clock;
  if (event_fields.absolute_us ||
      event_fields.delta_us) {  // older files, whose clock is the monotonic one
    if (event_fields.absolute_us) {
      sequence.reference_us = static_cast<int64_t>(*event_fields.absolute_us);
    } else {
      sequence.reference_us = static_cast<int64_t>(static_cast<uint64_t>(sequence.reference_us) +
                                                   *event_fields.delta_us);
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

void Reader::read_event(std::string_view bytes, const PacketTime& packet, Sequence& sequence) {
  Told event_fields;
  args_.clear();
  fields_.clear();
  if (!take_apart(bytes, sequence, event_fields)) return count(Oddity::kMalformed);
  // Also of an event that is dropped: an incremental clock goes on.
  const std::optional<int64_t> time_ns = time_of(packet, sequence, event_fields);
  if (!time_ns) return;
  ++out_.event_count;
  json::Event event;
  event.time_ns = *time_ns;
  event.name = event_fields.name;
  event.category = event_fields.category;
  event.track = track_of(sequence, event_fields);
  for (const auto& [id, is_last] : event_fields.flows) {
    flows_.push_back({*time_ns, id, event.track, is_last});
  }
  add_event(event_fields, event);
}

uint32_t Reader::track_of(const Sequence& sequence, const Told& event_fields) {
  const auto& legacy = event_fields.legacy.message;
  if (event_fields.legacy.is_there &&
      (legacy.has(legacy::kProcess) || legacy.has(legacy::kThread))) {
    auto thread = sequence.thread.value_or(std::pair<int64_t, int64_t>{0, 0});
    if (legacy.has(legacy::kProcess)) thread.first = as_id(legacy.number[legacy::kProcess]);
    if (legacy.has(legacy::kThread)) thread.second = as_id(legacy.number[legacy::kThread]);
    return track_by_thread(thread);
  }
  if (event_fields.track) return track_by_uuid(*event_fields.track);
  if (sequence.track) return track_by_uuid(*sequence.track);
  return sequence.thread ? track_by_thread(*sequence.thread) : track_by_uuid(0);
}

void Reader::add_event(const Told& event_fields, json::Event event) {
  switch (event_fields.type) {
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
      return add_counter(event_fields, event);
    default:
      return add_legacy(event_fields, event);
  }
  tables_.add(event, args_, fields_);
}

void Reader::add_counter(const Told& event_fields, json::Event event) {
  TrackTold& track = out_.tracks[event.track];
  event.phase = 'C';
  event.name = 0;
  if (event_fields.counter) {
    const auto value =
        static_cast<uint64_t>(*event_fields.counter) * static_cast<uint64_t>(track.multiplier);
    track.value = static_cast<int64_t>(
        track.is_incremental ? static_cast<uint64_t>(track.value) + value : value);
    args_.integers.push_back({tables_.keys.intern("value"), track.value});
  } else if (event_fields.number && args_.rest_id == 0) {
    args_.rest = "\"value\": ";
    append_json(args_.rest, *event_fields.number * static_cast<double>(track.multiplier));
  }
  tables_.add(event, args_, fields_);
}

// Events of Chrome's older form, which say what they are by a letter.
void Reader::add_legacy(const Told& event_fields, json::Event event) {
  if (!event_fields.legacy.is_there) return count(Oddity::kMalformed);
  const auto& legacy = event_fields.legacy.message;
  const char phase = event_fields.legacy.phase();
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
  std::unordered_map<uint64_t, size_t> flows_to_come;
  for (const Flow& flow : flows_) ++flows_to_come[flow.id];
  std::unordered_set<uint64_t> started;
  const uint32_t name = tables_.strings.intern("flow");
  const uint32_t id = tables_.keys.intern("id");
  args_.clear();
  for (const Flow& flow : flows_) {
    const bool is_first = started.insert(flow.id).second;
    const bool is_last = --flows_to_come[flow.id] == 0 || flow.is_last;
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
