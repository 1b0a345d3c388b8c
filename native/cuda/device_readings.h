// What the samplers of devices have in common: a thread of their own, and the readings it keeps.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <mutex>
#include <vector>

#include "core/own_threads.h"
#include "core/read_clock.h"
#include "core/stream.h"
#include "cuda/readings.h"
#include "sampler/stop_signal.h"

namespace stepscope {

struct ReadingOptions {
  int64_t interval_ns;
  uint64_t limit_bytes;  // 0: no limit
  bool keep_newest;
  int64_t age_ns;  // older readings are dropped; 0: none
};

// `moment` is the field by which readings are ordered and age; `entry` is theirs in the stream.
template <typename Reading, int64_t Reading::* moment, Entry entry>
class DeviceReadings {
 public:
  std::vector<Reading> readings() const {
    const std::lock_guard lock(mutex_);
    return {readings_.begin(), readings_.end()};
  }
  uint64_t lost() const {
    const std::lock_guard lock(mutex_);
    return lost_;
  }
  int64_t cpu_ns() const { return cpu_ns_.load(std::memory_order_relaxed); }
  int64_t wall_ns() const { return wall_ns_.load(std::memory_order_relaxed); }

  void stop() {
    stop_.set();
    worker_.join();
  }

 protected:
  explicit DeviceReadings(const ReadingOptions& options) : options_(options) {}

  // The rest is for the thread.
  void keep(const Reading& reading) {
    const std::lock_guard lock(mutex_);
    while (options_.age_ns && !readings_.empty() &&
           readings_.front().*moment + options_.age_ns < reading.*moment) {
      readings_.pop_front();
    }
    const uint64_t most = options_.limit_bytes / sizeof(Reading);
    if (most && readings_.size() >= most) {
      ++lost_;
      if (!options_.keep_newest) return;
      readings_.pop_front();
    }
    readings_.push_back(reading);
    if (turn_.is_mine()) Stream::instance().note(entry, reading);
  }

  void set_times(int64_t wall_ns) {
    cpu_ns_.store(own_cpu_ns(), std::memory_order_relaxed);
    wall_ns_.store(wall_ns, std::memory_order_relaxed);
  }

  const ReadingOptions options_;
  mutable std::mutex mutex_;
  std::deque<Reading> readings_;
  StreamTurn<Reading> turn_;
  Worker worker_;
  StopSignal stop_;

 private:
  uint64_t lost_ = 0;
  std::atomic<int64_t> cpu_ns_{0};
  std::atomic<int64_t> wall_ns_{0};
};

}  // namespace stepscope
