// Wraps torch's CPU allocator while memory is recorded: all blocks, or a sample of them.
#pragma once

#include <c10/core/Allocator.h>

#include <atomic>
#include <chrono>
#include <cstdint>

#include "bridge_state.h"
#include "stepscope/block_draws.h"

namespace stepscope {
namespace {

BlockDraws block_draws;

// Lives as long as the process: a tensor remembers the allocator that it came from.
class CpuAllocator final : public c10::Allocator {
 public:
  static constexpr uint8_t kNotesAll = 1;
  static constexpr uint8_t kSamples = 2;

  c10::DataPtr allocate(size_t bytes) override {
    c10::DataPtr data = inner()->allocate(bytes);
    const uint8_t mode = mode_.load(std::memory_order_relaxed);
    if (mode & kSamples && block_draws.is_drawn(bytes)) sample(data, bytes);
    if (mode & kNotesAll && may_take(data, &give_back)) {
      static_cast<void>(data.compare_exchange_deleter(&give_back_any, &give_back_sampled));
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
    if (mode & kSamples && !(mode_.load() & kSamples)) block_draws.start(counter_ticks());
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

  static int64_t now_ns() {
    return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
  }

  static c10::Allocator* inner() { return inner_.load(std::memory_order_relaxed); }

  // Replace the deleter to see the release. Only a block that is its own context can be identified
  // then.
  static bool may_take(c10::DataPtr& data, c10::DeleterFnPtr deleter) {
    return data.get() && data.get() == data.get_context() &&
           (data.get_deleter() == &give_back_any ||
            data.compare_exchange_deleter(inner()->raw_deleter(), deleter));
  }

  [[gnu::noinline, gnu::cold]] static void sample(c10::DataPtr& data, size_t bytes) {
    const int64_t weight = block_draws.weight_of(bytes, now_ns());
    if (!may_take(data, &give_back_any)) return;
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
