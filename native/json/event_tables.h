// The events of a Chrome trace: gathered as rows, paired, ordered and turned into columns at the
// end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "json/string_table.h"

namespace stepscope::json {

// A vector that grows in blocks, so that a large table is never copied and never takes twice its
// size.
template <typename T>
class BlockList {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  T& operator[](size_t i) { return blocks_[i / kBlock][i % kBlock]; }
  const T& operator[](size_t i) const { return blocks_[i / kBlock][i % kBlock]; }

  void push_back(const T& item) {
    if (size_ % kBlock == 0) blocks_.emplace_back(std::make_unique_for_overwrite<T[]>(kBlock));
    blocks_[size_ / kBlock][size_ % kBlock] = item;
    ++size_;
  }

 private:
  static constexpr size_t kBlock = 16'384;

  std::vector<std::unique_ptr<T[]>> blocks_;
  size_t size_ = 0;
};

struct Pair {
  uint32_t key = 0;  // a number of EventTables::keys
  int64_t value = 0;
};

// Key-value pairs of one event: integers, and all else as one fragment of JSON.
struct Pairs {
  std::vector<Pair> integers;
  std::string rest;
  uint32_t rest_id = 0;  // the number of the fragment in place of its text

  void clear() {
    integers.clear();
    rest.clear();
    rest_id = 0;
  }
};

// Key-value pairs that were put away: a run of integers, and the number of the fragment.
struct PairRun {
  uint64_t begin = 0;
  uint32_t count = 0;
  uint32_t rest = 0;
};

struct Event {
  int64_t time_ns = 0;
  int64_t duration_ns = 0;
  uint32_t category = 0;
  uint32_t name = 0;
  uint32_t track = 0;
  uint8_t phase = 0;
  uint8_t flags = 0;
  PairRun args;
  PairRun fields;
};

// The pairs of all rows of a table, by key.
struct PairColumns {
  struct Integers {
    uint32_t key = 0;
    std::vector<uint32_t> rows;  // ascending
    std::vector<int64_t> values;
  };
  std::vector<Integers> integers;
  std::vector<uint32_t> rest;  // empty: all 0
};

struct SliceColumns {
  std::vector<uint32_t> category, name, track;
  std::vector<int64_t> start_ns, duration_ns;
  std::vector<uint8_t> flags;
  PairColumns args, fields;
};

struct MarkColumns {
  std::vector<uint8_t> phase;
  std::vector<uint32_t> category, name, track;
  std::vector<int64_t> time_ns;
  PairColumns args, fields;
};

class EventTables {
 public:
  StringTable strings;
  StringTable keys;

  void add(Event event, const Pairs& args, const Pairs& fields);

  struct Columns {
    SliceColumns slices;  // in slice_order
    MarkColumns marks;    // as they stood in the file
    uint64_t open_begins = 0;
    uint64_t stray_ends = 0;
  };
  Columns finish();

 private:
  struct Edge {
    int64_t time_ns;
    uint32_t row;  // of slices_ for a begin, of ends_ for an end
    bool is_end;
  };
  using Stacks = std::vector<std::vector<uint32_t>>;

  PairRun put_away(const Pairs& pairs);
  PairRun joined(const PairRun& first, const PairRun& second);
  void pair_edges(Columns& out);
  void close_open(const Stacks& stacks, Columns& out);
  SliceColumns slice_columns() const;
  MarkColumns mark_columns() const;
  PairColumns pair_columns(const BlockList<Event>& events, PairRun Event::* which,
                           const std::optional<std::vector<uint32_t>>& order) const;

  BlockList<Event> slices_;  // a begin is a slice whose end is not known yet
  BlockList<Event> marks_;
  BlockList<Event> ends_;
  std::vector<Edge> edges_;  // begins and ends, as they stood in the file
  BlockList<Pair> pairs_;
};

}  // namespace stepscope::json
