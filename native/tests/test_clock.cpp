// The clock: set by hand it is exact; on the machine it never runs backwards.
#include "check.h"
#include "core/clock.h"

using namespace stepscope;

namespace {

void manual_time_moves_by_ticks_and_by_hand() {
  Clock::use_manual(1'000, 10);
  CHECK_EQ(Clock::now_ns(), 1'000);
  CHECK_EQ(Clock::ticks(), 1'010U);
  Clock::advance_manual(5'000);
  CHECK_EQ(Clock::now_ns(), 6'020);
  CHECK_EQ(Clock::wall_offset_ns(), 0);
  Clock::use_system();
}

void manual_ticks_are_ns() {
  Clock::use_manual(0, 0);
  TickMap map;
  map.add_if_due();
  const TickMap closed = map.closed();
  for (const uint64_t ticks : {0UL, 1UL, 123'456'789'012UL}) {
    CHECK_EQ(closed.ns(ticks), static_cast<int64_t>(ticks));
  }
  Clock::use_system();
}

void ticks_become_the_ns_of_the_same_moment() {
  TickMap map;
  const int64_t before_ns = Clock::now_ns();
  const uint64_t ticks = Clock::ticks();
  const int64_t after_ns = Clock::now_ns();
  const int64_t ns = map.closed().ns(ticks);
  const int64_t slack_ns = 20'000;  // two clocks, read one after the other
  CHECK(before_ns - slack_ns <= ns && ns <= after_ns + slack_ns);
}

void ns_never_run_backwards() {
  TickMap map;
  std::vector<uint64_t> ticks;
  for (int i = 0; i < 100'000; ++i) ticks.push_back(Clock::ticks());
  const TickMap closed = map.closed();
  int64_t last_ns = INT64_MIN;
  bool ascending = true;
  for (const uint64_t tick : ticks) {
    const int64_t ns = closed.ns(tick);
    ascending = ascending && ns >= last_ns;
    last_ns = ns;
  }
  CHECK(ascending);
}

// Three lines of different slopes: each tick by its own line, the first and last go on outside.
void times_between_points_lie_between_their_times() {
  TickMap map;
  const uint64_t early = Clock::ticks();
  const int64_t wait_ns = 60'000'000;  // longer than the shortest base
  for (int point = 0; point < 2; ++point) {
    const int64_t until_ns = Clock::now_ns() + wait_ns;
    while (Clock::now_ns() < until_ns) {
    }
    map.add_if_due();
  }
  const int64_t now_ns = Clock::now_ns();
  const uint64_t late = Clock::ticks();
  const TickMap closed = map.closed();
  const int64_t apart_ns = closed.ns(late) - closed.ns(early);
  CHECK(apart_ns >= 2 * wait_ns - 100'000);
  CHECK(closed.ns(late) >= now_ns - 100'000);
  CHECK(closed.ns(0) < closed.ns(early));
}

}  // namespace

int main() {
  manual_time_moves_by_ticks_and_by_hand();
  manual_ticks_are_ns();
  ticks_become_the_ns_of_the_same_moment();
  ns_never_run_backwards();
  times_between_points_lie_between_their_times();
  return testing::result("clock");
}
