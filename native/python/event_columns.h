// The columns of a foreign trace's events as NumPy arrays.
#pragma once

#include <utility>

#include "json/event_tables.h"
#include "python/columns.h"
#include "python/text.h"

namespace stepscope {

inline nanobind::tuple to_args(json::PairColumns&& columns, const json::StringTable& keys) {
  nanobind::dict integers;
  for (json::PairColumns::Integers& column : columns.integers) {
    integers[to_str(keys[column.key])] = nanobind::make_tuple(to_column(std::move(column.rows)),
                                                              to_column(std::move(column.values)));
  }
  return nanobind::make_tuple(integers, to_column(std::move(columns.rest)));
}

inline nanobind::dict to_slices(json::SliceColumns&& slices, const json::StringTable& keys) {
  nanobind::dict out;
  out["category"] = to_column(std::move(slices.category));
  out["name"] = to_column(std::move(slices.name));
  out["track"] = to_column(std::move(slices.track));
  out["start_ns"] = to_column(std::move(slices.start_ns));
  out["duration_ns"] = to_column(std::move(slices.duration_ns));
  out["flags"] = to_column(std::move(slices.flags));
  out["args"] = to_args(std::move(slices.args), keys);
  out["fields"] = to_args(std::move(slices.fields), keys);
  return out;
}

inline nanobind::dict to_marks(json::MarkColumns&& marks, const json::StringTable& keys) {
  nanobind::dict out;
  out["phase"] = to_column(std::move(marks.phase));
  out["category"] = to_column(std::move(marks.category));
  out["name"] = to_column(std::move(marks.name));
  out["track"] = to_column(std::move(marks.track));
  out["time_ns"] = to_column(std::move(marks.time_ns));
  out["args"] = to_args(std::move(marks.args), keys);
  out["fields"] = to_args(std::move(marks.fields), keys);
  return out;
}

}  // namespace stepscope
