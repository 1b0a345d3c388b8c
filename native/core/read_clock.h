// The system's clocks in ns, whatever clock is recorded with.
#pragma once

#include <cstdint>
#include <ctime>

namespace stepscope {

inline int64_t in_ns(const timespec& time) {
  return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

inline int64_t read_clock(clockid_t clock) {
  timespec now;
  clock_gettime(clock, &now);
  return in_ns(now);
}

inline int64_t monotonic_ns() { return read_clock(CLOCK_MONOTONIC); }

// The CPU time that the calling thread has used.
inline int64_t own_cpu_ns() { return read_clock(CLOCK_THREAD_CPUTIME_ID); }

}  // namespace stepscope
