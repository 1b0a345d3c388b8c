// One event of a Chrome trace: from its text to a row of the tables.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "json/decimal.h"
#include "json/event_tables.h"
#include "json/key_scanner.h"
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
  EventParser(const EventParser&) = delete;  // its parts point at each other
  EventParser& operator=(const EventParser&) = delete;

  // p is after the opening brace. The event is kept once its closing brace was seen: only then is
  // `complete` set, and the position after the brace returned.
  const char* parse(const char* p, const char* end, bool& complete);

  // Whether an object with this first key can be an event.
  static bool is_event_key(std::string_view key);

 private:
  // The numbers of these keys; all other keys have higher ones.
  enum Field : uint32_t { kPhase = 1, kCategory, kName, kPid, kTid, kTime, kDuration, kArgs };
  static constexpr size_t kFields = kArgs;

  struct CachedTrack {
    int64_t pid = 0;
    int64_t tid = 0;
    uint32_t track = 0;
    bool used = false;
  };

  template <typename OnPair>
  const char* parse_object(const char* p, bool& complete, OnPair&& on_pair);
  const char* parse_field(const Key& key, const char* p);
  const char* parse_pair(const Key& key, const char* p, Pairs& out);
  const char* parse_args(const char* p);
  const char* parse_other(uint32_t field, const char* p);
  const char* parse_id(const char* p, Field field, int64_t& number, bool& is_number);
  const char* parse_time(const char* p, Field field, Time& time);

  void commit();
  bool commit_note();
  void set_times(Event& event);
  uint8_t phase();

  bool seen(Field field) const { return !values_[field].text.empty(); }
  std::string_view text_of(Field field, std::string& scratch) const;
  void add_field(std::string_view key, const Value& value);
  uint32_t track_id();
  uint32_t named_track_id();
  void count(Oddity what) { ++oddities[static_cast<size_t>(what)]; }

  const char* end_ = nullptr;
  KeyScanner keys_;

  // The event at hand.
  std::array<Value, kFields> values_;  // by Field; empty text: not there
  int64_t pid_ = 0;
  int64_t tid_ = 0;
  bool pid_is_number_ = false;
  bool tid_is_number_ = false;
  Time time_;
  Time duration_;
  Pairs args_;
  Pairs fields_;

  StringTable track_keys_;
  std::array<CachedTrack, 64> cached_tracks_;
  std::string scratch_, pid_scratch_, tid_scratch_, track_key_;
};

}  // namespace stepscope::json
