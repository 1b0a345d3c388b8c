// A sample of the memory that is in use: blocks as they come and go.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

namespace stepscope {

struct HeldBlock {
  int64_t time_ns = 0;
  int64_t duration_ns = 0;
  int64_t bytes = 0;  // that it stands for
  uint32_t thread = 0;
  uint32_t stack = 0;
  uint32_t device = 0;  // a word
  uint8_t is_held = 1;  // when the recording stopped
};

class HeldBlocks {
 public:
  void allocated(uint64_t address, const HeldBlock& block) {
    live_.insert_or_assign(address, block);
  }

  // False if the block was not sampled.
  bool released(uint64_t address, int64_t now_ns) {
    const auto entry = live_.find(address);
    if (entry == live_.end()) return false;
    HeldBlock block = entry->second;
    live_.erase(entry);
    block.duration_ns = now_ns - block.time_ns;
    block.is_held = 0;
    if (block.duration_ns < kShortLifeNs) return true;
    released_.push_back(block);
    if (released_.size() >= kMostReleased) thin_out();
    return true;
  }

  // The blocks that were held for some time, and those that still are at `until_ns`.
  std::vector<HeldBlock> all(int64_t until_ns) const {
    std::vector<HeldBlock> blocks = released_;
    for (const auto& [address, block] : live_) {
      blocks.push_back(block);
      blocks.back().duration_ns = until_ns - block.time_ns;
    }
    return blocks;
  }

 private:
  // A block that is released sooner has no part in memory growth.
  static constexpr int64_t kShortLifeNs = 250'000'000;
  // At this number of released blocks, every other one is dropped, and the rest stand for twice as
  // many bytes: a larger sample shows nothing more.
  static constexpr size_t kMostReleased = size_t{1} << 16;
  static constexpr int64_t kMostBytes = INT64_MAX / 2;

  void thin_out() {
    size_t count = 0;
    for (size_t i = 0; i < released_.size(); i += 2) {
      released_[count] = released_[i];
      released_[count++].bytes = 2 * std::min(released_[i].bytes, kMostBytes);
    }
    released_.resize(count);
  }

  std::unordered_map<uint64_t, HeldBlock> live_;
  std::vector<HeldBlock> released_;
};

}  // namespace stepscope
