// How much of the time between two looks a thread was running.
//
// A look says what a thread does now. That it ran for all of the time until the next look is right
// on average as long as looks come at random; but where all cores are busy, we are late when the
// thread, too, has no core. Its CPU clock knows better: no more running time is given to samples
// than it has counted, and what samples did not get so far, later ones get.
#pragma once

#include <algorithm>
#include <cstdint>

namespace stepscope {

class CpuAccount {
 public:
  struct Split {
    int64_t running_ns = 0;
    int64_t waiting_ns = 0;
  };

  // The time since the last look, at which the thread was running or not, and the CPU time that it
  // has used since.
  Split split(bool was_running, int64_t passed_ns, int64_t used_ns) {
    owed_ns_ += used_ns;
    Split split{0, passed_ns};
    if (was_running) {
      split.running_ns = std::clamp<int64_t>(owed_ns_, 0, passed_ns);
      split.waiting_ns = passed_ns - split.running_ns;
      if (split.waiting_ns <= std::max(passed_ns / 8, kShortNs)) split = {passed_ns, 0};
      owed_ns_ -= split.running_ns;
    }
    owed_ns_ = std::clamp(owed_ns_, -passed_ns, kMostOwed * std::max(passed_ns, kShortNs));
    return split;
  }

  // Whether it has used CPU time that no sample stands for.
  bool is_owed() const { return owed_ns_ > 0; }

 private:
  static constexpr int64_t kShortNs = 100'000;  // not worth a sample of its own
  static constexpr int64_t kMostOwed = 8;       // times the last interval

  int64_t owed_ns_ = 0;
};

}  // namespace stepscope
