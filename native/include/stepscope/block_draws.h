// Chooses which blocks of memory a sample contains: on average one allocated byte in `interval` is
// drawn at random. So large blocks are nearly always sampled, and one of many small blocks
// represents the others.
//
// Several threads may draw at once, without a lock: a lost update moves the next draw by a block.
#pragma once

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstddef>
#include <cstdint>

namespace stepscope {

class BlockDraws {
 public:
  void start(uint64_t seed) {
    random_.store(seed | 1, std::memory_order_relaxed);
    interval_.store(kLeastInterval, std::memory_order_relaxed);
    draw();
  }
  void stop() { bytes_to_next_.store(kNever, std::memory_order_relaxed); }

  bool is_drawn(size_t bytes) {
    const int64_t left =
        bytes_to_next_.load(std::memory_order_relaxed) - static_cast<int64_t>(bytes);
    bytes_to_next_.store(left, std::memory_order_relaxed);
    return left < 0;
  }

  // The number of bytes that a drawn block represents; the next block is drawn at `now_ns`.
  int64_t weight_of(size_t bytes, int64_t now_ns) {
    const auto interval = static_cast<double>(interval_.load(std::memory_order_relaxed));
    adapt(now_ns);
    draw();
    const auto size = static_cast<double>(bytes);
    return static_cast<int64_t>(size / -std::expm1(-size / interval));
  }

 private:
  static constexpr int64_t kNever = INT64_MAX;
  static constexpr int64_t kLeastInterval = int64_t{1} << 17;
  static constexpr int64_t kLargestInterval = int64_t{1} << 32;
  // A sample costs some µs, so 500 of them in a second cost less than 0.5 % of a core.
  static constexpr uint32_t kDrawsInTurn = 64;
  static constexpr int64_t kTurnNs = 128'000'000;

  // Aims at the same number of samples in every turn, whatever the program allocates.
  void adapt(int64_t now_ns) {
    const uint32_t drawn = drawn_.fetch_add(1, std::memory_order_relaxed);
    if (drawn % kDrawsInTurn) return;
    const int64_t took_ns = now_ns - turn_ns_.exchange(now_ns, std::memory_order_relaxed);
    const double factor =
        std::clamp(static_cast<double>(kTurnNs) / static_cast<double>(took_ns + 1), 0.5, 2.0);
    const auto interval = static_cast<double>(interval_.load(std::memory_order_relaxed)) * factor;
    interval_.store(std::clamp(static_cast<int64_t>(interval), kLeastInterval, kLargestInterval),
                    std::memory_order_relaxed);
  }

  void draw() {
    uint64_t random = random_.load(std::memory_order_relaxed);
    random ^= random << 13;  // xorshift: high quality is not needed
    random ^= random >> 7;
    random ^= random << 17;
    random_.store(random, std::memory_order_relaxed);
    const double uniform = (static_cast<double>(random >> 11) + 1) / 9007199254740993.0;
    const auto interval = static_cast<double>(interval_.load(std::memory_order_relaxed));
    bytes_to_next_.store(static_cast<int64_t>(-std::log(uniform) * interval),
                         std::memory_order_relaxed);
  }

  std::atomic<int64_t> bytes_to_next_{kNever};
  std::atomic<int64_t> interval_{kLeastInterval};
  std::atomic<uint64_t> random_{1};
  std::atomic<uint32_t> drawn_{0};
  std::atomic<int64_t> turn_ns_{0};
};

}  // namespace stepscope
