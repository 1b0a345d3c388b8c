// Lets one thread wait for the next moment to do something, or for being told to stop. A system
// call of its own: a condition variable takes twice as long, a thousand times a second.
#pragma once

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <climits>
#include <cstdint>
#include <ctime>

namespace stepscope {

class StopSignal {
 public:
  bool is_set() const { return set_.load(std::memory_order_acquire) != 0; }

  void set() {
    set_.store(1, std::memory_order_release);
    syscall(SYS_futex, &set_, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
  }

  void clear() { set_.store(0, std::memory_order_release); }

  // Until it is set, or CLOCK_MONOTONIC has come so far.
  void wait_until(int64_t time_ns) const {
    const timespec until{static_cast<time_t>(time_ns / 1'000'000'000),
                         static_cast<long>(time_ns % 1'000'000'000)};
    syscall(SYS_futex, &set_, FUTEX_WAIT_BITSET_PRIVATE, 0, &until, nullptr,
            FUTEX_BITSET_MATCH_ANY);
  }

 private:
  std::atomic<uint32_t> set_{0};
};

}  // namespace stepscope
