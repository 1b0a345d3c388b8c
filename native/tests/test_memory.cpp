// Blocks of memory: a release gives back what the block had, whatever else happened.
#include <doctest/doctest.h>

#include <random>
#include <thread>
#include <unordered_map>
#include <vector>

#include "core/memory_blocks.h"
#include "recorded.h"

using namespace stepscope;
using namespace stepscope::testing;

namespace {

constexpr Device kCpu = kCpuDevice;
constexpr Device kSecondGpu{1, 1};

TEST_CASE("a release gives back what the block had") {
  MemoryBlocks blocks;
  CHECK_EQ(blocks.add(64, 100, kCpu).in_use, 100);
  CHECK_EQ(blocks.add(128, 20, kCpu).in_use, 120);
  const MemoryBlocks::Change change = blocks.remove(64);
  CHECK_EQ(change.bytes, -100);
  CHECK_EQ(change.in_use, 20);
}

TEST_CASE("an unknown block is no change") {
  MemoryBlocks blocks;
  CHECK_EQ(blocks.remove(64).bytes, 0);
  blocks.add(64, 100, kCpu);
  CHECK_EQ(blocks.remove(65).bytes, 0);
  CHECK_EQ(blocks.remove(64).bytes, -100);
  CHECK_EQ(blocks.remove(64).bytes, 0);
}

TEST_CASE("devices are counted apart") {
  MemoryBlocks blocks;
  blocks.add(64, 100, kCpu);
  CHECK_EQ(blocks.add(128, 7, kSecondGpu).in_use, 7);
  CHECK_EQ(blocks.remove(64).in_use, 0);
  CHECK_EQ(blocks.remove(128).device.word(), kSecondGpu.word());
}

TEST_CASE("an address that comes again replaces its block") {
  MemoryBlocks blocks;
  blocks.add(64, 100, kCpu);
  CHECK_EQ(blocks.add(64, 30, kCpu).in_use, 30);
  CHECK_EQ(blocks.remove(64).in_use, 0);
}

TEST_CASE("many blocks come and go") {
  MemoryBlocks blocks;
  std::unordered_map<uintptr_t, int64_t> expected;
  int64_t in_use = 0;
  std::mt19937_64 random(7);
  for (int i = 0; i < 200'000; ++i) {
    const uintptr_t address = (1 + random() % 5'000) * 64;
    const auto entry = expected.find(address);
    if (entry != expected.end()) {
      in_use -= entry->second;
      const MemoryBlocks::Change change = blocks.remove(address);
      CHECK_EQ(change.bytes, -entry->second);
      CHECK_EQ(change.in_use, in_use);
      expected.erase(entry);
    } else {
      const auto bytes = static_cast<int64_t>(1 + random() % 1'000);
      in_use += bytes;
      CHECK_EQ(blocks.add(address, bytes, kCpu).in_use, in_use);
      expected[address] = bytes;
    }
  }
}

TEST_CASE("a window sees the blocks of its time") {
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
  CHECK_EQ(seen.memory[0]->change.bytes, 20);
  CHECK_EQ(seen.memory[1]->change.bytes, -20);
  CHECK_EQ(seen.memory[1]->change.address, 128U);
  CHECK_EQ(seen.owners.size(), 1U);
  CHECK_EQ(seen.owners[0]->owner.owner, 3U);
}

TEST_CASE("a block may be released by another thread") {
  Window window;
  Recorder::allocated(64, 100, kCpu);
  std::thread([] {
    Recorder::released(64);
    Recorder::allocated(64, 7, kCpu);
  }).join();
  Recorder::released(64);
  const Snapshot seen = window.close();
  std::vector<int64_t> in_use;
  for (const Record* change : seen.memory) in_use.push_back(change->change.allocated);
  CHECK((in_use == std::vector<int64_t>{100, 0, 7, 0}));
}

TEST_CASE("a window counts what was there before it") {
  Window outer;
  Recorder::allocated(64, 100, kCpu);
  Window inner;
  Recorder::allocated(128, 20, kCpu);
  Recorder::released(64);
  const Snapshot seen = inner.close();
  CHECK_EQ(seen.memory.size(), 2U);
  CHECK_EQ(seen.memory[0]->change.allocated, 120);
  CHECK_EQ(seen.memory[1]->change.bytes, -100);
  CHECK_EQ(outer.close().memory.size(), 3U);
}

TEST_CASE("a block outlives its record") {
  Window window({32 * 1024, Keep::kNewest});
  Recorder::allocated(64, 100, kCpu);
  Recorder::allocated(128, 5, kCpu);
  Recorder::released(128);
  for (int i = 0; i < 5'000; ++i) leave(enter_operator("op"));
  Recorder::released(128);  // not known any more: it was released already
  Recorder::released(64);
  const Snapshot seen = window.close();
  CHECK(seen.lost > 0);
  CHECK_EQ(seen.memory.size(), 1U);
  CHECK_EQ(seen.memory[0]->change.bytes, -100);
  CHECK_EQ(seen.memory[0]->change.allocated, 0);
}

TEST_CASE("a block outlives its recording") {
  const auto begin = [] {
    Window window;
    Recorder::instance().remember_blocks();
    return window;
  };
  Window first = begin();
  Recorder::allocated(64, 100, kCpu);
  Recorder::allocated(128, 20, kCpu);
  Recorder::allocated(192, 3, kCpu);
  CHECK_EQ(first.close().memory.size(), 3U);
  Recorder::released(128);  // nobody records
  Window without;
  Recorder::released(192);
  CHECK_EQ(without.close().memory.size(), 0U);
  Window last = begin();
  Recorder::allocated(128, 7, kCpu);
  Recorder::released(192);  // not known any more
  Recorder::released(64);
  Recorder::released(128);
  const Snapshot seen = last.close();
  std::vector<int64_t> in_use;
  for (const Record* change : seen.memory) in_use.push_back(change->change.allocated);
  CHECK((in_use == std::vector<int64_t>{107, 7, 0}));
}

Record block_event(uintptr_t address, int64_t bytes, uint64_t ticks) {
  Record event{};
  event.kind = Kind::kBlock;
  event.block = {address, bytes, kCpu};
  event.start_ticks = ticks;
  return event;
}

TEST_CASE("forgotten events may come in any order") {
  ForgottenBlocks forgotten;
  forgotten.note(block_event(64, 0, 20));
  forgotten.note(block_event(64, 100, 10));  // another thread's, forgotten later
  forgotten.note(block_event(128, 7, 30));
  for (uintptr_t i = 0; i < 20'000; ++i) {
    forgotten.note(block_event(1'000 + i, 1, 40 + 2 * i));
    forgotten.note(block_event(1'000 + i, 0, 41 + 2 * i));
  }
  MemoryBlocks blocks = forgotten.in_use();
  CHECK_EQ(blocks.remove(64).bytes, 0);
  CHECK_EQ(blocks.remove(1'000).bytes, 0);
  const MemoryBlocks::Change change = blocks.remove(128);
  CHECK_EQ(change.bytes, -7);
  CHECK_EQ(change.in_use, 0);
}

}  // namespace
