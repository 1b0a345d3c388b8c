#include "json/chrome_reader.h"

#include <algorithm>
#include <cstring>

#include "json/scanner.h"

namespace stepscope::json {
namespace {

constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
constexpr uint64_t kMaxRereadBytes = 256U << 20U;
constexpr std::string_view kEventsKey = "\"traceEvents\"";

}  // namespace

void ChromeReader::feed(std::string_view chunk) {
  if (buffer_.size() < size_ + chunk.size() + kPadding) {
    buffer_.resize(size_ + chunk.size() + kPadding);
  }
  chunk.copy(buffer_.data() + size_, chunk.size());
  size_ += chunk.size();
  if (size_ < retry_size_) return;
  std::memset(buffer_.data() + size_, '"', kPadding);
  end_ = buffer_.data() + size_;

  const char* p = buffer_.data();
  State before = state_;
  do {
    before = state_;
    p = std::min(step(p), end_);
  } while (state_ != before);
  const auto used = static_cast<size_t>(p - buffer_.data());
  size_ -= used;
  dropped_ += used;
  std::memmove(buffer_.data(), p, size_);
  // A single event may be longer than many chunks: doubling keeps the sum of all tries linear.
  retry_size_ = size_ * 2;
}

const char* ChromeReader::step(const char* p) {
  switch (state_) {
    case State::kStart:
      return start(p);
    case State::kTopLevel:
      return top_level(p);
    case State::kSeekEvents:
      return seek_events(p);
    case State::kEvents:
      return event_list(p);
    case State::kSeekEvent:
      return seek_event(p);
    case State::kEnd:
      return trailing(p);
    case State::kNotJson:
      break;
  }
  return end_;
}

const char* ChromeReader::start(const char* p) {
  if (dropped_ == 0) {
    const auto size = std::min(static_cast<size_t>(end_ - p), kByteOrderMark.size());
    if (kByteOrderMark.substr(0, size) == std::string_view(p, size)) {
      if (size < kByteOrderMark.size()) return p;
      p += size;
    }
  }
  p = skip_space(p);
  if (p >= end_) return p;
  is_list_ = *p == '[';
  state_ = is_list_ ? State::kEvents : *p == '{' ? State::kTopLevel : State::kNotJson;
  return p + 1;
}

const char* ChromeReader::top_level(const char* p) {
  while (state_ == State::kTopLevel) {
    p = skip_space(p);
    if (p >= end_) return p;
    if (*p == ',') {
      ++p;
    } else if (*p == '}') {
      state_ = State::kEnd;
      ++p;
    } else {
      const char* after = top_level_pair(p);
      if (after == nullptr) {
        broken(p, Oddity::kMalformedMetadata, State::kSeekEvents);
        return p + 1;
      }
      if (after > end_ || (after == end_ && state_ == State::kTopLevel)) return p;
      p = after;
    }
  }
  return p;
}

const char* ChromeReader::top_level_pair(const char* p) {
  Value key;
  Value value;
  p = scan_key(p, end_, key);
  if (p == nullptr || p >= end_) return p;
  if (key.text == kEventsKey && *p == '[') {
    has_events_ = true;
    state_ = State::kEvents;
    return p + 1;
  }
  p = scan_value(p, end_, value);
  if (p == nullptr || p >= end_) return p;
  auto& [name, json] = metadata_.emplace_back();
  append_decoded(name, key.inner());
  append_value(json, value);
  return p;
}

// Writers that do not escape break the metadata; the events are what counts.
const char* ChromeReader::seek_events(const char* p) {
  if (has_events_) return end_;
  for (;;) {
    const std::string_view text(p, static_cast<size_t>(end_ - p));
    const size_t at = text.find(kEventsKey);
    if (at == std::string_view::npos) return end_ - std::min(text.size(), kEventsKey.size() - 1);
    const char* key = p + at;
    Value name;
    p = scan_key(key, end_, name);
    if (p >= end_) return key;
    if (p == nullptr || *p != '[') {
      p = key + kEventsKey.size();
      continue;
    }
    has_events_ = true;
    state_ = State::kEvents;
    return p + 1;
  }
}

const char* ChromeReader::event_list(const char* p) {
  Value other;
  for (;;) {
    p = skip_space(p);
    if (p >= end_) return p;
    const char* after = p + 1;
    parser_.failed_at = p;
    if (*p == '{') {
      bool complete = false;
      after = parser_.parse(p + 1, end_, complete);
      if (after != nullptr && !complete) return p;
    } else if (*p == ']') {
      state_ = is_list_ ? State::kEnd : State::kTopLevel;
      return after;
    } else if (*p != ',') {
      after = scan_value(p, end_, other);
      if (after != nullptr && after >= end_) return p;
      if (after != nullptr) count(Oddity::kNotAnEvent);
    }
    if (after == nullptr) {
      broken(p, Oddity::kMalformedEvent, State::kSeekEvent);
      return after_broken_event(p);
    }
    p = after;
  }
}

// The next event begins behind "}, {" and its first key is one of an event's: a list of objects
// inside of one must not be taken for it.
const char* ChromeReader::seek_event(const char* p) {
  for (;;) {
    const void* place = std::memchr(p, '}', static_cast<size_t>(end_ - p));
    if (place == nullptr) return end_;
    const char* brace = static_cast<const char*>(place);
    p = skip_space(brace + 1);
    if (p >= end_) return brace;
    if (*p != ',') continue;
    p = skip_space(p + 1);
    if (p >= end_) return brace;
    if (*p != '{') continue;
    const char* key = skip_space(p + 1);
    Value name;
    if (key >= end_ || (*key == '"' && scan_string(key, end_, name) > end_)) return brace;
    if (*key != '"' || !EventParser::is_event_key(name.inner())) continue;
    state_ = State::kEvents;
    return p;
  }
}

const char* ChromeReader::trailing(const char* p) {
  p = skip_space(p);
  if (p < end_ && parser_.oddities[static_cast<size_t>(Oddity::kTextAfterEnd)] == 0) {
    count(Oddity::kTextAfterEnd);
  }
  return end_;
}

void ChromeReader::broken(const char* p, Oddity what, State next) {
  count(what);
  if (!is_broken_) broken_at_ = dropped_ + static_cast<uint64_t>(p - buffer_.data());
  is_broken_ = true;
  state_ = next;
}

// The next event may begin inside of what was taken for the broken one. To look there costs another
// pass over the same text, so a file made of nothing else is not given that chance forever.
const char* ChromeReader::after_broken_event(const char* p) {
  reread_ += static_cast<uint64_t>(parser_.failed_at - p);
  return reread_ <= kMaxRereadBytes ? p + 1 : std::max(p + 1, parser_.failed_at);
}

ChromeColumns ChromeReader::finish() {
  retry_size_ = 0;
  feed({});
  ChromeColumns out;
  out.events = parser_.tables.finish();
  out.tracks = std::move(parser_.tracks);
  out.notes = std::move(parser_.notes);
  out.metadata = std::move(metadata_);
  out.strings = std::move(parser_.tables.strings);
  out.keys = std::move(parser_.tables.keys);
  out.oddities = parser_.oddities;
  out.oddities[static_cast<size_t>(Oddity::kOpenBegin)] = out.events.open_begins;
  out.oddities[static_cast<size_t>(Oddity::kStrayEnd)] = out.events.stray_ends;
  out.event_count = parser_.events;
  out.bytes = dropped_ + size_;
  out.broken_at = broken_at_;
  out.is_json = state_ != State::kStart && state_ != State::kNotJson;
  out.has_events = has_events_ || (is_list_ && parser_.events > 0);
  out.is_broken = is_broken_;
  const bool lost = state_ == State::kSeekEvents || state_ == State::kSeekEvent;
  out.ends_early = out.is_json && state_ != State::kEnd && !lost;
  return out;
}

}  // namespace stepscope::json
