// Events of a trace as the elements of a Chrome / Kineto "traceEvents" array, in chunks.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/byte_buffer.h"
#include "json/json_escape.h"

namespace stepscope {

// values[i] belongs to row rows[i]; rows ascend.
struct SparseIntegers {
  std::string key;  // as it stands in the file: `"External id": `; if it ends with a quote, so
                    // does the number
  std::span<const uint32_t> rows;
  std::span<const int64_t> values;
};

struct Pairs {
  std::vector<SparseIntegers> integers;
  std::span<const uint32_t> rest;  // ids of JSON fragments, 0 for none; empty: none at all
};

struct EventTable {
  std::span<const uint8_t> phase;  // empty: all are 'X'
  std::span<const uint32_t> category;
  std::span<const uint32_t> name;
  std::span<const int64_t> time_ns;
  std::span<const int64_t> duration_ns;  // empty: events without one
  std::span<const uint32_t> track;
  Pairs args;
  Pairs fields;  // what stands beside args
  // As Paddle writes it: names end with the duration, args begin with the times since this one.
  std::optional<int64_t> origin_ns;
};

class JsonBuffer : public ByteBuffer {
 public:
  void put_integer(int64_t value);
  void put_microseconds(int64_t ns);  // with exactly three decimals
  void drop_last() { --size_; }

 private:
  void put_unsigned(uint64_t value);
};

class ChromeWriter {
 public:
  // `tracks[i]` is how track i stands in an event: `"pid": 1, "tid": 2`. Everything that is given
  // as a view must outlive the writer. With `continues`, events stand before the first one already.
  ChromeWriter(std::string_view blob, std::span<const int64_t> offsets,
               std::vector<std::string> tracks, bool continues);

  // Throws std::invalid_argument when the columns do not fit each other or an id is unknown.
  void add(EventTable table);

  // Formats the next events, of all tables in turn, until there are `chunk_bytes` or no more.
  // An empty buffer means the end.
  JsonBuffer next(size_t chunk_bytes);

  size_t written() const { return written_; }

 private:
  struct OpenPairs {
    Pairs pairs;
    std::vector<size_t> at;    // how far each integer column has been used
    size_t integer_bytes = 0;  // what a row's integers need at most
  };
  struct OpenTable {
    EventTable columns;
    OpenPairs args;
    OpenPairs fields;
    size_t row = 0;
  };

  static OpenPairs opened(Pairs pairs);
  void check(const EventTable& table) const;
  void check(const Pairs& pairs, size_t rows) const;
  void put_event(JsonBuffer& out, OpenTable& table);
  static void put_args(JsonBuffer& out, OpenTable& table, std::string_view rest);
  std::string_view rest_of(const OpenPairs& open, size_t row);
  static size_t put_pairs(JsonBuffer& out, OpenPairs& open, size_t row, std::string_view rest,
                          std::string_view before_first);

  json::JsonTexts texts_;
  std::vector<std::string> tracks_;
  size_t longest_track_ = 0;
  std::vector<OpenTable> tables_;
  size_t table_ = 0;
  size_t written_ = 0;
  bool continues_;
};

}  // namespace stepscope
