// Debug annotations of events as key-value pairs: integers, and all else as a fragment of JSON.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>

#include "json/event_tables.h"
#include "protobuf/wire.h"

namespace stepscope::perfetto {

// What a sequence of packets has introduced.
struct Interned {
  std::unordered_map<uint64_t, uint32_t> names, categories;  // to numbers of the strings
  std::unordered_map<uint64_t, std::string> keys, texts;     // of annotations
  std::unordered_map<std::string, uint32_t> fragments;       // annotations as they stood, to theirs

  void clear();
  // False: not all of it could be understood.
  bool add(std::string_view bytes, json::StringTable& strings);
};

// Appends a number as JSON; those that JSON does not have become strings.
void append_json(std::string& out, double value);

class AnnotationReader {
 public:
  // `room` is how many bytes fragments may have in all: few bytes of a file can ask for many.
  AnnotationReader(json::EventTables& tables, uint64_t room) : tables_(&tables), room_(room) {}

  // One annotation of an event, after begin().
  void begin() { raw_.clear(); }
  void add(std::string_view bytes, const Interned& interned, json::Pairs& out);
  // All of an event were added. False: there was no room.
  bool finish(Interned& interned, json::Pairs& out);

  bool texts_may_be_json = false;  // as in files of our own: see looks_like_json
  uint64_t malformed = 0;

 private:
  static constexpr int kMaxDepth = 32;

  // Appends `"key": value`, or the value alone.
  void append_pair(std::string& out, std::string_view bytes, const Interned& interned, int depth);
  void append_value(std::string& out, std::string_view bytes, const Interned& interned, int depth);
  void append_text(std::string& out, std::string_view text, bool may_be_json);
  bool is_json(std::string_view text);

  json::EventTables* tables_;
  uint64_t room_;
  std::string raw_;  // the annotations of the event that are no integers
  std::string scratch_;
};

}  // namespace stepscope::perfetto
