// What a process left in its stream, as tables for Python.
#pragma once

#include <nanobind/nanobind.h>

#include <vector>

#include "python/columns.h"
#include "stream/recovered.h"

namespace stepscope {

// As the sampler's own, but for what it counted.
nanobind::dict sampled_tables(const Recovered& found, const nanobind::callable& native_text);

// As CUPTI's when it is stopped.
nanobind::dict device_tables(const Recovered& found);

// The blocks of memory that were held, as HeapSamples.collect() has them.
nanobind::dict held_tables(const Recovered& found);

// The nodes of graphs behind some ids, as graph_nodes() has them.
nanobind::dict graph_node_tables(const Recovered& found, const ColumnView<int64_t>& ids);

// What devices told of their power, and their hardware counters, with the devices behind these.
nanobind::dict power_tables(const std::vector<PowerReading>& readings);
nanobind::dict counter_tables(const std::vector<CounterReading>& readings);
nanobind::list counter_devices(const std::vector<CounterDevice>& devices);

// The stacks of an owner. What refers to something that was not written stands for nothing.
CopiedStacks copied_stacks(const Recovered& found, uint32_t owner);

}  // namespace stepscope
