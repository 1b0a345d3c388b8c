// Order, parents, depth and self time, beside a slow and obvious way to the same.
#include <random>

#include "check.h"
#include "core/nesting.h"
#include "stepscope/lane.h"

using namespace stepscope;

namespace {

struct Slices {
  std::vector<int64_t> start;
  std::vector<int64_t> duration;
  std::vector<uint32_t> track;
  std::vector<uint8_t> flags;
  std::vector<uint32_t> context;

  void add(int64_t from, int64_t to, uint32_t on = 0, uint32_t in = 0, uint8_t flag = 0) {
    start.push_back(from);
    duration.push_back(to - from);
    track.push_back(on);
    flags.push_back(flag);
    context.push_back(in);
  }
  Nesting nested() const { return nest({start, duration, track, flags, context}); }
};

using Parents = std::vector<int32_t>;
using Times = std::vector<int64_t>;

void children_lie_inside_and_self_time_is_the_rest() {
  Slices slices;
  slices.add(0, 100);
  slices.add(10, 40);
  slices.add(20, 30);
  slices.add(40, 100);
  slices.add(100, 120);
  const Nesting nesting = slices.nested();
  CHECK((nesting.parent == Parents{-1, 0, 1, 0, -1}));
  CHECK((nesting.depth == Parents{0, 1, 2, 1, 0}));
  CHECK((nesting.self_ns == Times{10, 20, 10, 60, 20}));
  CHECK_EQ(nesting.overlaps, 0U);
}

void tracks_do_not_mix() {
  Slices slices;
  slices.add(0, 100, 3);
  slices.add(10, 20, 7);
  CHECK((slices.nested().parent == Parents{-1, -1}));
}

void what_overlaps_without_enclosing_is_counted_and_no_child() {
  Slices slices;
  slices.add(0, 10);
  slices.add(5, 20);
  slices.add(6, 8);
  const Nesting nesting = slices.nested();
  CHECK((nesting.parent == Parents{-1, -1, 1}));
  CHECK_EQ(nesting.overlaps, 1U);
}

void tasks_enclose_their_own_and_the_outside_encloses_all() {
  Slices slices;
  slices.add(0, 100);
  slices.add(10, 50, 0, 1);
  slices.add(20, 60, 0, 2);
  slices.add(30, 40, 0, 1);
  slices.add(35, 45, 0, 2);
  CHECK((slices.nested().parent == Parents{-1, 0, 0, 1, 2}));
}

void a_slice_that_ended_elsewhere_stands_alone() {
  Slices slices;
  slices.add(0, 100);
  slices.add(10, 50, 0, 0, kAsync);
  slices.add(20, 30);
  const Nesting nesting = slices.nested();
  CHECK((nesting.parent == Parents{-1, -1, 0}));
  CHECK((nesting.self_ns == Times{90, 40, 10}));
}

void nothing_gives_nothing() {
  const Nesting nesting = Slices{}.nested();
  CHECK(nesting.parent.empty() && nesting.self_ns.empty());
}

void sorted_slices_need_no_order_and_others_get_a_stable_one() {
  CHECK(!slice_order(Times{0, 0, 5}, Times{9, 3, 1}));
  CHECK(!slice_order(Times{1, 1, 1}, Times{2, 2, 2}));
  CHECK(!slice_order(Times{}, Times{}));
  const auto order = slice_order(Times{5, 0, 0, 5}, Times{1, 3, 9, 1});
  CHECK((order && *order == std::vector<uint32_t>{2, 1, 0, 3}));
}

// Deep and wide on one track, one inside the other: the last that lasts long enough is the parent.
void random_trees_are_found_again() {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    Slices slices;
    Parents expected;
    std::vector<std::pair<int64_t, int32_t>> open{{1'000'000, -1}};
    int64_t now = 0;
    while (slices.start.size() < 300) {
      now += 1 + static_cast<int64_t>(random() % 50);
      while (open.back().first <= now) open.pop_back();
      const int64_t room = open.back().first - now;
      const int64_t lasts = 1 + static_cast<int64_t>(random() % 400);
      const int64_t end = now + std::min(room, lasts);
      expected.push_back(open.back().second);
      open.emplace_back(end, static_cast<int32_t>(slices.start.size()));
      slices.add(now, end);
    }
    const Nesting nesting = slices.nested();
    CHECK(nesting.parent == expected);
    CHECK_EQ(nesting.overlaps, 0U);
    Times self = slices.duration;
    for (size_t i = 0; i < expected.size(); ++i) {
      if (expected[i] >= 0) self[static_cast<size_t>(expected[i])] -= slices.duration[i];
    }
    CHECK(nesting.self_ns == self);
  }
}

void a_hundred_thousand_deep_is_no_recursion() {
  Slices slices;
  constexpr int64_t kDeep = 100'000;
  for (int64_t i = 0; i < kDeep; ++i) slices.add(i, 2 * kDeep - i);
  CHECK_EQ(slices.nested().depth.back(), kDeep - 1);
}

}  // namespace

int main() {
  children_lie_inside_and_self_time_is_the_rest();
  tracks_do_not_mix();
  what_overlaps_without_enclosing_is_counted_and_no_child();
  tasks_enclose_their_own_and_the_outside_encloses_all();
  a_slice_that_ended_elsewhere_stands_alone();
  nothing_gives_nothing();
  sorted_slices_need_no_order_and_others_get_a_stable_one();
  random_trees_are_found_again();
  a_hundred_thousand_deep_is_no_recursion();
  return testing::result("nesting");
}
