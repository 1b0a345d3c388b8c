#include "perfetto/lanes.h"

#include <algorithm>

namespace stepscope::perfetto {

std::vector<uint8_t> crossing_slices(std::span<const int64_t> start_ns,
                                     std::span<const int64_t> duration_ns,
                                     std::span<const uint32_t> track,
                                     std::span<const int32_t> parent,
                                     std::span<const uint8_t> is_async) {
  constexpr uint32_t kNone = UINT32_MAX;
  const size_t rows = start_ns.size();
  std::vector<uint8_t> leaves(rows);
  // The latest slice that stays, of those with the same parent; below that, of each track's top.
  std::vector<uint32_t> latest(rows, kNone);
  uint32_t tracks = 0;
  for (const uint32_t number : track) tracks = std::max(tracks, number + 1);
  std::vector<uint32_t> latest_at_top(tracks, kNone);
  for (uint32_t row = 0; row < rows; ++row) {
    if (is_async[row] != 0) {
      leaves[row] = 1;
      continue;
    }
    const int32_t up = parent[row];
    const bool is_inside = up >= 0 && static_cast<uint32_t>(up) < row;
    uint32_t& before = is_inside ? latest[static_cast<uint32_t>(up)] : latest_at_top[track[row]];
    if (before == kNone || start_ns[before] + duration_ns[before] <= start_ns[row]) {
      before = row;
    } else if (duration_ns[row] > duration_ns[before]) {
      leaves[before] = 1;
      before = row;
    } else {
      leaves[row] = 1;
    }
  }
  return leaves;
}

Lanes::Lanes(size_t tracks, size_t slices, OnEnd on_end)
    : main_(tracks, kNone), extra_(tracks), lane_of_(slices, kNone), on_end_(std::move(on_end)) {}

uint32_t Lanes::new_lane(uint32_t track, bool is_extra, int64_t start_ns) {
  Lane lane;
  lane.track = track;
  lane.is_extra = is_extra;
  lane.last_ns = start_ns;
  lanes_.push_back(std::move(lane));
  return static_cast<uint32_t>(lanes_.size() - 1);
}

// Ends what is over by then, but not the slice `keep`, in which something else still starts.
void Lanes::end_until(uint32_t lane, int64_t time_ns, int32_t keep) {
  Lane& own = lanes_[lane];
  while (!own.open.empty() && own.open.back().end_ns <= time_ns &&
         static_cast<int64_t>(own.open.back().row) != keep) {
    const int64_t end_ns = own.open.back().end_ns;
    own.open.pop_back();
    own.last_ns = end_ns;
    on_end_(lane, end_ns);
  }
}

bool Lanes::fits_inside_parent(uint32_t lane, const PlacedSlice& slice) {
  if (lane == kNone || lanes_[lane].track != slice.track) return false;
  end_until(lane, slice.start_ns, slice.parent);
  const Lane& own = lanes_[lane];
  return !own.open.empty() && static_cast<int64_t>(own.open.back().row) == slice.parent &&
         slice.end_ns <= own.open.back().end_ns && slice.start_ns >= own.last_ns;
}

// The first extra lane of the track on which nothing runs.
uint32_t Lanes::extra_lane(const PlacedSlice& slice) {
  Extra& extra = extra_[slice.track];
  while (!extra.busy.empty() && extra.busy.top().first <= slice.start_ns) {
    extra.free.push(extra.busy.top().second);
    extra.busy.pop();
  }
  uint32_t lane = kNone;
  if (extra.free.empty()) {
    lane = new_lane(slice.track, true, slice.start_ns);
  } else {
    lane = extra.free.top();
    extra.free.pop();
    end_until(lane, slice.start_ns, -1);
  }
  extra.busy.emplace(slice.end_ns, lane);
  return lane;
}

uint32_t Lanes::put(uint32_t lane, const PlacedSlice& slice) {
  lanes_[lane].open.push_back({slice.row, slice.end_ns});
  lanes_[lane].last_ns = slice.start_ns;
  return lane_of_[slice.row] = lane;
}

uint32_t Lanes::place(const PlacedSlice& slice) {
  if (slice.is_extra) return put(extra_lane(slice), slice);
  if (slice.parent >= 0) {
    // A parent stands before its children.
    const auto parent = static_cast<uint32_t>(slice.parent);
    const uint32_t lane = parent < slice.row ? lane_of_[parent] : kNone;
    return put(fits_inside_parent(lane, slice) ? lane : extra_lane(slice), slice);
  }
  uint32_t& main = main_[slice.track];
  if (main == kNone) main = new_lane(slice.track, false, slice.start_ns);
  end_until(main, slice.start_ns, -1);
  const bool fits = lanes_[main].open.empty() && slice.start_ns >= lanes_[main].last_ns;
  return put(fits ? main : extra_lane(slice), slice);
}

void Lanes::finish() {
  for (uint32_t lane = 0; lane < lanes_.size(); ++lane) end_until(lane, INT64_MAX, -1);
}

}  // namespace stepscope::perfetto
