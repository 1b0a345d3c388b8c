#include "core/tree_passes.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <queue>
#include <tuple>
#include <utility>

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

// Pairs of numbers to places: open addressing, which stays close together in memory.
class PathTable {
 public:
  int64_t find_or_add(int64_t above, int64_t code, int64_t next) {
    if (2 * used_ >= slots_.size()) grow();
    Slot& slot = slot_of(slots_, above, code);
    if (slot.place < 0) {
      slot = {above, code, next};
      ++used_;
    }
    return slot.place;
  }

 private:
  struct Slot {
    int64_t above = 0, code = 0, place = -1;
  };

  static Slot& slot_of(std::vector<Slot>& slots, int64_t above, int64_t code) {
    uint64_t hash = static_cast<uint64_t>(above) * 0x9E3779B97F4A7C15U;
    hash = (hash ^ (hash >> 29U) ^ static_cast<uint64_t>(code)) * 0xBF58476D1CE4E5B9U;
    size_t at = (hash ^ (hash >> 32U)) & (slots.size() - 1);
    while (slots[at].place >= 0 && (slots[at].above != above || slots[at].code != code)) {
      at = (at + 1) & (slots.size() - 1);
    }
    return slots[at];
  }

  void grow() {
    std::vector<Slot> larger(std::max<size_t>(slots_.size() * 2, 1024));
    for (const Slot& slot : slots_) {
      if (slot.place >= 0) slot_of(larger, slot.above, slot.code) = slot;
    }
    slots_ = std::move(larger);
  }

  std::vector<Slot> slots_;
  size_t used_ = 0;
};

// The moments of a thread as they come; neighbours of one part are one.
struct PartRuns {
  explicit PartRuns(int8_t outside) : part(outside) {}

  void change(int64_t time_ns, int8_t next) {
    if (begun && time_ns > now_ns) {
      if (!moments.part.empty() && moments.part.back() == part) {
        moments.end_ns.back() = time_ns;
      } else {
        moments.part.push_back(part);
        moments.start_ns.push_back(now_ns);
        moments.end_ns.push_back(time_ns);
      }
    }
    begun = true;
    now_ns = time_ns;
    part = next;
  }

  Moments moments;
  int8_t part;
  int64_t now_ns = 0;
  bool begun = false;
};

}  // namespace

std::vector<int64_t> summed_up(std::span<const int32_t> parent, std::span<const int64_t> values) {
  std::vector<int64_t> total(values.begin(), values.end());
  for (size_t row = parent.size(); row-- > 0;) {
    if (is_before(parent[row], row)) {
      total[parent[row]] = wrapping_sum(total[parent[row]], total[row]);
    }
  }
  return total;
}

std::vector<int32_t> handed_down(std::span<const int32_t> parent, std::span<const int32_t> values) {
  std::vector<int32_t> handed(values.begin(), values.end());
  for (size_t row = 0; row < parent.size(); ++row) {
    if (handed[row] < 0 && is_before(parent[row], row)) handed[row] = handed[parent[row]];
  }
  return handed;
}

