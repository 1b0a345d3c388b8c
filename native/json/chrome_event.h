// One event of a Chrome trace: from its text to a row of the tables.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "json/decimal.h"
#include "json/event_tables.h"
#include "json/scanner.h"
#include "json/string_table.h"

namespace stepscope::json {

// Odd things that were met; events are kept unless the name says otherwise.
enum class Oddity : uint8_t {
  kNoDuration,
  kNegativeDuration,
  kNoTime,
  kTimeOutOfRange,
  kOpenBegin,
  kStrayEnd,
  kNotAnEvent,
  kMalformedEvent,
  kMalformedMetadata,
  kTextAfterEnd,
  kCount,
};
using Oddities = std::array<uint64_t, static_cast<size_t>(Oddity::kCount)>;

struct TrackName {
  std::string pid;
  std::string tid;
};

// A metadata event that names or sorts a process or a thread.
struct TrackNote {
  std::string what;
  TrackName track;
  std::string text;
  int64_t number = 0;
};

class EventParser {
 public:
  EventTables tables;
  std::vector<TrackName> tracks;
  std::vector<TrackNote> notes;
  Oddities oddities{};
  uint64_t events = 0;
  const char* failed_at = nullptr;  // where parse() met what made it return nullptr

  EventParser();

  // p is after the opening brace. The event is kept once its closing brace was seen: only then is
  // `complete` set, and the position after the brace returned.
  const char* parse(const char* p, const char* end, bool& complete);

  // Whether an object with this first key can be an event.
  static bool is_event_key(std::string_view key);

 private:
  enum class Field : uint8_t { kPhase, kCategory, kName, kPid, kTid, kTime, kDuration, kArgs, kOther };
  static constexpr size_t kFields = static_cast<size_t>(Field::kArgs);

  static Field field_of(std::string_view key);

  const char* parse_field(Field field, const Value& key, const char* p);
  const char* parse_pairs(const char* p, Pairs& out);
  const char* parse_pair(const Value& key, const char* p, Pairs& out);

  void commit();
  bool commit_note();
  Time time_of(Field field);
  void set_times(Event& event);
  void set_phase(Event& event);

  const Value& value(Field field) const { return values_[static_cast<size_t>(field)]; }
  bool seen(Field field) const { return !value(field).text.empty(); }
  std::string_view text_of(Field field, std::string& scratch) const;
  void add_rest(Pairs& out, const Value& key, const Value& value);
  void add_field(std::string_view key, const Value& value);
  uint32_t key_id(const Value& key);
  uint32_t track_id();
  void count(Oddity what) { ++oddities[static_cast<size_t>(what)]; }

  const char* end_ = nullptr;
  std::array<Value, kFields> values_;  // the fields of the event at hand; empty text: not there
  Pairs args_;
  Pairs fields_;

  StringTable track_keys_;
  std::vector<uint32_t> following_;  // by key: the key that stood after it last time
  uint32_t last_key_ = 0;
  std::string scratch_, pid_scratch_, tid_scratch_, track_key_;
};

}  // namespace stepscope::json
