// The clock of a recording: CLOCK_MONOTONIC in ns for whoever reads it, the processor's own counter
// on the hot path (reading the first stalls the pipeline for hundreds of ns inside a real program),
// and a manual clock under test.
#pragma once

#include <cstdint>
#include <vector>

#include "core/shared_state.h"

namespace stepscope {

class Clock {
 public:
  // What the hot path records; a TickMap turns it into ns.
  static uint64_t ticks() {
    if (shared_state.clock.load(std::memory_order_relaxed) == ClockSource::kCounter) [[likely]]
      return counter_ticks();
    return static_cast<uint64_t>(now_ns());
  }

  static int64_t now_ns();

  // Unix time less now_ns().
  static int64_t wall_offset_ns();

  // Roughly how many ticks pass in `seconds`.
  static uint64_t ticks_in(double seconds);

  static bool ticks_are_ns() { return shared_state.clock.load() != ClockSource::kCounter; }

  // From now on every reading returns the next of start, start + tick, start + 2 tick...
  static void use_manual(int64_t start_ns, int64_t tick_ns);
  static void advance_manual(int64_t by_ns);
  static void use_system();
};

struct SyncPoint {
  uint64_t ticks = 0;
  int64_t ns = 0;
  static SyncPoint now();
};

// Ticks to ns by straight lines between the points where both clocks were read together.
class TickMap {
 public:
  // Points closer together make a poor slope.
  static constexpr int64_t kShortestBaseNs = 50'000'000;
  // No machine runs for 73 years; sums of two such times are whole numbers still.
  static constexpr int64_t kLatestNs = INT64_MAX / 4;

  // Starts with a point taken when the program loaded us: a long base makes a true slope.
  TickMap();

  // A point too close to the one before is left out.
  void add_if_due();
  // Drops points that no moment from `ticks` on needs.
  void forget_before(uint64_t ticks);
  // The map as of now, with this moment as its last point.
  TickMap closed() const;

  int64_t ns(uint64_t ticks) const;

  // Through given points, at least two of them, in the order of time, none later than kLatestNs.
  explicit TickMap(std::vector<SyncPoint> points);
  // The first point of every map of this process.
  static SyncPoint loaded();

 private:
  std::vector<SyncPoint> points_;
  bool identity_;
};

}  // namespace stepscope
