// Blocks of memory: a release gives back what the block had, whatever else happened.
#include <random>
#include <thread>
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

void a_block_may_be_released_by_another_thread() {
  Window window;
  Recorder::allocated(64, 100, kCpu);
  std::thread([] {
    Recorder::released(64);
    Recorder::allocated(64, 7, kCpu);
  }).join();
  Recorder::released(64);
  const Snapshot seen = window.close();
  std::vector<int64_t> in_use;
  for (const Record* change : seen.memory) in_use.push_back(static_cast<int64_t>(change->order));
  CHECK((in_use == std::vector<int64_t>{100, 0, 7, 0}));
}

void a_window_counts_what_was_there_before_it() {
  Window outer;
  Recorder::allocated(64, 100, kCpu);
  Window inner;
  Recorder::allocated(128, 20, kCpu);
  Recorder::released(64);
  const Snapshot seen = inner.close();
  CHECK_EQ(seen.memory.size(), 2U);
  CHECK_EQ(static_cast<int64_t>(seen.memory[0]->order), 120);
  CHECK_EQ(static_cast<int64_t>(seen.memory[1]->end_ticks), -100);
  CHECK_EQ(outer.close().memory.size(), 3U);
}

void a_block_outlives_its_record() {
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
  CHECK_EQ(static_cast<int64_t>(seen.memory[0]->end_ticks), -100);
  CHECK_EQ(static_cast<int64_t>(seen.memory[0]->order), 0);
}

Record block_event(uintptr_t address, int64_t bytes, uint64_t ticks) {
  Record event{};
  event.kind = Kind::kBlock;
  event.sequence = static_cast<int64_t>(address);
  event.end_ticks = static_cast<uint64_t>(bytes);
  event.start_ticks = ticks;
  return event;
}

void forgotten_events_may_come_in_any_order() {
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

int main() {
  a_release_gives_back_what_the_block_had();
  an_unknown_block_is_no_change();
  devices_are_counted_apart();
  an_address_that_comes_again_replaces_its_block();
  many_blocks_come_and_go();
  a_window_sees_the_blocks_of_its_time();
  a_block_may_be_released_by_another_thread();
  a_window_counts_what_was_there_before_it();
  a_block_outlives_its_record();
  forgotten_events_may_come_in_any_order();
  return testing::result("memory");
}
