// What a process left in its stream, as tables for Python.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <map>
#include <vector>

#include "python/columns.h"
#include "python/stack_rows.h"
#include "read_back/recovered.h"

namespace stepscope {

// As the sampler's own, but for what it counted.
nanobind::dict sampled_tables(const Recovered& recovered, const nanobind::callable& native_text);

// As CUPTI's when it is stopped.
nanobind::dict device_tables(const Recovered& recovered);

// The table that HeapSamples.collect() returns, of sampled blocks of memory.
nanobind::dict held_tables(const Recovered& recovered);

// The table that graph_nodes() returns, for the nodes of CUDA graphs with these ids.
nanobind::dict graph_node_tables(const Recovered& recovered, const ColumnView<int64_t>& ids);

// Readings of devices' power and of their hardware counters, and the devices with counters.
nanobind::dict power_tables(const std::vector<PowerReading>& readings);
nanobind::dict counter_tables(const std::vector<CounterReading>& readings);
nanobind::list counter_devices(const std::vector<CounterDevice>& devices);

// The stacks of an owner. What refers to something that was not written stands for nothing.
CopiedStacks copied_stacks(const Recovered& recovered, uint32_t owner);

// Rows of the stacks that were found, by owner and number.
class RecoveredRows {
 public:
  explicit RecoveredRows(const Recovered& recovered) : recovered_(recovered) {}

  uint32_t of(uint32_t owner, uint32_t stack) {
    const auto [rows_of, is_new] = rows_of_.try_emplace(owner);
    if (is_new) {
      const CopiedStacks stacks = copied_stacks(recovered_, owner);
      rows_of->second = add_rows(rows, stacks.nodes, [&](uint32_t code) -> const SampledCode& {
        return stacks.codes[code];
      });
    }
    return stack < rows_of->second.size() ? rows_of->second[stack] : 0;
  }

  StackRows rows;

 private:
  const Recovered& recovered_;
  std::map<uint32_t, std::vector<uint32_t>> rows_of_;
};

}  // namespace stepscope
