// What one window saw of a recording, put in order.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/recording.h"

namespace stepscope {

// The same as it stands in the chunks. Taking it is quick, however much was recorded, and the
// recording may go on.
struct HeldWindow {
  std::shared_ptr<const Recording> recording;  // null: of no window
  uint64_t start_ticks = 0;
  uint64_t asked_ticks = 0;  // before start_ticks where a ring has moved on
  uint64_t end_ticks = 0;
  TickMap tick_map;
  uint64_t lost = 0;
  Limit limit;
  std::vector<ThreadInfo> threads;
  std::vector<ChunkView> chunks;
  std::vector<Record> unfinished;
  MemoryBlocks blocks_before;

  // How many records it holds: as many events at most.
  size_t size() const;
  // Whether some of them are in the stream's memory, which a forked child does not have.
  bool is_in_stream() const;
};

HeldWindow hold_window(std::shared_ptr<const Recording> recording, uint64_t window,
                       uint64_t end_ticks);

struct Snapshot {
  uint64_t start_ticks = 0;
  uint64_t end_ticks = 0;
  TickMap tick_map;
  uint64_t lost = 0;
  Limit limit;
  std::vector<ThreadInfo> threads;
  std::vector<std::string> texts;      // by label; an operator's overload behind kOverloadMark
  std::vector<std::string> inputs;     // of operators, encoded, by their number
  std::vector<const Record*> records;  // slices by start; into what stands at the end
  // Inputs of operators that were sampled: the place in `records`, and the number of the inputs.
  std::vector<std::pair<size_t, uint32_t>> sampled_inputs;
  std::vector<const Record*> memory;  // kMemoryChange
  std::vector<const Record*> owners;  // kOwner
  std::vector<const Record*> uses;    // kUse

  std::vector<ChunkView> chunks;
  std::vector<Record> block_changes;  // kMemoryChange, by time: worked out from kBlock
  std::vector<Record> unfinished;
  std::deque<Record> entered_before;  // Python calls that were in progress when the window began
};

Snapshot in_order(HeldWindow hold);

// Fill in the records, and what is worked out from them, where the rest is known. `blocks_before`
// are those that were in use where the chunks begin; what began since `asked_ticks`, but before the
// snapshot does, has fallen off a ring, and is counted as lost.
void put_in_order(Snapshot& out, uint64_t asked_ticks, MemoryBlocks blocks_before);

}  // namespace stepscope
