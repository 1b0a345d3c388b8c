#include "core/tree_passes.h"

#include <algorithm>
#include <limits>

namespace stepscope {
namespace {

bool is_before(int32_t parent, size_t row) {
  return parent >= 0 && static_cast<size_t>(parent) < row;
}

// The lines of a track: when the last slice of each ends. All are free again once everything has.
struct Lines {
  std::vector<int64_t> free_ns;
  int64_t latest_ns = std::numeric_limits<int64_t>::min();

  int32_t take(size_t lowest, int64_t start_ns, int64_t end_ns) {
    if (start_ns >= latest_ns) free_ns.clear();
    latest_ns = std::max(latest_ns, end_ns);
    size_t at = lowest;
    while (at < free_ns.size() && free_ns[at] > start_ns) ++at;
    if (at >= free_ns.size()) free_ns.resize(at + 1, start_ns);
    free_ns[at] = end_ns;
    return static_cast<int32_t>(at);
  }
};

}  // namespace

std::vector<int64_t> summed_up(std::span<const int32_t> parent, std::span<const int64_t> values) {
  std::vector<int64_t> total(values.begin(), values.end());
  for (size_t row = parent.size(); row-- > 0;) {
    if (is_before(parent[row], row)) total[parent[row]] += total[row];
  }
  return total;
}

std::vector<int32_t> handed_down(std::span<const int32_t> parent, std::span<const int32_t> values) {
  std::vector<int32_t> found(values.begin(), values.end());
  for (size_t row = 0; row < parent.size(); ++row) {
    if (found[row] < 0 && is_before(parent[row], row)) found[row] = found[parent[row]];
  }
  return found;
}

std::vector<uint8_t> inside_same(std::span<const int32_t> parent, std::span<const uint32_t> key,
                                 std::span<const uint8_t> marked) {
  std::vector<uint8_t> inside(parent.size());
  for (size_t row = 0; row < parent.size(); ++row) {
    if (!marked[row]) continue;
    size_t below = row;
    for (int32_t at = parent[row]; is_before(at, below); at = parent[below]) {
      below = static_cast<size_t>(at);
      if (marked[below] && key[below] == key[row]) {
        inside[row] = 1;
        break;
      }
    }
  }
  return inside;
}

Uncovered uncovered(std::span<const int64_t> key, size_t keys, std::span<const int64_t> start_ns,
                    std::span<const int64_t> end_ns) {
  std::vector<int64_t> reached(keys, std::numeric_limits<int64_t>::min());
  Uncovered out;
  out.from_ns.resize(key.size());
  out.outermost.resize(key.size());
  for (size_t row = 0; row < key.size(); ++row) {
    int64_t& before = reached[static_cast<size_t>(key[row])];
    out.from_ns[row] = std::min(std::max(before, start_ns[row]), end_ns[row]);
    out.outermost[row] = before < end_ns[row];
    before = std::max(before, end_ns[row]);
  }
  return out;
}

std::vector<int32_t> lanes(std::span<const int64_t> start_ns, std::span<const int64_t> duration_ns,
                           std::span<const uint32_t> track, std::span<const int32_t> parent) {
  uint32_t tracks = 0;
  for (const uint32_t one : track) tracks = std::max(tracks, one + 1);
  std::vector<Lines> lines(tracks);
  std::vector<int32_t> lane(start_ns.size());
  for (size_t row = 0; row < start_ns.size(); ++row) {
    const size_t lowest =
        is_before(parent[row], row) ? static_cast<size_t>(lane[parent[row]]) + 1 : 0;
    lane[row] = lines[track[row]].take(lowest, start_ns[row], start_ns[row] + duration_ns[row]);
  }
  return lane;
}

}  // namespace stepscope
