// What a window saw, and what the devices did, as tables for Python.
#pragma once

#include <nanobind/nanobind.h>

#include <vector>

#include "core/snapshot.h"

namespace stepscope {

// The columns of the slices, of the memory's changes and of the statements about owners, and the
// texts that they refer to.
nanobind::dict tables_of(const Snapshot& snapshot);

// The same, with the threads, and when the window was open.
nanobind::dict window_of(const Snapshot& snapshot);

// (name, start, end) of each range.
nanobind::list range_tuples(const std::vector<RecentRange>& ranges, const TickMap& map);

// The names and types of the columns of each table, so that the reader can check them.
nanobind::dict recorded_column_types();
nanobind::list device_column_types();

}  // namespace stepscope
