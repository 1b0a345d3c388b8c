#include "json/chrome_event.h"

#include <algorithm>
#include <cstring>
#include <optional>

namespace stepscope::json {
namespace {

// A file with more different keys than this keeps the integers of the others as text: a column a
// key would cost more than it gives.
constexpr uint32_t kMaxKeys = 4096;

struct NoteKind {
  std::string_view what;
  std::string_view key;
  bool is_text;
};
constexpr NoteKind kNoteKinds[] = {
    {"process_name", "name", true},           {"process_labels", "labels", true},
    {"process_sort_index", "sort_index", false}, {"thread_name", "name", true},
    {"thread_sort_index", "sort_index", false},
};

bool ends_integer(char c) {
  return c == ',' || c == '}' || static_cast<unsigned char>(c) <= ' ';
}

// The common case of parse_integer, in place: nullptr sends the caller there.
const char* scan_short_integer(const char* p, int64_t& value) {
  const bool negative = *p == '-';
  p += negative ? 1 : 0;
  const char* first = p;
  uint64_t number = 0;
  while (*p >= '0' && *p <= '9' && p - first < 18) number = number * 10 + static_cast<uint64_t>(*p++ - '0');
  if (p == first || !ends_integer(*p) || (*first == '0' && (negative || p - first > 1))) return nullptr;
  value = negative ? -static_cast<int64_t>(number) : static_cast<int64_t>(number);
  return p;
}

}  // namespace

EventParser::EventParser() { following_.push_back(0); }

EventParser::Field EventParser::field_of(std::string_view key) {
  switch (key.size()) {
    case 2:
      if (key == "ph") return Field::kPhase;
      return key == "ts" ? Field::kTime : Field::kOther;
    case 3:
      if (key == "pid") return Field::kPid;
      if (key == "tid") return Field::kTid;
      if (key == "cat") return Field::kCategory;
      return key == "dur" ? Field::kDuration : Field::kOther;
    case 4:
      if (key == "name") return Field::kName;
      return key == "args" ? Field::kArgs : Field::kOther;
    default:
      return Field::kOther;
  }
}

bool EventParser::is_event_key(std::string_view key) { return field_of(key) != Field::kOther; }

const char* EventParser::parse(const char* p, const char* end, bool& complete) {
  end_ = end;
  for (Value& value : values_) value.text = {};
  args_.clear();
  fields_.clear();
  last_key_ = 0;
  bool any = false;
  Value key;
  for (;;) {
    p = skip_space(p);
    if (p >= end) return p;
    if (*p == '}') break;
    if (*p == ',') {
      ++p;
      continue;
    }
    failed_at = p;
    p = scan_key(p, end, key);
    if (p == nullptr || p >= end) return p;
    p = parse_field(field_of(key.inner()), key, p);
    if (p == nullptr || p >= end) return p;
    any = true;
  }
  complete = true;
  if (any) {
    commit();
  } else {
    count(Oddity::kNotAnEvent);
  }
  return p + 1;
}

const char* EventParser::parse_field(Field field, const Value& key, const char* p) {
  if (field == Field::kArgs && *p == '{') return parse_pairs(p + 1, args_);
  if (field == Field::kArgs || field == Field::kOther) return parse_pair(key, p, fields_);
  Value& value = values_[static_cast<size_t>(field)];
  const char* after = scan_value(p, end_, value);
  if (after == nullptr) failed_at = p + value.text.size();
  return after;
}

const char* EventParser::parse_pairs(const char* p, Pairs& out) {
  Value key;
  for (;;) {
    p = skip_space(p);
    if (p >= end_) return p;
    if (*p == '}') return p + 1;
    if (*p == ',') {
      ++p;
      continue;
    }
    failed_at = p;
    p = scan_key(p, end_, key);
    if (p == nullptr || p >= end_) return p;
    p = parse_pair(key, p, out);
    if (p == nullptr || p >= end_) return p;
  }
}

const char* EventParser::parse_pair(const Value& key, const char* p, Pairs& out) {
  int64_t short_number = 0;
  if (const char* after = scan_short_integer(p, short_number); after != nullptr) {
    if (const uint32_t id = key_id(key); id != 0) {
      out.integers.emplace_back(id, short_number);
      return after;
    }
  }
  Value value;
  const char* after = scan_value(p, end_, value);
  if (after == nullptr) failed_at = p + value.text.size();
  if (after == nullptr || after > end_) return after;
  if (value.kind == Kind::kScalar) {
    const std::optional<int64_t> number = parse_integer(value.text);
    const uint32_t id = number ? key_id(key) : 0;
    if (id != 0) {
      out.integers.emplace_back(id, *number);
      return after;
    }
  }
  add_rest(out, key, value);
  return after;
}

// 0 when there are too many keys already. Keys come in the same order event after event, so that
// the one that followed last time is a good guess.
uint32_t EventParser::key_id(const Value& key) {
  const std::string_view raw = key.inner();
  const uint32_t guess = following_[last_key_];
  if (guess != 0 && !key.escaped && tables.keys[guess] == raw) return last_key_ = guess;
  if (raw.empty()) return 0;
  scratch_.clear();
  if (key.escaped) append_decoded(scratch_, raw);
  const std::string_view text = key.escaped ? std::string_view(scratch_) : raw;
  if (tables.keys.size() > kMaxKeys && !tables.keys.contains(text)) return 0;
  const uint32_t id = tables.keys.intern_text(text);
  following_.resize(tables.keys.size());
  following_[last_key_] = id;
  return last_key_ = id;
}

void EventParser::add_rest(Pairs& out, const Value& key, const Value& value) {
  if (!out.rest.empty()) out.rest += ", ";
  append_value(out.rest, key);
  out.rest += ": ";
  append_value(out.rest, value);
}

// A field that no column can hold as it is written.
void EventParser::add_field(std::string_view key, const Value& value) {
  if (!fields_.rest.empty()) fields_.rest += ", ";
  append_quoted(fields_.rest, key);
  fields_.rest += ": ";
  append_value(fields_.rest, value);
}

// What a name, a category or an id says: numbers and words stand for themselves.
std::string_view EventParser::text_of(Field field, std::string& scratch) const {
  const Value& value = values_[static_cast<size_t>(field)];
  if (value.text.empty() || value.text == "null") return {};
  if (value.kind != Kind::kString) return value.text;
  if (!value.escaped) return value.inner();
  scratch.clear();
  append_decoded(scratch, value.inner());
  return scratch;
}

uint32_t EventParser::track_id() {
  const std::string_view pid = text_of(Field::kPid, pid_scratch_);
  const std::string_view tid = text_of(Field::kTid, tid_scratch_);
  const auto length = static_cast<uint32_t>(pid.size());
  track_key_.resize(sizeof length);
  std::memcpy(track_key_.data(), &length, sizeof length);
  track_key_ += pid;
  track_key_ += tid;
  const uint32_t id = track_keys_.intern(track_key_) - 1;
  if (id == tracks.size()) tracks.push_back({std::string(pid), std::string(tid)});
  return id;
}

void EventParser::commit() {
  ++events;
  Event event;
  set_phase(event);
  if (event.phase == 'M' && commit_note()) return;
  event.name = tables.strings.intern_text(text_of(Field::kName, scratch_));
  event.category = tables.strings.intern_text(text_of(Field::kCategory, scratch_));
  event.track = track_id();
  set_times(event);
  tables.add(event, args_, fields_);
}

void EventParser::set_phase(Event& event) {
  const std::string_view phase = text_of(Field::kPhase, scratch_);
  if (phase.size() == 1 && static_cast<unsigned char>(phase[0]) < 0x80) {
    event.phase = static_cast<uint8_t>(phase[0]);
    return;
  }
  event.phase = '?';
  if (seen(Field::kPhase)) add_field("ph", value(Field::kPhase));
}

// A name or a place in the order goes to the track. What is not just that stays an event too.
bool EventParser::commit_note() {
  const std::string_view what = text_of(Field::kName, scratch_);
  const auto* kind = std::find_if(std::begin(kNoteKinds), std::end(kNoteKinds),
                                  [&](const NoteKind& known) { return known.what == what; });
  if (kind == std::end(kNoteKinds)) return false;
  TrackNote note;
  note.what = what;
  note.track = {std::string(text_of(Field::kPid, pid_scratch_)),
                std::string(text_of(Field::kTid, tid_scratch_))};
  if (kind->is_text) {
    const std::string json = "{" + args_.rest + "}" + std::string(kPadding, '"');
    const char* json_end = json.data() + json.size() - kPadding;
    Value key;
    Value text;
    const char* p = json.data() + 1;
    if (*p != '"' || !args_.integers.empty()) return false;
    p = scan_string(p, json_end, key);
    if (key.inner() != kind->key) return false;
    p = scan_value(p + 2, json_end, text);
    if (text.kind != Kind::kString || *p != '}') return false;
    append_decoded(note.text, text.inner());
  } else {
    if (!args_.rest.empty() || args_.integers.size() != 1) return false;
    const auto& [key, number] = args_.integers.front();
    if (tables.keys[key] != kind->key) return false;
    note.number = number;
  }
  notes.push_back(std::move(note));
  return true;
}

Time EventParser::time_of(Field field) {
  const Time time = parse_microseconds(text_of(field, scratch_));
  if (time.clamped) count(Oddity::kTimeOutOfRange);
  return time;
}

void EventParser::set_times(Event& event) {
  const Time time = time_of(Field::kTime);
  if (!time.valid) count(Oddity::kNoTime);
  event.time_ns = rounded_ns(time);
  if (event.phase != 'X') {
    if (seen(Field::kDuration)) add_field("dur", value(Field::kDuration));
    return;
  }
  const Time duration = time_of(Field::kDuration);
  if (!duration.valid) {
    count(Oddity::kNoDuration);
  } else if (duration.ns < 0) {
    count(Oddity::kNegativeDuration);
  } else {
    event.duration_ns =
        std::min(rounded_duration_ns(time, duration), kMaxTimeNs - event.time_ns);
  }
}

}  // namespace stepscope::json
