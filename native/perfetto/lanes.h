// Where slices go: Perfetto's tracks hold what nests, and nothing else.
#pragma once

#include <cstdint>
#include <functional>
#include <queue>
#include <span>
#include <utility>
#include <vector>

namespace stepscope::perfetto {

struct PlacedSlice {
  uint32_t row = 0;
  uint32_t track = 0;
  int32_t parent = -1;
  int64_t start_ns = 0;
  int64_t end_ns = 0;
  bool is_extra = false;  // see crossing_slices
};

// Which slices must leave their track so that what stays nests: of two that overlap the shorter
// one, with all that is inside of it. `is_async` marks those that leave anyway, because they go on
// while their thread does other things.
std::vector<uint8_t> crossing_slices(std::span<const int64_t> start_ns,
                                     std::span<const int64_t> duration_ns,
                                     std::span<const uint32_t> track,
                                     std::span<const int32_t> parent,
                                     std::span<const uint8_t> is_async);

// A lane holds slices that nest. Each track has one, and more for what overlaps without nesting.
struct Lane {
  struct Open {
    uint32_t row;
    int64_t end_ns;
  };

  uint32_t track = 0;
  bool is_extra = false;
  int64_t last_ns = 0;     // no event of the lane is earlier than the one before
  std::vector<Open> open;  // from the outermost in
};

class Lanes {
 public:
  // Called for each slice that ends before another begins on its lane, in the order of time.
  using OnEnd = std::function<void(uint32_t lane, int64_t end_ns)>;

  Lanes(size_t tracks, size_t slices, OnEnd on_end);

  // Slices come in the order of their starts. Returns the number of the lane, a new one when it is
  // as high as there were lanes before.
  uint32_t place(const PlacedSlice& slice);
  // Ends everything.
  void finish();

  const Lane& operator[](uint32_t lane) const { return lanes_[lane]; }
  size_t size() const { return lanes_.size(); }

 private:
  static constexpr uint32_t kNone = UINT32_MAX;
  using Busy = std::pair<int64_t, uint32_t>;  // until when, and the lane
  template <typename T>
  using SmallestFirst = std::priority_queue<T, std::vector<T>, std::greater<T>>;

  struct Extra {
    SmallestFirst<Busy> busy;
    SmallestFirst<uint32_t> free;
  };

  uint32_t new_lane(uint32_t track, bool is_extra, int64_t start_ns);
  uint32_t extra_lane(const PlacedSlice& slice);
  bool fits_inside_parent(uint32_t lane, const PlacedSlice& slice);
  void end_until(uint32_t lane, int64_t time_ns, int32_t keep);
  uint32_t put(uint32_t lane, const PlacedSlice& slice);

  std::vector<Lane> lanes_;
  std::vector<uint32_t> main_;     // of each track
  std::vector<Extra> extra_;       // of each track
  std::vector<uint32_t> lane_of_;  // of each slice
  OnEnd on_end_;
};

}  // namespace stepscope::perfetto
