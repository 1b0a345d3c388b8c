// Samples in the order of time, in a bounded amount of memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "sampler/sample.h"

namespace stepscope {

class SampleStore {
 public:
  static constexpr int64_t kNowhere = -1;

  // At the limit (0: none), the oldest samples are dropped, or new ones are refused. With an age,
  // samples older than the newest by that much are dropped, and not counted as lost.
  SampleStore(size_t limit_bytes, bool keep_newest, int64_t age_ns = 0);

  // Returns its place, kNowhere when it was not taken.
  int64_t add(const Sample& sample);

  // Null when it is not here, or no longer.
  Sample* at(int64_t place);

  // Memory that others take of the same limit.
  void set_other_bytes(size_t bytes) { other_bytes_ = bytes; }

  // Places of the first that is here, and behind the last.
  int64_t begin() const { return begin_; }
  int64_t end() const { return end_; }
  int64_t lost() const { return lost_; }
  size_t size() const { return static_cast<size_t>(end_ - begin_); }
  std::vector<Sample> take();

 private:
  static constexpr int64_t kBlockSamples = 512;

  bool make_room();
  void drop_oldest_block();

  const size_t limit_bytes_;
  const bool keep_newest_;
  const int64_t age_ns_;
  size_t other_bytes_ = 0;
  int64_t begin_ = 0;  // the place of the first that is still here
  int64_t end_ = 0;
  int64_t lost_ = 0;
  std::deque<std::unique_ptr<Sample[]>> blocks_;
};

}  // namespace stepscope
