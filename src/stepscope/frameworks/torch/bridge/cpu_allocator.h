// Wraps torch's CPU allocator while memory is recorded: all blocks, or a sample of them.
#pragma once

#include <c10/core/Allocator.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdint>

#include "bridge_state.h"

namespace stepscope {
namespace {

// Chooses the blocks to sample: on average one allocated byte in `interval` is drawn at random. So
// large blocks are nearly always sampled, and one of many small blocks represents the others.
class BlockDraws {
 public:
  static void reset() { interval_.store(kFirstInterval, std::memory_order_relaxed); }

  bool is_drawn(size_t bytes) {
    bytes_to_next_ -= static_cast<int64_t>(bytes);
    return bytes_to_next_ < 0;
  }

  // The number of bytes that a drawn block represents; 0 if the thread has only just begun.
  int64_t weight_of(size_t bytes) {
    const auto interval = static_cast<double>(interval_.load(std::memory_order_relaxed));
    const bool begins = random_ == 0;
    if (begins) random_ = (reinterpret_cast<uintptr_t>(this) ^ counter_ticks()) | 1;
    draw(interval);
    if (begins && !is_drawn(bytes)) return 0;
    if (begins) draw(interval);
    slow_down();
    const auto size = static_cast<double>(bytes);
    return static_cast<int64_t>(size / -std::expm1(-size / interval));
  }

 private:
  static constexpr int64_t kFirstInterval = int64_t{1} << 20;
  static constexpr int64_t kLastInterval = int64_t{1} << 32;
  // Otherwise a program that allocates without using its memory would be slowed down.
  static constexpr uint32_t kMany = 256;
  static constexpr std::chrono::milliseconds kSoon{128};

  void draw(double interval) {
    random_ ^= random_ << 13;  // xorshift: high quality is not needed
    random_ ^= random_ >> 7;
    random_ ^= random_ << 17;
    const double uniform = (static_cast<double>(random_ >> 11) + 1) / 9007199254740993.0;
    bytes_to_next_ = static_cast<int64_t>(-std::log(uniform) * interval);
  }

  void slow_down() {
    if (++drawn_ % kMany) return;
    const auto now = std::chrono::steady_clock::now();
    const int64_t interval = interval_.load(std::memory_order_relaxed);
    if (now - since_ < kSoon && interval < kLastInterval) {
      interval_.store(2 * interval, std::memory_order_relaxed);
    }
    since_ = now;
  }

  static inline std::atomic<int64_t> interval_{kFirstInterval};

  int64_t bytes_to_next_ = 0;
  uint64_t random_ = 0;
  uint32_t drawn_ = 0;
  std::chrono::steady_clock::time_point since_{};
};

thread_local BlockDraws my_draws __attribute__((tls_model("initial-exec")));

// Lives as long as the process: a tensor remembers the allocator that it came from.
class CpuAllocator final : public c10::Allocator {
 public:
  static constexpr uint8_t kNotesAll = 1;
  static constexpr uint8_t kSamples = 2;

  c10::DataPtr allocate(size_t bytes) override {
    c10::DataPtr data = inner()->allocate(bytes);
    const uint8_t mode = mode_.load(std::memory_order_relaxed);
    if (mode & kSamples && my_draws.is_drawn(bytes)) sample(data, bytes);
    if (mode & kNotesAll && may_take(data, &give_back)) {
      data.compare_exchange_deleter(&give_back_any, &give_back_sampled);
      note(data.get(), bytes);
    }
    return data;
  }
  c10::DeleterFnPtr raw_deleter() const override { return &give_back_any; }
  void copy_data(void* to, const void* from, size_t bytes) const override {
    inner()->copy_data(to, from, bytes);
  }

  // Record according to a mode from now on; 0 stops recording.
  void use(uint8_t mode) {
    if (mode & kSamples && !(mode_.load() & kSamples)) BlockDraws::reset();
    mode_.store(mode);
    c10::Allocator* const current = c10::GetAllocator(c10::DeviceType::CPU);
    if (mode && current != this && current->raw_deleter()) {
      inner_.store(current);
      c10::SetAllocator(c10::DeviceType::CPU, this, kPriority);
    } else if (!mode && current == this) {
      c10::SetAllocator(c10::DeviceType::CPU, inner(), kPriority);
    }
  }

 private:
  static constexpr uint8_t kPriority = 100;

  static c10::Allocator* inner() { return inner_.load(std::memory_order_relaxed); }

  // Replace the deleter to see the release. Only a block that is its own context can be identified
  // then.
  static bool may_take(c10::DataPtr& data, c10::DeleterFnPtr deleter) {
    return data.get() && data.get() == data.get_context() &&
           (data.get_deleter() == &give_back_any ||
            data.compare_exchange_deleter(inner()->raw_deleter(), deleter));
  }

  [[gnu::noinline, gnu::cold]] static void sample(c10::DataPtr& data, size_t bytes) {
    const int64_t weight = my_draws.weight_of(bytes);
    if (!weight || !may_take(data, &give_back_any)) return;
    core.block_sampled(data.get(), weight, static_cast<uint8_t>(c10::DeviceType::CPU), -1);
  }

  // A block that was allocated, or (0 bytes) is about to be released.
  static void note(const void* data, size_t bytes) {
    Lane* const lane = my_lane;
    const auto fill = [&](Record& record) {
      record.block = {reinterpret_cast<uintptr_t>(data), static_cast<int64_t>(bytes), kCpuDevice};
    };
    if (lane && lane->append(Kind::kBlock, fill)) return;
    if (!bytes) return core.released(data);
    core.allocated(data, bytes, static_cast<uint8_t>(c10::DeviceType::CPU), -1);
  }

  static void give_back(void* data) {
    if (data) note(data, 0);
    inner()->raw_deleter()(data);
  }

  // A release of a block that was noted, and sampled as well.
  static void give_back_sampled(void* data) {
    if (data && mode_.load(std::memory_order_relaxed) & kSamples) core.sampled_block_released(data);
    give_back(data);
  }

  // A release of a block that may have been sampled.
  static void give_back_any(void* data) {
    if (data && mode_.load(std::memory_order_relaxed) & kSamples) core.sampled_block_released(data);
    if (data && mode_.load(std::memory_order_relaxed) & kNotesAll) note(data, 0);
    inner()->raw_deleter()(data);
  }

  static inline std::atomic<c10::Allocator*> inner_{nullptr};
  static inline std::atomic<uint8_t> mode_{0};
};

CpuAllocator& cpu_allocator() {
  static auto* const only = new CpuAllocator;
  return *only;
}

}  // namespace
}  // namespace stepscope
