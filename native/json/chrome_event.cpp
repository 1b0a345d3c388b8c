#include "json/chrome_event.h"

#include <algorithm>
#include <cstring>
#include <optional>

namespace stepscope::json {
namespace {

constexpr std::string_view kFieldNames[] = {"ph", "cat", "name", "pid", "tid", "ts", "dur", "args"};

struct NoteKind {
  std::string_view what;
  std::string_view key;
  bool is_text;
};
constexpr NoteKind kNoteKinds[] = {
    {"process_name", "name", true},
    {"process_labels", "labels", true},
    {"process_sort_index", "sort_index", false},
    {"thread_name", "name", true},
    {"thread_sort_index", "sort_index", false},
};

bool ends_number(char c) { return c == ',' || c == '}' || static_cast<unsigned char>(c) <= ' '; }

// The common case of parse_integer, in place: nullptr sends the caller there.
const char* scan_short_integer(const char* p, int64_t& number) {
  const bool negative = *p == '-';
  const char* first = p + (negative ? 1 : 0);
  uint64_t digits = 0;
  p = scan_digits(first, digits);
  if (p == first || p - first > kMaxShortDigits || !ends_number(*p)) return nullptr;
  if (*first == '0' && (negative || p - first > 1)) return nullptr;
  number = negative ? -static_cast<int64_t>(digits) : static_cast<int64_t>(digits);
  return p;
}

// The common case of parse_microseconds: whole ones, or with three decimals.
const char* scan_short_time(const char* p, Time& time) {
  uint64_t digits = 0;
  const char* point = scan_digits(p, digits);
  if (point == p || point - p > kMaxShortTimeDigits) return nullptr;
  const char* after = point;
  if (*point == '.') {
    for (after = point + 1; after < point + 4; ++after) {
      if (*after < '0' || *after > '9') return nullptr;
      digits = digits * 10 + static_cast<uint64_t>(*after - '0');
    }
  } else {
    digits *= 1000;
  }
  if (!ends_number(*after) || digits >= static_cast<uint64_t>(kMaxTimeNs)) return nullptr;
  time = {.ns = static_cast<int64_t>(digits)};
  return after;
}

}  // namespace

EventParser::EventParser() : keys_(tables.keys) {
  for (const std::string_view name : kFieldNames) keys_.add(name);
}

bool EventParser::is_event_key(std::string_view key) {
  return std::find(std::begin(kFieldNames), std::end(kFieldNames), key) != std::end(kFieldNames);
}

// Calls on_pair(key, position of the value) for each pair; it returns the position after the value.
// Returns the position after the closing brace, which sets `complete`.
template <typename OnPair>
const char* EventParser::parse_object(const char* p, bool& complete, OnPair&& on_pair) {
  Key key;
  for (;;) {
    failed_at = p;
    p = keys_.next(p, end_, key);
    if (p == nullptr) return p;
    if (key.id == Key::kEndOfObject && p <= end_) {
      complete = true;
      return p;
    }
    if (p >= end_) return p;
    p = on_pair(key, p);
    if (p == nullptr || p >= end_) return p;
  }
}

const char* EventParser::parse(const char* p, const char* end, bool& complete) {
  end_ = end;
  for (Value& value : values_) value.text = {};
  time_ = {.valid = false};
  duration_ = {.valid = false};
  args_.clear();
  fields_.clear();
  keys_.begin_event();
  bool any = false;
  p = parse_object(p, complete, [&](const Key& key, const char* value) {
    any = true;
    return parse_field(key, value);
  });
  if (!complete) return p;
  if (any) {
    commit();
  } else {
    count(Oddity::kNotAnEvent);
  }
  return p;
}

const char* EventParser::parse_field(const Key& key, const char* p) {
  switch (key.id) {
    case kPid:
      return parse_id(p, kPid, pid_, pid_is_number_);
    case kTid:
      return parse_id(p, kTid, tid_, tid_is_number_);
    case kTime:
      return parse_time(p, kTime, time_);
    case kDuration:
      return parse_time(p, kDuration, duration_);
    case kPhase:
    case kCategory:
    case kName:
      return parse_other(key.id, p);
    case kArgs:
      return *p == '{' ? parse_args(p + 1) : parse_pair(key, p, fields_);
    default:
      return parse_pair(key, p, fields_);
  }
}

const char* EventParser::parse_args(const char* p) {
  bool complete = false;
  return parse_object(p, complete, [&](const Key& key, const char* value) {
    return parse_pair(key, value, args_);
  });
}

const char* EventParser::parse_other(uint32_t field, const char* p) {
  const char* after = scan_value(p, end_, values_[field]);
  if (after == nullptr) failed_at = p + values_[field].text.size();
  return after;
}

const char* EventParser::parse_id(const char* p, Field field, int64_t& number, bool& is_number) {
  const char* after = scan_short_integer(p, number);
  is_number = after != nullptr;
  if (!is_number) return parse_other(field, p);
  values_[field] = {.text = {p, static_cast<size_t>(after - p)}};
  return after;
}

const char* EventParser::parse_time(const char* p, Field field, Time& time) {
  const char* after = scan_short_time(p, time);
  if (after != nullptr) {
    values_[field] = {.text = {p, static_cast<size_t>(after - p)}};
    return after;
  }
  after = parse_other(field, p);
  if (after != nullptr && after <= end_) time = parse_microseconds(text_of(field, scratch_));
  return after;
}

const char* EventParser::parse_pair(const Key& key, const char* p, Pairs& out) {
  int64_t short_number = 0;
  if (const char* after = scan_short_integer(p, short_number); after != nullptr && key.id != 0) {
    out.integers.push_back({key.id, short_number});
    return after;
  }
  Value value;
  const char* after = scan_value(p, end_, value);
  if (after == nullptr) failed_at = p + value.text.size();
  if (after == nullptr || after > end_) return after;
  if (value.kind == Kind::kScalar && key.id != 0) {
    if (const std::optional<int64_t> number = parse_integer(value.text)) {
      out.integers.push_back({key.id, *number});
      return after;
    }
  }
  if (!out.rest.empty()) out.rest += ", ";
  append_value(out.rest, {.text = key.text, .kind = Kind::kString, .verbatim = key.verbatim});
  out.rest += ": ";
  append_value(out.rest, value);
  return after;
}

// A field of the event that its table has no column for.
void EventParser::add_field(std::string_view key, const Value& value) {
  if (!fields_.rest.empty()) fields_.rest += ", ";
  append_quoted(fields_.rest, key);
  fields_.rest += ": ";
  append_value(fields_.rest, value);
}

// What a name, a category or an id says: numbers and words stand for themselves.
std::string_view EventParser::text_of(Field field, std::string& scratch) const {
  const Value& value = values_[field];
  if (value.text.empty() || value.text == "null") return {};
  if (value.kind != Kind::kString) return value.text;
  if (!value.escaped) return value.inner();
  scratch.clear();
  append_decoded(scratch, value.inner());
  return scratch;
}

uint32_t EventParser::track_id() {
  if (!seen(kPid) || !seen(kTid) || !pid_is_number_ || !tid_is_number_) return named_track_id();
  // Unsigned: the numbers of a foreign file may be any, and their sum may wrap around.
  const auto slot =
      (static_cast<uint64_t>(pid_) * 31 + static_cast<uint64_t>(tid_)) % cached_tracks_.size();
  CachedTrack& cached = cached_tracks_[slot];
  if (!cached.used || cached.pid != pid_ || cached.tid != tid_) {
    cached = {pid_, tid_, named_track_id(), true};
  }
  return cached.track;
}

uint32_t EventParser::named_track_id() {
  const std::string_view pid = text_of(kPid, pid_scratch_);
  const std::string_view tid = text_of(kTid, tid_scratch_);
  // The length keeps ("1", "23") and ("12", "3") apart.
  const uint64_t length = pid.size();
  track_key_.assign(reinterpret_cast<const char*>(&length), sizeof length);
  track_key_ += pid;
  track_key_ += tid;
  const uint32_t id = track_keys_.intern(track_key_) - 1;
  if (id == tracks.size()) tracks.push_back({std::string(pid), std::string(tid)});
  return id;
}

void EventParser::commit() {
  ++events;
  Event event;
  event.phase = phase();
  if (event.phase == 'M' && commit_note()) return;
  event.name = tables.strings.intern_text(text_of(kName, scratch_));
  event.category = tables.strings.intern_text(text_of(kCategory, scratch_));
  event.track = track_id();
  set_times(event);
  tables.add(event, args_, fields_);
}

uint8_t EventParser::phase() {
  const std::string_view text = text_of(kPhase, scratch_);
  if (text.size() == 1 && static_cast<unsigned char>(text[0]) < 0x80) {
    return static_cast<uint8_t>(text[0]);
  }
  if (seen(kPhase)) add_field("ph", values_[kPhase]);
  return '?';
}

// A name or a place in the order goes to the track; what says more than that stays an event.
bool EventParser::commit_note() {
  const std::string_view what = text_of(kName, scratch_);
  const auto* kind =
      std::find_if(std::begin(kNoteKinds), std::end(kNoteKinds),
                   [&](const NoteKind& candidate) { return candidate.what == what; });
  if (kind == std::end(kNoteKinds)) return false;
  TrackNote note;
  note.what = what;
  note.track = {std::string(text_of(kPid, pid_scratch_)), std::string(text_of(kTid, tid_scratch_))};
  if (kind->is_text) {
    if (!args_.integers.empty()) return false;
    const std::string text = args_.rest + std::string(kPadding, '"');
    const char* end = text.data() + args_.rest.size();
    Value key;
    Value value;
    const char* p = scan_key(text.data(), end, key);
    if (p == nullptr || p >= end || key.inner() != kind->key) return false;
    if (scan_value(p, end, value) != end || value.kind != Kind::kString) return false;
    append_decoded(note.text, value.inner());
  } else {
    if (!args_.rest.empty() || args_.integers.size() != 1) return false;
    const Pair& pair = args_.integers.front();
    if (tables.keys[pair.key] != kind->key) return false;
    note.number = pair.value;
  }
  notes.push_back(std::move(note));
  return true;
}

void EventParser::set_times(Event& event) {
  event.time_ns = rounded_ns(time_);
  if (!time_.valid) count(Oddity::kNoTime);
  if (time_.clamped) count(Oddity::kTimeOutOfRange);
  if (event.phase != 'X') {
    if (seen(kDuration)) add_field("dur", values_[kDuration]);
    return;
  }
  if (duration_.clamped) count(Oddity::kTimeOutOfRange);
  if (!duration_.valid) {
    count(Oddity::kNoDuration);
  } else if (duration_.ns < 0) {
    count(Oddity::kNegativeDuration);
  } else {
    event.duration_ns = std::min(rounded_duration_ns(time_, duration_), kMaxTimeNs - event.time_ns);
  }
}

}  // namespace stepscope::json
