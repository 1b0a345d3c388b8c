// When the sampler looks next: at the wanted interval, or less often where that would cost more
// than its share of a core. Moments are spread at random, so that a program that does something
// every millisecond is not always met at the same place.
#pragma once

#include <algorithm>
#include <cstdint>

namespace stepscope {

class Pace {
 public:
  Pace(int64_t interval_ns, double budget) : wanted_ns_(interval_ns), budget_(budget) {}

  // How long to wait after the begin of a look that took so much CPU time.
  int64_t next_ns(int64_t cost_ns) {
    average_ns_ += (static_cast<double>(cost_ns) - average_ns_) / kMemory;
    interval_ns_ = std::max(wanted_ns_, static_cast<int64_t>(average_ns_ / budget_));
    random_ = random_ * 6364136223846793005ULL + 1442695040888963407ULL;
    const double part = static_cast<double>(random_ >> 11) * 0x1p-53;
    auto next_ns = static_cast<int64_t>(static_cast<double>(interval_ns_) * (0.5 + part));
    // What went beyond the budget before is saved now, at most half of the time.
    spare_ns_ += static_cast<double>(next_ns) * budget_ - static_cast<double>(cost_ns);
    spare_ns_ = std::min(spare_ns_, 0.0);
    const auto debt_ns = static_cast<int64_t>(-spare_ns_ / budget_);
    const int64_t longer_ns = std::min(debt_ns, interval_ns_);
    spare_ns_ += static_cast<double>(longer_ns) * budget_;
    next_ns += longer_ns;
    return next_ns;
  }

  int64_t interval_ns() const { return interval_ns_; }
  // Less often than wanted.
  bool is_stretched() const { return interval_ns_ > wanted_ns_; }

 private:
  static constexpr double kMemory = 16;

  const int64_t wanted_ns_;
  const double budget_;
  double average_ns_ = 0;
  double spare_ns_ = 0;  // CPU time of the budget that is left; negative when it was overdrawn
  int64_t interval_ns_ = 0;
  uint64_t random_ = 0x9E3779B97F4A7C15ULL;
};

}  // namespace stepscope
