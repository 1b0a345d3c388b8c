// The events of a Chrome trace as columns: gathered one by one, paired and ordered at the end.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "json/string_table.h"

namespace stepscope::json {

// Key-value pairs of one event: integers by key number, all else as one fragment of JSON.
struct Pairs {
  std::vector<std::pair<uint32_t, int64_t>> integers;
  std::string rest;

  void clear() {
    integers.clear();
    rest.clear();
  }
};

// One event, before its phase says which table it belongs to.
struct Event {
  uint8_t phase = 0;
  uint32_t category = 0;
  uint32_t name = 0;
  uint32_t track = 0;
  int64_t time_ns = 0;
  int64_t duration_ns = 0;
};

// The pairs of a table's rows, row after row.
class PairRows {
 public:
  void add(const Pairs& pairs, StringTable& strings);
  void add(const PairRows& other, size_t row);
  // Adds the pairs of another row to those of `row`; the later of two with the same key counts.
  void join(size_t row, const PairRows& other, size_t other_row);

  struct IntColumn {
    uint32_t key = 0;
    std::vector<uint32_t> rows;
    std::vector<int64_t> values;
  };
  struct Columns {
    std::vector<IntColumn> integers;
    std::vector<uint32_t> rest;  // empty: all 0
  };
  // Row i of the columns is row order[i]; an empty order leaves the rows where they are.
  Columns columns(const std::vector<uint32_t>& order, uint32_t keys, StringTable& strings) const;

 private:
  struct Joined {
    std::vector<std::pair<uint32_t, int64_t>> integers;
    uint32_t rest = 0;
  };

  std::vector<uint32_t> keys_;
  std::vector<int64_t> values_;
  std::vector<uint64_t> ends_;  // of each row in keys_ and values_
  std::vector<uint32_t> rest_;
  bool any_rest_ = false;
  std::unordered_map<size_t, Joined> joined_;
};

struct Table {
  std::vector<uint8_t> phase;
  std::vector<uint32_t> category;
  std::vector<uint32_t> name;
  std::vector<uint32_t> track;
  std::vector<int64_t> time_ns;
  std::vector<int64_t> duration_ns;
  PairRows args;
  PairRows fields;

  size_t size() const { return time_ns.size(); }
  void add(const Event& event);
  Event at(size_t row) const;
};

struct SliceColumns {
  std::vector<uint32_t> category, name, track;
  std::vector<int64_t> start_ns, duration_ns;
  std::vector<uint8_t> flags;  // empty: none set
  PairRows::Columns args, fields;
};

struct MarkColumns {
  std::vector<uint8_t> phase;
  std::vector<uint32_t> category, name, track;
  std::vector<int64_t> time_ns;
  PairRows::Columns args, fields;
};

class EventTables {
 public:
  StringTable strings;
  StringTable keys;  // of the pairs' integers

  void add(const Event& event, const Pairs& args, const Pairs& fields);
  size_t size() const { return slices_.size() + marks_.size() + ends_.size(); }

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
    uint32_t row;
    bool is_end;
  };

  void pair_edges(Columns& out);
  void close_open(const std::vector<std::vector<uint32_t>>& stacks, Columns& out);
  SliceColumns ordered_slices();

  Table slices_;  // a begin is a slice whose end is not known yet
  Table marks_;
  Table ends_;
  std::vector<Edge> edges_;
  std::vector<uint8_t> flags_;
};

}  // namespace stepscope::json
