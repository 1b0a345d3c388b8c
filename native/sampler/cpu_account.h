// How much of the time between two looks a thread was running.
//
// A look says what a thread does now. That it ran for all of the time until the next look is right
// on average as long as looks come at random. Where all cores are busy, the thread loses its core
// now and then, and we come late. Its CPU clock knows better: no more running time is given to
// looks than it has counted, and what looks did not get so far, later ones get.
#pragma once

#include <algorithm>
#include <cstdint>

namespace stepscope {

class CpuAccount {
 public:
  struct Split {
    int64_t first_ns = 0;  // it ran after the first look
    int64_t next_ns = 0;   // it ran before the next look, and not after the first
    int64_t rest_ns = 0;   // it did not run
  };

  // The time between two looks; of each, whether the thread was computing, with or without a core.
  Split split(bool first_computes, bool next_computes, int64_t passed_ns, int64_t used_ns) {
    owed_ns_ += used_ns;
    const int64_t ran_ns = std::clamp<int64_t>(owed_ns_, 0, passed_ns);
    Split split;
    if (first_computes) {
      const bool is_short = passed_ns - ran_ns <= std::max(passed_ns / 8, kShortNs);
      split.first_ns = is_short ? passed_ns : ran_ns;
    } else if (next_computes) {
      split.next_ns = std::max<int64_t>(ran_ns - kTimelyNs, 0);
    }
    const int64_t given_ns = split.first_ns + split.next_ns;
    split.rest_ns = passed_ns - given_ns;
    const int64_t most_ns = kMostOwed * std::max(passed_ns, kShortNs);
    owed_ns_ = std::clamp(owed_ns_ - given_ns, -passed_ns, most_ns);
    return split;
  }

 private:
  static constexpr int64_t kShortNs = 100'000;     // not worth a sample of its own
  static constexpr int64_t kTimelyNs = 2'000'000;  // a look after a wait that is not late
  static constexpr int64_t kMostOwed = 8;          // times the last interval

  int64_t owed_ns_ = 0;
};

}  // namespace stepscope
