// What a process left in the files of its stream, read by another: after its death, or while it
// goes on.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/lasting_format.h"
#include "core/snapshot.h"
#include "cuda/device_records.h"
#include "cuda/readings.h"
#include "sampler/sample.h"
#include "sampler/sampled_code.h"
#include "sampler/stack_nodes.h"

namespace stepscope {

struct RecoveredStack {
  uint32_t parent = 0;
  std::string file;  // "": a frame that is the interpreter's own
  std::string name;
};

struct RecoveredThread {
  int64_t os_id = 0;
  std::string name;
};

// Stacks that were found without the GIL.
struct CopiedStacks {
  std::vector<SampledCode> codes;
  std::vector<StackNodes::Node> nodes;
};

struct Recovered {
  std::vector<Snapshot> recordings;  // in order of time
  std::vector<std::string> types;
  std::map<uint32_t, RecoveredStack> stacks;  // by the recorder's number

  std::map<uint32_t, CopiedStacks> copied_stacks;  // by owner
  std::vector<Sample> samples;
  std::vector<RecoveredThread> sampled;
  std::vector<std::pair<int64_t, int64_t>> resident;  // time, bytes

  DeviceColumns device;
  std::map<std::pair<uint32_t, uint32_t>, std::string> calls;  // of the device, by kind and number

  std::vector<HeldBlockEntry> held_blocks;
  std::vector<ReleasedEntry> released;
  std::vector<GraphNodeEntry> graph_nodes;  // by number
  std::vector<GraphCopyEntry> graph_copies;
  std::vector<std::string> graph_operators;
  std::vector<PowerReading> power;
  std::vector<CounterReading> counters;
  std::map<uint32_t, CounterDevice> counter_devices;

  std::vector<std::array<int64_t, 4>> pauses;  // thread, start, end, generation
  std::map<std::string, std::string> meta;     // the last of each name
  TickMap tick_map;
  int64_t last_ns = 0;   // the last sign of life
  uint64_t damaged = 0;  // bytes that are not what was written, or were cut off
  uint64_t bad_records = 0;
  bool is_closed = false;  // it was ended in order
  bool has_lanes = false;  // memory outlived the process: nothing is missing but what was lost
};

// `memory` is a folder with lanes and chunks, `disk` a file of frames; either may not exist. Throws
// std::runtime_error where they are of another version. Slices that began before `since_ns` are
// left out: who looks at a long recording again and again wants the last of it.
Recovered recover(const std::string& memory, const std::string& disk, int64_t since_ns = 0);

}  // namespace stepscope
