#include "perfetto/writer.h"

#include <algorithm>
#include <bit>

#include "core/column_checks.h"
#include "json/utf8.h"
#include "perfetto/messages.h"

namespace stepscope::perfetto {
namespace {

constexpr size_t kFieldBytes = 32;   // of a key with a number, or a key and a length
constexpr size_t kPacketBytes = 64;  // of a packet without what happened
constexpr char kStackKey[] = "Call stack";
constexpr char kOverlapping[] = "overlapping";

}  // namespace

Writer::Writer(Texts texts, std::span<const int64_t> uuids, int64_t first_ns, uint64_t free_uuid)
    : texts_(texts),
      uuids_(uuids),
      first_ns_(first_ns),
      free_uuid_(free_uuid),
      stack_key_(fragments_.key(kStackKey)) {}

void Writer::check(const SparseColumn& column, size_t rows) const {
  check_fits(column.rows.size() == column.values.size(), "a sparse column");
  check_ids(column.rows, rows, "a sparse column");
  check_fits(std::is_sorted(column.rows.begin(), column.rows.end()), "a sparse column");
}

void Writer::check(const Events& events) const {
  const size_t rows = events.start_ns.size();
  const bool are_slices = !events.duration_ns.empty();
  check_fits(
      events.name.size() == rows && events.category.size() == rows && events.track.size() == rows,
      "name, category or track");
  if (are_slices) {
    check_fits(events.duration_ns.size() == rows && events.parent.size() == rows &&
                   events.is_async.size() == rows &&
                   std::is_sorted(events.start_ns.begin(), events.start_ns.end()),
               "duration, parent or is_async");
  }
  check_ids(events.name, texts_.size(), "name");
  check_ids(events.category, texts_.size(), "category");
  check_ids(events.track, uuids_.size(), "track");
  check_ids(events.args.rest, texts_.size(), "rest");
  check_ids(events.args.stack, texts_.size(), "stack");
  check_fits(events.args.rest.empty() || events.args.rest.size() == rows, "rest");
  check_fits(events.args.stack.empty() || events.args.stack.size() == rows, "stack");
  for (const SparseColumn& column : events.args.integers) check(column, rows);
  check(events.flows, rows);
  check(events.last_flows, rows);
}

void Writer::add(Events events) {
  if (events.start_ns.empty()) return;
  check(events);
  events_.push_back(std::move(events));
}

void Writer::add(Counter counter) {
  const size_t rows = counter.time_ns.size();
  check_fits(counter.values.size() == rows || counter.doubles.size() == rows, "a counter");
  check_fits(std::is_sorted(counter.time_ns.begin(), counter.time_ns.end()), "a counter's times");
  if (rows > 0) counters_.push_back(counter);
}

PacketBuffer Writer::next(size_t chunk_bytes) {
  out_ = {};
  out_.reserve(chunk_bytes + chunk_bytes / 8);
  while (table_ < events_.size() + counters_.size() && out_.size() < chunk_bytes) {
    bool is_done = false;
    if (table_ >= events_.size()) {
      is_done = write_counter(counters_[table_ - events_.size()], chunk_bytes);
    } else if (events_[table_].duration_ns.empty()) {
      is_done = write_instants(events_[table_], chunk_bytes);
    } else {
      is_done = write_slices(events_[table_], chunk_bytes);
    }
    if (!is_done) continue;
    ++table_;
    row_ = 0;
    is_begun_ = false;
  }
  return std::move(out_);
}

void Writer::begin(const Events& events) {
  is_begun_ = true;
  cursors_ = {std::vector<size_t>(events.args.integers.size()), 0, 0};
  integer_keys_.clear();
  for (const auto& column : events.args.integers) {
    integer_keys_.push_back(fragments_.key(column.key));
  }
}

// Each returns whether it came to the end of its table.
bool Writer::write_slices(const Events& events, size_t limit) {
  const size_t rows = events.start_ns.size();
  if (!is_begun_) {
    begin(events);
    lane_sequences_.clear();
    is_extra_ = crossing_slices(events.start_ns, events.duration_ns, events.track, events.parent,
                                events.is_async);
    lanes_ = std::make_unique<Lanes>(uuids_.size(), rows, [this](uint32_t lane, int64_t end_ns) {
      event_.clear();
      interned_.clear();
      event_.reserve(kFieldBytes);
      event_.number(event::kType, event::kEnd);
      put_packet(lane_sequences_[lane], end_ns);
    });
  }
  for (; row_ < rows; ++row_) {
    if (out_.size() >= limit) return false;
    const int64_t start_ns = events.start_ns[row_];
    const uint32_t lane =
        lanes_->place({static_cast<uint32_t>(row_), events.track[row_], events.parent[row_],
                       start_ns, start_ns + events.duration_ns[row_], is_extra_[row_] != 0});
    if (lane == lane_sequences_.size()) put_lane_track(lane);
    put_event(lane_sequences_[lane], events, row_, event::kBegin);
    put_packet(lane_sequences_[lane], start_ns);
    ++written_;
  }
  lanes_->finish();
  lanes_.reset();
  return true;
}

// Instants may stand in any order: each track has a sequence, and times are ordered by the caller.
bool Writer::write_instants(const Events& events, size_t limit) {
  const size_t rows = events.start_ns.size();
  if (!is_begun_) {
    begin(events);
    own_sequence_ = new_sequence(0);
  }
  for (; row_ < rows; ++row_) {
    if (out_.size() >= limit) return false;
    put_event(own_sequence_, events, row_, event::kInstant);
    event_.reserve(kFieldBytes);
    event_.number(event::kTrack, static_cast<uint64_t>(uuids_[events.track[row_]]));
    put_packet(own_sequence_, events.start_ns[row_]);
    ++written_;
  }
  return true;
}

bool Writer::write_counter(const Counter& counter, size_t limit) {
  if (!is_begun_) {
    is_begun_ = true;
    own_sequence_ = new_sequence(counter.uuid);
  }
  for (; row_ < counter.time_ns.size(); ++row_) {
    if (out_.size() >= limit) return false;
    event_.clear();
    interned_.clear();
    event_.reserve(2 * kFieldBytes);
    event_.number(event::kType, event::kCounterType);
    if (counter.doubles.empty()) {
      event_.number(event::kCounter, static_cast<uint64_t>(counter.values[row_]));
    } else {
      event_.fixed64(event::kDoubleCounter, std::bit_cast<uint64_t>(counter.doubles[row_]));
    }
    put_packet(own_sequence_, counter.time_ns[row_]);
    ++written_;
  }
  return true;
}

// Writes the sequence of a lane, and for an extra lane its track, below that of the thread.
void Writer::put_lane_track(uint32_t lane) {
  const Lane& placed = (*lanes_)[lane];
  auto uuid = static_cast<uint64_t>(uuids_[placed.track]);
  if (placed.is_extra) {
    const uint64_t parent = uuid;
    uuid = free_uuid_++;
    inner_.clear();
    inner_.reserve(4 * kFieldBytes);
    inner_.number(track::kUuid, uuid);
    inner_.number(track::kParent, parent);
    inner_.bytes(track::kName, kOverlapping);
    event_.clear();
    event_.reserve(inner_.size() + 2 * kFieldBytes);
    event_.bytes(packet::kTrackDescriptor, inner_.view());
    event_.number(packet::kSequence, 1);
    out_.reserve(event_.size() + kFieldBytes);
    out_.bytes(kPacket, event_.view());
  }
  lane_sequences_.push_back(new_sequence(uuid));
}

// Its first packet names the track and the clock of all its packets.
Writer::Sequence Writer::new_sequence(uint64_t uuid) {
  Sequence sequence;
  sequence.id = ++sequences_;
  sequence.last_ns = first_ns_;
  PacketBuffer clocks, clock, defaults, defaults_inner;
  for (PacketBuffer* buffer : {&clocks, &clock, &defaults, &defaults_inner}) {
    buffer->reserve(6 * kFieldBytes);
  }
  clock.number(clock::kId, clock::kFirstOfSequence);
  clock.number(clock::kTimestamp, static_cast<uint64_t>(first_ns_));
  clock.number(clock::kIsIncremental, 1);
  clocks.bytes(clock::kClocks, clock.view());
  clock.clear();
  clock.number(clock::kId, clock::kMonotonic);
  clock.number(clock::kTimestamp, static_cast<uint64_t>(first_ns_));
  clocks.bytes(clock::kClocks, clock.view());
  defaults.number(defaults::kClock, clock::kFirstOfSequence);
  if (uuid != 0) {
    defaults_inner.number(defaults::kTrack, uuid);
    defaults.bytes(defaults::kTrackEvent, defaults_inner.view());
  }
  event_.clear();
  event_.reserve(12 * kFieldBytes);
  event_.number(packet::kSequence, sequence.id);
  event_.number(packet::kSequenceFlags, packet::kFlagCleared);
  event_.bytes(packet::kDefaults, defaults.view());
  event_.bytes(packet::kClockSnapshot, clocks.view());
  out_.reserve(event_.size() + kFieldBytes);
  out_.bytes(kPacket, event_.view());
  return sequence;
}

// Writes event_ and interned_ as one packet.
void Writer::put_packet(Sequence& sequence, int64_t time_ns) {
  inner_.clear();
  inner_.reserve(kPacketBytes);
  inner_.number(packet::kTimestamp, static_cast<uint64_t>(time_ns - sequence.last_ns));
  inner_.number(packet::kSequence, sequence.id);
  inner_.number(packet::kSequenceFlags, packet::kFlagNeedsState);
  sequence.last_ns = time_ns;
  const auto length_bytes = [](size_t size) -> size_t {
    return static_cast<size_t>(std::bit_width(size | 1) + 6) / 7;
  };
  const auto nested = [&](std::string_view bytes) {
    return bytes.empty() ? 0 : 1 + length_bytes(bytes.size()) + bytes.size();
  };
  out_.reserve(kPacketBytes + inner_.size() + event_.size() + interned_.size());
  out_.varint(kPacket << 3 | static_cast<uint32_t>(protobuf::Wire::kBytes));
  out_.varint(inner_.size() + nested(event_.view()) + nested(interned_.view()));
  out_.put(inner_.view());
  if (interned_.size() > 0) out_.bytes(packet::kInternedData, interned_.view());
  out_.bytes(packet::kTrackEvent, event_.view());
}

// Fills event_ and interned_.
void Writer::put_event(Sequence& sequence, const Events& events, size_t row, uint8_t type) {
  event_.clear();
  interned_.clear();
  const uint32_t name = events.name[row];
  const uint32_t category = events.category[row];
  event_.reserve(4 * kFieldBytes);
  event_.number(event::kType, type);
  if (category != 0) {
    event_.number(event::kCategory,
                  introduce(sequence.categories, category, interned::kCategory, texts_[category]));
  }
  event_.number(event::kName, introduce(sequence.names, name, interned::kEventName, texts_[name]));
  put_arguments(sequence, events, row);
  put_flows(events.flows, cursors_.flow, row, event::kFlow);
  put_flows(events.last_flows, cursors_.last_flow, row, event::kLastFlow);
}

void Writer::put_arguments(Sequence& sequence, const Events& events, size_t row) {
  const Arguments& args = events.args;
  for (size_t i = 0; i < args.integers.size(); ++i) {
    const SparseColumn& column = args.integers[i];
    size_t& at = cursors_.integers[i];
    if (at == column.rows.size() || column.rows[at] != row) continue;
    put_annotation(sequence, {integer_keys_[i], Annotation::Kind::kInteger,
                              static_cast<uint64_t>(column.values[at])});
    ++at;
  }
  if (!args.rest.empty() && args.rest[row] != 0) {
    for (const Annotation& annotation : fragments_.of(args.rest[row], texts_[args.rest[row]])) {
      put_annotation(sequence, annotation);
    }
  }
  if (!args.stack.empty() && args.stack[row] != 0) {
    const uint32_t text = fragments_.key(texts_[args.stack[row]]);
    put_annotation(sequence, {stack_key_, Annotation::Kind::kText, text});
  }
}

void Writer::put_annotation(Sequence& sequence, const Annotation& annotation) {
  using Kind = Annotation::Kind;
  inner_.clear();
  const uint32_t key = introduce(sequence.keys, annotation.key, interned::kAnnotationName,
                                 fragments_.text(annotation.key));
  const auto text = static_cast<uint32_t>(annotation.bits);
  const bool is_plain = annotation.kind == Kind::kPlainText;
  inner_.reserve(3 * kFieldBytes + (is_plain ? fragments_.text(text).size() : 0));
  inner_.number(annotation::kName, key);
  switch (annotation.kind) {
    case Kind::kInteger:
      inner_.number(annotation::kInteger, annotation.bits);
      break;
    case Kind::kDouble:
      inner_.fixed64(annotation::kDouble, annotation.bits);
      break;
    case Kind::kBool:
      inner_.number(annotation::kBool, annotation.bits);
      break;
    case Kind::kPlainText:
      inner_.bytes(annotation::kText, fragments_.text(text));
      break;
    case Kind::kText:
      inner_.number(annotation::kTextId,
                    introduce(sequence.texts, text, interned::kText, fragments_.text(text)));
      break;
  }
  event_.reserve(inner_.size() + kFieldBytes);
  event_.bytes(event::kAnnotation, inner_.view());
}

void Writer::put_flows(const SparseColumn& flows, size_t& at, size_t row, uint32_t field) {
  for (; at < flows.rows.size() && flows.rows[at] == row; ++at) {
    event_.reserve(kFieldBytes);
    event_.fixed64(field, static_cast<uint64_t>(flows.values[at]));
  }
}

uint32_t Writer::introduce(IdMap& ids, uint32_t id, uint32_t field, std::string_view text) {
  bool is_new = false;
  const uint32_t number = ids(id, is_new);
  if (!is_new) return number;
  std::string mended;
  if (!json::is_utf8(text)) text = mended = json::replace_invalid_utf8(text);
  PacketBuffer entry;
  entry.reserve(text.size() + 2 * kFieldBytes);
  entry.number(interned::kId, number);
  entry.bytes(interned::kName, text);
  interned_.reserve(entry.size() + kFieldBytes);
  interned_.bytes(field, entry.view());
  return number;
}

}  // namespace stepscope::perfetto
