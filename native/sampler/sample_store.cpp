#include "sampler/sample_store.h"

namespace stepscope {

SampleStore::SampleStore(size_t limit_bytes, bool keep_newest, int64_t age_ns)
    : limit_bytes_(limit_bytes), keep_newest_(keep_newest), age_ns_(age_ns) {}

// Blocks are full but for the last, so that a place tells the block.
int64_t SampleStore::add(const Sample& sample) {
  if (end_ % kBlockSamples == 0) {
    while (age_ns_ && !blocks_.empty() &&
           blocks_.front()[kBlockSamples - 1].time_ns < sample.time_ns - age_ns_) {
      drop_oldest_block();
    }
    if (!make_room()) {
      ++lost_;
      return kNowhere;
    }
  }
  blocks_.back()[static_cast<size_t>(end_ % kBlockSamples)] = sample;
  return end_++;
}

Sample* SampleStore::at(int64_t place) {
  if (place < begin_ || place >= end_) return nullptr;
  const auto block = static_cast<size_t>(place / kBlockSamples - begin_ / kBlockSamples);
  return &blocks_[block][static_cast<size_t>(place % kBlockSamples)];
}

bool SampleStore::make_room() {
  const size_t bytes = (blocks_.size() + 1) * kBlockSamples * sizeof(Sample) + other_bytes_;
  if (limit_bytes_ && bytes > limit_bytes_) {
    if (!keep_newest_ || blocks_.empty()) return false;
    drop_oldest_block();
    lost_ += kBlockSamples;
  }
  blocks_.push_back(std::make_unique<Sample[]>(kBlockSamples));
  return true;
}

void SampleStore::drop_oldest_block() {
  blocks_.pop_front();
  begin_ += kBlockSamples;
}

std::vector<Sample> SampleStore::take() {
  std::vector<Sample> all;
  all.reserve(size());
  for (int64_t place = begin_; place < end_; ++place) all.push_back(*at(place));
  blocks_.clear();
  begin_ = end_;
  return all;
}

}  // namespace stepscope
