// Chrome's trace JSON (Kineto, torch.profiler, TensorBoard, Paddle) into columns, in one pass over
// text that arrives in chunks. No tree of values is built, and the text is not kept.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "json/chrome_event.h"
#include "json/event_tables.h"
#include "json/string_table.h"

namespace stepscope::json {

struct ChromeColumns {
  EventTables::Columns events;
  std::vector<TrackName> tracks;
  std::vector<TrackNote> notes;
  std::vector<std::pair<std::string, std::string>> metadata;  // top-level keys, values as JSON
  StringTable strings;
  StringTable keys;
  Oddities oddities{};
  uint64_t event_count = 0;
  uint64_t bytes = 0;      // of text
  uint64_t broken_at = 0;  // the first byte that could not be understood, if is_broken
  bool is_json = false;    // it opens as an object or a list
  bool has_events = false;
  bool is_broken = false;
  bool ends_early = false;
};

class ChromeReader {
 public:
  ChromeReader() = default;
  ChromeReader(const ChromeReader&) = delete;
  ChromeReader& operator=(const ChromeReader&) = delete;

  // The next piece of the text, cut anywhere.
  void feed(std::string_view chunk);
  ChromeColumns finish();
  uint64_t event_count() const { return parser_.events; }
  // How much text is held of a value that has not ended yet.
  size_t pending_bytes() const { return size_; }
  bool in_events() const { return state_ == State::kEvents; }

 private:
  enum class State : uint8_t {
    kStart,
    kTopLevel,    // between the pairs of the outermost object
    kSeekEvents,  // after metadata that makes no sense
    kEvents,      // between events
    kSeekEvent,   // after an event that makes no sense
    kEnd,
    kNotJson,
  };

  // Each reads on from p while it can; returns where the text begins that is still needed.
  const char* step(const char* p);
  const char* start(const char* p);
  const char* top_level(const char* p);
  const char* top_level_pair(const char* p);
  const char* seek_events(const char* p);
  const char* event_list(const char* p);
  const char* seek_event(const char* p);
  const char* trailing(const char* p);

  void broken(const char* p, Oddity what, State next);
  const char* after_broken_event(const char* p);
  void count(Oddity what) { ++parser_.oddities[static_cast<size_t>(what)]; }

  std::vector<char> buffer_;
  const char* end_ = nullptr;  // of the text in the buffer; the padding follows
  size_t size_ = 0;            // of that text
  size_t retry_size_ = 0;      // with less text than this another try is not worth it
  uint64_t dropped_ = 0;       // bytes of text that stood before those in the buffer

  State state_ = State::kStart;
  bool is_list_ = false;
  bool has_events_ = false;
  bool is_broken_ = false;
  uint64_t broken_at_ = 0;
  uint64_t reread_ = 0;  // bytes that broken events made the reader pass again
  EventParser parser_;
  std::vector<std::pair<std::string, std::string>> metadata_;
};

}  // namespace stepscope::json
