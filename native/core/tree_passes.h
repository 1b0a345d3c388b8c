// Passes over the rows of a trace that add up, hand down and tell apart: each is linear.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace stepscope {

// A damaged file may hold values whose sum is beyond 64 bits: wrong, but no undefined behaviour.
inline int64_t wrapping_sum(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}

// Adds every value to its place; a place below 0 is none.
template <typename Place>
std::vector<int64_t> summed_at(std::span<const Place> place, std::span<const int64_t> values,
                               size_t places) {
  std::vector<int64_t> sums(places);
  for (size_t i = 0; i < place.size(); ++i) {
    const auto at = static_cast<int64_t>(place[i]);
    if (at >= 0 && static_cast<size_t>(at) < places) {
      int64_t& sum = sums[static_cast<size_t>(at)];
      sum = wrapping_sum(sum, values[i]);
    }
  }
  return sums;
}

// Rows stand behind their parents in what follows; -1 is no parent.

// A row's own value with those of all rows below it.
std::vector<int64_t> summed_up(std::span<const int32_t> parent, std::span<const int64_t> values);

// A row's own value where it has one, else that of the nearest row around it; -1 is no value.
std::vector<int32_t> handed_down(std::span<const int32_t> parent, std::span<const int32_t> values);

// Which rows lie in a marked one with the same key.
std::vector<uint8_t> inside_same(std::span<const int32_t> parent, std::span<const uint32_t> key,
                                 std::span<const uint8_t> marked);

struct SliceTree {
  std::span<const int64_t> start_ns, duration_ns, self_ns;
  std::span<const int32_t> parent, depth;
};

// Whether starts ascend, no slice ends beyond `latest_ns` of zero, none has more time of its own
// than it took, and parents stand before the rows in them, one level up.
bool is_sound(const SliceTree& slices, int64_t latest_ns);

struct Uncovered {
  std::vector<int64_t> from_ns;    // where the part begins that no earlier row of its key covers
  std::vector<uint8_t> outermost;  // whether there is such a part
};

// Rows stand in the order of their starts; keys are below `keys`.
Uncovered uncovered(std::span<const int64_t> key, size_t keys, std::span<const int64_t> start_ns,
                    std::span<const int64_t> end_ns);

// How much of the time before each moment lies in intervals, which are in order and apart.
std::vector<int64_t> covered_before(std::span<const int64_t> start_ns,
                                    std::span<const int64_t> end_ns,
                                    std::span<const int64_t> time_ns);

struct PartSlices {
  std::span<const int64_t> start_ns, duration_ns;
  std::span<const int32_t> parent, depth;
  std::span<const int8_t> part;
};

struct Moments {
  std::vector<int8_t> part;
  std::vector<int64_t> start_ns, end_ns;
};

// Which part a thread is in, from the start of its first slice to the end of its last. A slice's
// part begins with the slice; when the slice ends, its parent's part goes on, or `outside` without
// a parent. Neighbours of the same part are joined. `rows` ascend, in slice_order.
Moments part_moments(const PartSlices& slices, std::span<const int64_t> rows, int8_t outside);

struct Distinct {
  std::vector<int64_t> values;  // ascending
  std::vector<int64_t> codes;   // of each row: which of them it has
};

// The distinct values of a column from `least` to `most`, through a table of that size.
template <typename Value>
Distinct distinct(std::span<const Value> values, int64_t least, int64_t most) {
  std::vector<int32_t> place(static_cast<size_t>(most - least) + 1);
  for (const Value value : values) place[static_cast<size_t>(value - least)] = 1;
  Distinct out;
  for (size_t i = 0; i < place.size(); ++i) {
    if (!place[i]) continue;
    place[i] = static_cast<int32_t>(out.values.size());
    out.values.push_back(static_cast<int64_t>(i) + least);
  }
  out.codes.resize(values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    out.codes[i] = place[static_cast<size_t>(values[i] - least)];
  }
  return out;
}

// The distinct numbers of a column, ascending.
std::vector<int64_t> present(std::span<const uint32_t> numbers);

struct Paths {
  std::vector<int64_t> node;               // of each row; -1 for those that were not asked for
  std::vector<int64_t> parent, code, row;  // of each new node; its first row
};

struct PathRows {
  std::span<const int64_t> rows;    // in which every row stands behind the one around it
  std::span<const int32_t> around;  // of each row; -1: it stands below `base`
  std::span<const int64_t> base;    // a node, of each row
  std::span<const int64_t> code;
};

// One node for all rows that have the same code below the same node; new ones begin at `first`.
Paths paths(const PathRows& rows, int64_t first);

// The line of each slice within its track: its depth, or the first free one below its parent where
// slices overlap without nesting. In slice_order.
std::vector<int32_t> lanes(std::span<const int64_t> start_ns, std::span<const int64_t> duration_ns,
                           std::span<const uint32_t> track, std::span<const int32_t> parent);

}  // namespace stepscope
