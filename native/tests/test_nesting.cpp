// Order, parents, depth and self time, compared with a slow and obvious computation of the same.
#include <doctest/doctest.h>

#include <random>

#include "core/nesting.h"
#include "stepscope/record.h"

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

TEST_CASE("children lie inside and self time is the rest") {
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

TEST_CASE("tracks do not mix") {
  Slices slices;
  slices.add(0, 100, 3);
  slices.add(10, 20, 7);
  CHECK((slices.nested().parent == Parents{-1, -1}));
}

TEST_CASE("what overlaps without enclosing is counted and no child") {
  Slices slices;
  slices.add(0, 10);
  slices.add(5, 20);
  slices.add(6, 8);
  const Nesting nesting = slices.nested();
  CHECK((nesting.parent == Parents{-1, -1, 1}));
  CHECK_EQ(nesting.overlaps, 1U);
  CHECK((nesting.outlasted == std::vector<uint32_t>{0}));
  CHECK((nesting.outlasting == std::vector<uint32_t>{1}));
}

TEST_CASE("no moment is the own time of two slices that overlap") {
  Slices slices;
  slices.add(0, 100);
  slices.add(0, 60);
  slices.add(50, 90);
  slices.add(55, 70);
  CHECK((slices.nested().self_ns == Times{10, 50, 25, 15}));
}

TEST_CASE("tasks enclose their own and the outside encloses all") {
  Slices slices;
  slices.add(0, 100);
  slices.add(10, 50, 0, 1);
  slices.add(20, 60, 0, 2);
  slices.add(30, 40, 0, 1);
  slices.add(35, 45, 0, 2);
  CHECK((slices.nested().parent == Parents{-1, 0, 0, 1, 2}));
}

TEST_CASE("a slice that ended elsewhere stands alone") {
  Slices slices;
  slices.add(0, 100);
  slices.add(10, 50, 0, 0, kAsync);
  slices.add(20, 30);
  const Nesting nesting = slices.nested();
  CHECK((nesting.parent == Parents{-1, -1, 0}));
  CHECK((nesting.self_ns == Times{90, 40, 10}));
}

TEST_CASE("nothing gives nothing") {
  const Nesting nesting = Slices{}.nested();
  CHECK(nesting.parent.empty());
  CHECK(nesting.self_ns.empty());
}

TEST_CASE("sorted slices need no order and others get a stable one") {
  CHECK(!slice_order(Times{0, 0, 5}, Times{9, 3, 1}));
  CHECK(!slice_order(Times{1, 1, 1}, Times{2, 2, 2}));
  CHECK(!slice_order(Times{}, Times{}));
  const auto order = slice_order(Times{5, 0, 0, 5}, Times{1, 3, 9, 1});
  CHECK((order && *order == std::vector<uint32_t>{2, 1, 0, 3}));
}

// Deep and wide on one track, one inside the other: the last that lasts long enough is the parent.
TEST_CASE("random trees are found again") {
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

TEST_CASE("a hundred thousand deep is no recursion") {
  Slices slices;
  constexpr int64_t kDeep = 100'000;
  for (int64_t i = 0; i < kDeep; ++i) slices.add(i, 2 * kDeep - i);
  CHECK_EQ(slices.nested().depth.back(), kDeep - 1);
}

}  // namespace
