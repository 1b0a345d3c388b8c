// Tests which allocated blocks the sample of held memory keeps.
#include <doctest/doctest.h>

#include <cstdint>
#include <vector>

#include "core/held_blocks.h"

using namespace stepscope;

namespace {

constexpr int64_t kSecondNs = 1'000'000'000;

HeldBlock block(int64_t time_ns, int64_t bytes) {
  HeldBlock made;
  made.time_ns = time_ns;
  made.bytes = bytes;
  return made;
}

TEST_CASE("what is given back soon is forgotten") {
  HeldBlocks blocks;
  blocks.allocated(1, block(0, 8));
  blocks.allocated(2, block(0, 8));
  blocks.allocated(3, block(0, 8));
  CHECK(blocks.released(1, kSecondNs / 10));
  CHECK(blocks.released(2, kSecondNs));
  CHECK_FALSE(blocks.released(4, kSecondNs));
  std::vector<HeldBlock> all = blocks.all(2 * kSecondNs);
  REQUIRE_EQ(all.size(), 2);
  CHECK_EQ(all[0].duration_ns, kSecondNs);
  CHECK_EQ(all[0].is_held, 0);
  CHECK_EQ(all[1].duration_ns, 2 * kSecondNs);
  CHECK_EQ(all[1].is_held, 1);
}

TEST_CASE("of many that were given back, some stand for all") {
  HeldBlocks blocks;
  constexpr int64_t kMany = 100'000;
  for (int64_t i = 0; i < kMany; ++i) {
    blocks.allocated(1, block(i * kSecondNs, 8));
    blocks.released(1, (i + 1) * kSecondNs);
  }
  const std::vector<HeldBlock> all = blocks.all(kMany * kSecondNs);
  CHECK_LT(all.size(), kMany);
  int64_t bytes = 0;
  for (const HeldBlock& block : all) bytes += block.bytes;
  CHECK_EQ(bytes, 8 * kMany);
}

}  // namespace
