// Order, nesting and self time of slices: one linear pass, no recursion.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace stepscope {

// The order "by start, the longer first, then as given"; nothing when the slices already stand so.
std::optional<std::vector<uint32_t>> slice_order(std::span<const int64_t> start_ns,
                                                 std::span<const int64_t> duration_ns);

// The context of asynchronous ranges that have a track of their own: they nest in each other. All
// other asynchronous ones hold nothing and are in nothing.
inline constexpr uint32_t kOperations = UINT32_MAX;

struct NestingInput {
  std::span<const int64_t> start_ns;  // in slice_order
  std::span<const int64_t> duration_ns;
  std::span<const uint32_t> track;
  std::span<const uint8_t> flags;     // empty: none set
  std::span<const uint32_t> context;  // empty: all 0; see below
};

struct Nesting {
  std::vector<int32_t> parent;  // -1 at the top
  std::vector<int32_t> depth;
  std::vector<int64_t> self_ns;
  uint64_t overlaps = 0;  // slices that start inside another of their track and outlast it
  // Those pairs: a slice that is open when another starts, and ends before that one.
  std::vector<uint32_t> outlasted, outlasting;
};

// A slice's parent is the latest-started slice of its track that encloses it. Slices of one track
// that belong to different asyncio contexts do not enclose each other; context 0 (outside any task)
// encloses all. A slice that ended on another thread than its own has no parent and no children.
// A slice's own time is when it is the latest-started one of its track that is open: where slices
// overlap without nesting, no moment counts for two of them. Tasks are apart: they take turns, and
// who runs is not known, so that theirs is what their children leave.
Nesting nest(const NestingInput& input);

}  // namespace stepscope
