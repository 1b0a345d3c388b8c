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

  std::vector<ChunkView> chunks;
  std::vector<Record> block_changes;  // kMemoryChange, by time: worked out from kBlock
  std::vector<Record> unfinished;
  std::deque<Record> entered_before;  // Python calls that were in progress when the window began
};

Snapshot take_snapshot(const Recording& recording, const Recording::Watch& watch,
                       uint64_t end_ticks);

// Fill in the records, and what is worked out from them, where the rest is known. `blocks_before`
// are those that were in use where the chunks begin.
void put_in_order(Snapshot& out, MemoryBlocks blocks_before);

}  // namespace stepscope
