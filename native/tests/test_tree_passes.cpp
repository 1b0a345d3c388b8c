// Sums and lines over rows of slices, compared with what a reader would work out.
#include <doctest/doctest.h>

#include "core/tree_passes.h"

using namespace stepscope;

namespace {

using Rows = std::vector<int32_t>;
using Times = std::vector<int64_t>;
using Flags = std::vector<uint8_t>;

const Rows kParent{-1, 0, 1, 0, -1, 4};

TEST_CASE("values go to their places, and those without one nowhere") {
  const Rows place{2, 0, -1, 2, 7};
  const Times values{1, 10, 100, 1000, 10000};
  CHECK((summed_at<int32_t>(place, values, 3) == Times{10, 0, 1001}));
}

TEST_CASE("a row holds all that is below it") {
  CHECK((summed_up(kParent, Times{1, 2, 4, 8, 16, 32}) == Times{15, 6, 4, 8, 48, 32}));
}

TEST_CASE("a row without a value has that of the nearest around it") {
  CHECK((handed_down(kParent, Rows{-1, 5, -1, -1, 7, -1}) == Rows{-1, 5, 5, -1, 7, 7}));
}

TEST_CASE("a tree is sound when every rule holds in every row") {
  const Times start{0, 1, 2, 5, 9, 9}, duration{8, 3, 1, 2, 4, 0}, own{3, 2, 1, 2, 4, 0};
  const Rows depth{0, 1, 2, 1, 0, 1};
  const auto sound = [&](const Times& starts, const Times& durations, const Times& selves,
                         const Rows& parents, const Rows& depths) {
    return is_sound({starts, durations, selves, parents, depths}, 100);
  };
  CHECK(sound(start, duration, own, kParent, depth));
  CHECK(is_sound({}, 100));
  CHECK_FALSE(sound({0, 1, 2, 5, 4, 9}, duration, own, kParent, depth));
  CHECK_FALSE(sound({-101, 1, 2, 5, 9, 9}, duration, own, kParent, depth));
  CHECK_FALSE(sound({0, 1, 2, 5, 9, 101}, duration, own, kParent, depth));
  CHECK_FALSE(sound(start, {8, 3, 1, 2, 92, 0}, own, kParent, depth));
  CHECK_FALSE(sound(start, {8, 3, 1, 2, INT64_MAX, 0}, own, kParent, depth));
  CHECK_FALSE(sound(start, {8, 3, 1, 2, 4, -1}, own, kParent, depth));
  CHECK_FALSE(sound(start, duration, {3, 2, 1, 3, 4, 0}, kParent, depth));
  CHECK_FALSE(sound(start, duration, {3, 2, -1, 2, 4, 0}, kParent, depth));
  CHECK_FALSE(sound(start, duration, own, {-1, 0, 2, 0, -1, 4}, depth));
  CHECK_FALSE(sound(start, duration, own, {-1, 0, 1, 0, -2, 4}, depth));
  CHECK_FALSE(sound(start, duration, own, kParent, {0, 1, 2, 1, 0, 2}));
  CHECK_FALSE(sound(start, duration, own, kParent, {0, 1, 2, 1, -1, 0}));
}

TEST_CASE("only marked rows hold others of their key") {
  const std::vector<uint32_t> key{1, 2, 1, 1, 3, 3};
  CHECK((inside_same(kParent, key, Flags{1, 1, 1, 1, 0, 1}) == Flags{0, 0, 1, 1, 0, 0}));
}

TEST_CASE("a moment belongs to the first row of its key") {
  const Uncovered result = uncovered(Times{0, 0, 1, 0}, 2, Times{0, 5, 6, 9}, Times{8, 7, 9, 12});
  CHECK((result.from_ns == Times{0, 7, 6, 9}));
  CHECK((result.outermost == Flags{1, 0, 1, 1}));
}

TEST_CASE("what lies before a moment is found whatever the order of the moments") {
  const Times start{0, 20, 40, 60, 80};
  const Times end{10, 25, 45, 61, 90};
  CHECK((covered_before(start, end, Times{-1, 0, 5, 10, 22, 85, 30, 5, 100}) ==
         Times{0, 0, 5, 10, 12, 26, 15, 5, 31}));
  CHECK((covered_before(Times{}, Times{}, Times{3}) == Times{0}));
}

TEST_CASE("a thread is in the part of what started last, and of its parent after that") {
  const Times start{0, 2, 4, 10};
  const Times duration{8, 4, 2, 5};
  const std::vector<int8_t> part{1, 2, 2, 1};
  const Moments result = part_moments({start, duration, Rows{-1, 0, 1, -1}, Rows{0, 1, 2, 0}, part},
                                      Times{0, 1, 2, 3}, 9);
  CHECK((result.part == std::vector<int8_t>{1, 2, 1, 9, 1}));
  CHECK((result.start_ns == Times{0, 2, 6, 8, 10}));
  CHECK((result.end_ns == Times{2, 6, 8, 10, 15}));
}

TEST_CASE("distinct values ascend") {
  const Distinct result = distinct<int32_t>(Rows{5, 3, 5, 9}, 3, 9);
  CHECK((result.values == Times{3, 5, 9}));
  CHECK((result.codes == Times{1, 0, 1, 2}));
}

TEST_CASE("rows of one path share a node") {
  CHECK((present(std::vector<uint32_t>{7, 2, 7}) == Times{2, 7}));
  const Rows around{-1, 0, 0, -1, 3};
  const Paths result =
      paths({Times{0, 1, 2, 3, 4}, around, Times{0, 0, 0, 0, 0}, Times{5, 6, 6, 5, 7}}, 10);
  CHECK((result.node == Times{10, 11, 11, 10, 12}));
  CHECK((result.parent == Times{0, 10, 10}));
  CHECK((result.code == Times{5, 6, 7}));
  CHECK((result.row == Times{0, 1, 4}));
}

TEST_CASE("what nests is at its depth, what overlaps on the next free line") {
  const Times start{0, 1, 5, 6, 20, 21};
  const Times duration{10, 2, 10, 1, 5, 1};
  const std::vector<uint32_t> track{0, 0, 0, 0, 0, 1};
  CHECK((lanes(start, duration, track, Rows{-1, 0, -1, 2, -1, -1}) == Rows{0, 1, 1, 2, 0, 0}));
}

}  // namespace
