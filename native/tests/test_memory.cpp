// Blocks of memory: a release gives back what the block had, whatever else happened.
#include <random>
#include <unordered_map>
#include <vector>

#include "check.h"
#include "core/memory_blocks.h"
#include "recorded.h"

using namespace stepscope;
using namespace stepscope::testing;

namespace {

constexpr Device kCpu{};
constexpr Device kSecondGpu{1, 1};

void a_release_gives_back_what_the_block_had() {
  MemoryBlocks blocks;
  CHECK_EQ(blocks.add(64, 100, kCpu).in_use, 100);
  CHECK_EQ(blocks.add(128, 20, kCpu).in_use, 120);
  const MemoryBlocks::Change change = blocks.remove(64);
  CHECK_EQ(change.bytes, -100);
  CHECK_EQ(change.in_use, 20);
}

void an_unknown_block_is_no_change() {
  MemoryBlocks blocks;
  CHECK_EQ(blocks.remove(64).bytes, 0);
  blocks.add(64, 100, kCpu);
  CHECK_EQ(blocks.remove(65).bytes, 0);
  CHECK_EQ(blocks.remove(64).bytes, -100);
  CHECK_EQ(blocks.remove(64).bytes, 0);
}

void devices_are_counted_apart() {
  MemoryBlocks blocks;
  blocks.add(64, 100, kCpu);
  CHECK_EQ(blocks.add(128, 7, kSecondGpu).in_use, 7);
  CHECK_EQ(blocks.remove(64).in_use, 0);
  CHECK_EQ(blocks.remove(128).device.word(), kSecondGpu.word());
}

void an_address_that_comes_again_replaces_its_block() {
  MemoryBlocks blocks;
  blocks.add(64, 100, kCpu);
  CHECK_EQ(blocks.add(64, 30, kCpu).in_use, 30);
  CHECK_EQ(blocks.remove(64).in_use, 0);
}

void many_blocks_come_and_go() {
  MemoryBlocks blocks;
  std::unordered_map<uintptr_t, int64_t> expected;
  int64_t in_use = 0;
  std::mt19937_64 random(7);
  for (int i = 0; i < 200'000; ++i) {
    const uintptr_t address = (1 + random() % 5'000) * 64;
    const auto found = expected.find(address);
    if (found != expected.end()) {
      in_use -= found->second;
      const MemoryBlocks::Change change = blocks.remove(address);
      CHECK_EQ(change.bytes, -found->second);
      CHECK_EQ(change.in_use, in_use);
      expected.erase(found);
    } else {
      const auto bytes = static_cast<int64_t>(1 + random() % 1'000);
      in_use += bytes;
      CHECK_EQ(blocks.add(address, bytes, kCpu).in_use, in_use);
      expected[address] = bytes;
    }
  }
}

void a_window_sees_the_blocks_of_its_time() {
  Recorder::allocated(64, 1, kCpu);  // nobody records
  Window window;
  Recorder::released(64);  // not known
  Recorder::allocated(128, 20, kCpu);
  leave(enter("between"));
  Recorder::owned(128, 20, kCpu, 3);
  Recorder::released(128);
  const Snapshot seen = window.close();
  CHECK_EQ(names(seen).size(), 1U);
  CHECK_EQ(seen.memory.size(), 2U);
  CHECK_EQ(static_cast<int64_t>(seen.memory[0]->end_ticks), 20);
  CHECK_EQ(static_cast<int64_t>(seen.memory[1]->end_ticks), -20);
  CHECK_EQ(seen.memory[1]->sequence, 128);
  CHECK_EQ(seen.owners.size(), 1U);
  CHECK_EQ(seen.owners[0]->flags, 3U);
}

}  // namespace

int main() {
  a_release_gives_back_what_the_block_had();
  an_unknown_block_is_no_change();
  devices_are_counted_apart();
  an_address_that_comes_again_replaces_its_block();
  many_blocks_come_and_go();
  a_window_sees_the_blocks_of_its_time();
  return testing::result("memory");
}
