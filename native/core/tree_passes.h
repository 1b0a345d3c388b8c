// Passes over the rows of a trace that add up, hand down and tell apart: each is linear.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace stepscope {

// Adds every value to its place; a place below 0 is none.
template <typename Place>
std::vector<int64_t> summed_at(std::span<const Place> place, std::span<const int64_t> values,
                               size_t places) {
  std::vector<int64_t> sums(places);
  for (size_t i = 0; i < place.size(); ++i) {
    const auto at = static_cast<int64_t>(place[i]);
    if (at >= 0 && static_cast<size_t>(at) < places) sums[static_cast<size_t>(at)] += values[i];
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

struct Uncovered {
  std::vector<int64_t> from_ns;    // where the part begins that no earlier row of its key covers
  std::vector<uint8_t> outermost;  // whether there is such a part
};

// Rows stand in the order of their starts; keys are below `keys`.
Uncovered uncovered(std::span<const int64_t> key, size_t keys, std::span<const int64_t> start_ns,
                    std::span<const int64_t> end_ns);

// The line of each slice within its track: its depth, or the first free one below its parent where
// slices overlap without nesting. In slice_order.
std::vector<int32_t> lanes(std::span<const int64_t> start_ns, std::span<const int64_t> duration_ns,
                           std::span<const uint32_t> track, std::span<const int32_t> parent);

}  // namespace stepscope