bool is_sound(const SliceTree& slices, int64_t latest_ns) {
  const size_t rows = slices.start_ns.size();
  if (rows != 0 && slices.start_ns[0] < -latest_ns) return false;
  int64_t before_ns = rows != 0 ? slices.start_ns[0] : 0;
  bool sound = true;  // without a branch for each rule: all rows are read in nearly all traces
  for (size_t row = 0; row < rows; ++row) {
    const int64_t start_ns = slices.start_ns[row];
    const int64_t duration_ns = slices.duration_ns[row];
    const int64_t self_ns = slices.self_ns[row];
    const int32_t parent = slices.parent[row];
    sound &= start_ns >= before_ns && start_ns <= latest_ns;
    sound &= self_ns >= 0 && self_ns <= duration_ns;
    sound &= wrapping_sum(start_ns, duration_ns) <= latest_ns;
    sound &= wrapping_sum(start_ns, duration_ns) >= start_ns;
    const bool has_parent = is_before(parent, row);
    sound &= has_parent || parent == -1;
    sound &= slices.depth[row] == (has_parent ? int64_t{slices.depth[parent]} + 1 : 0);
    before_ns = start_ns;
  }
  return sound;
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

std::vector<int64_t> covered_before(std::span<const int64_t> start_ns,
                                    std::span<const int64_t> end_ns,
                                    std::span<const int64_t> time_ns) {
  std::vector<int64_t> covered(time_ns.size());
  std::vector<int64_t> before(start_ns.size() + 1);
  for (size_t i = 0; i < start_ns.size(); ++i) before[i + 1] = before[i] + end_ns[i] - start_ns[i];
  size_t at = 0;  // intervals that start no later than the moment
  for (size_t i = 0; i < time_ns.size(); ++i) {
    const int64_t time = time_ns[i];
    // Moments mostly ascend slowly: look at the place of the one before first.
    const bool near = (at == 0 || start_ns[at - 1] <= time) &&
                      (at + 2 >= start_ns.size() || start_ns[at + 2] > time);
    if (near) {
      while (at < start_ns.size() && start_ns[at] <= time) ++at;
    } else {
      at = static_cast<size_t>(std::upper_bound(start_ns.begin(), start_ns.end(), time) -
                               start_ns.begin());
    }
    if (at > 0) covered[i] = before[at - 1] + std::min(time, end_ns[at - 1]) - start_ns[at - 1];
  }
  return covered;
}

Moments part_moments(const PartSlices& slices, std::span<const int64_t> rows, int8_t outside) {
  PartRuns runs(outside);
  const auto part_of = [&](int32_t row) { return row < 0 ? outside : slices.part[row]; };
  // What is open, the first to end on top; of those that end together, the innermost.
  using Open = std::tuple<int64_t, int32_t, size_t>;
  std::priority_queue<Open, std::vector<Open>, std::greater<>> open;
  const auto end_until = [&](int64_t time) {
    for (; !open.empty() && std::get<0>(open.top()) <= time; open.pop()) {
      const auto& [end, outwards, row] = open.top();
      runs.change(end, part_of(slices.parent[row]));
    }
  };
  for (const int64_t number : rows) {
    const auto row = static_cast<size_t>(number);
    const int64_t start = slices.start_ns[row];
    end_until(start);
    runs.change(start, slices.part[row]);
    open.emplace(start + slices.duration_ns[row], -slices.depth[row], row);
  }
  end_until(std::numeric_limits<int64_t>::max());
  return std::move(runs.moments);
}

std::vector<int64_t> present(std::span<const uint32_t> numbers) {
  uint32_t most = 0;
  for (const uint32_t number : numbers) most = std::max(most, number);
  std::vector<uint8_t> seen(numbers.empty() ? 0 : size_t{most} + 1);
  for (const uint32_t number : numbers) seen[number] = 1;
  std::vector<int64_t> numbers_present;
  for (size_t i = 0; i < seen.size(); ++i) {
    if (seen[i]) numbers_present.push_back(static_cast<int64_t>(i));
  }
  return numbers_present;
}

Paths paths(const PathRows& rows, int64_t first) {
  Paths out;
  out.node.assign(rows.around.size(), -1);
  PathTable table;
  for (const int64_t number : rows.rows) {
    const auto row = static_cast<size_t>(number);
    const int32_t around = rows.around[row];
    const int64_t above = around < 0 ? rows.base[row] : out.node[static_cast<size_t>(around)];
    const auto next = static_cast<int64_t>(out.parent.size());
    const int64_t place = table.find_or_add(above, rows.code[row], next);
    if (place == next) {
      out.parent.push_back(above);
      out.code.push_back(rows.code[row]);
      out.row.push_back(number);
    }
    out.node[row] = first + place;
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
