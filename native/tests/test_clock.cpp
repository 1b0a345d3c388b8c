// The clock: set by hand it is exact; on the machine it never runs backwards.
#include <doctest/doctest.h>

#include "core/clock.h"

using namespace stepscope;

namespace {

TEST_CASE("manual time moves by ticks and by hand") {
  Clock::use_manual(1'000, 10);
  CHECK_EQ(Clock::now_ns(), 1'000);
  CHECK_EQ(Clock::ticks(), 1'010U);
  Clock::advance_manual(5'000);
  CHECK_EQ(Clock::now_ns(), 6'020);
  CHECK_EQ(Clock::wall_offset_ns(), 0);
  Clock::use_system();
}

TEST_CASE("manual ticks are ns") {
  Clock::use_manual(0, 0);
  TickMap map;
  map.add_if_due();
  const TickMap closed = map.closed();
  for (const uint64_t ticks : {0UL, 1UL, 123'456'789'012UL}) {
    CHECK_EQ(closed.ns(ticks), static_cast<int64_t>(ticks));
  }
  Clock::use_system();
}

TEST_CASE("ticks become the ns of the same moment") {
  TickMap map;
  const int64_t before_ns = Clock::now_ns();
  const uint64_t ticks = Clock::ticks();
  const int64_t after_ns = Clock::now_ns();
  const int64_t ns = map.closed().ns(ticks);
  const int64_t slack_ns = 20'000;  // two clocks, read one after the other
  CHECK(before_ns - slack_ns <= ns);
  CHECK(ns <= after_ns + slack_ns);
}

TEST_CASE("ns never run backwards") {
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
TEST_CASE("times between points lie between their times") {
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

TEST_CASE("points that only a damaged file has still give a time") {
  const TickMap same({{5, 100}, {5, 200}});
  CHECK_EQ(same.ns(5), 100);
  const TickMap steep({{0, 0}, {1, TickMap::kLatestNs}});
  CHECK(steep.ns(INT64_MAX) >= TickMap::kLatestNs);
}

}  // namespace
