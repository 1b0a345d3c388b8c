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

TEST_CASE("only marked rows hold others of their key") {
  const std::vector<uint32_t> key{1, 2, 1, 1, 3, 3};
  CHECK((inside_same(kParent, key, Flags{1, 1, 1, 1, 0, 1}) == Flags{0, 0, 1, 1, 0, 0}));
}

TEST_CASE("a moment belongs to the first row of its key") {
  const Uncovered found = uncovered(Times{0, 0, 1, 0}, 2, Times{0, 5, 6, 9}, Times{8, 7, 9, 12});
  CHECK((found.from_ns == Times{0, 7, 6, 9}));
  CHECK((found.outermost == Flags{1, 0, 1, 1}));
}

TEST_CASE("what nests is at its depth, what overlaps on the next free line") {
  const Times start{0, 1, 5, 6, 20, 21};
  const Times duration{10, 2, 10, 1, 5, 1};
  const std::vector<uint32_t> track{0, 0, 0, 0, 0, 1};
  CHECK((lanes(start, duration, track, Rows{-1, 0, -1, 2, -1, -1}) == Rows{0, 1, 1, 2, 0, 0}));
}

}  // namespace
