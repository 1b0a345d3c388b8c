#include "json/event_tables.h"

#if defined(__GLIBC__)
#include <malloc.h>
#endif

#include <algorithm>
#include <limits>
#include <optional>
#include <stdexcept>

#include "core/nesting.h"
#include "stepscope/lane.h"

namespace stepscope::json {
namespace {

// Without an order, rows stay as they are.
using Order = std::optional<std::vector<uint32_t>>;

size_t at(const Order& order, size_t row) { return order ? (*order)[row] : row; }

template <typename T>
std::vector<T> column(const BlockList<Event>& events, T Event::* member, const Order& order = {}) {
  std::vector<T> out(events.size());
  for (size_t i = 0; i < events.size(); ++i) out[i] = events[at(order, i)].*member;
  return out;
}

// What was freed in small pieces stays with the process otherwise, and columns are too large for
// it.
void give_back_memory() {
#if defined(__GLIBC__)
  malloc_trim(0);
#endif
}

// Of two values with the same key in one event the later counts, as in Python's json.
void put(PairColumns::Integers& column, uint32_t row, int64_t value) {
  if (!column.rows.empty() && column.rows.back() == row) {
    column.values.back() = value;
    return;
  }
  column.rows.push_back(row);
  column.values.push_back(value);
}

}  // namespace

PairRun EventTables::put_away(const Pairs& pairs) {
  const PairRun run{pairs_.size(), static_cast<uint32_t>(pairs.integers.size()),
                    pairs.rest_id != 0 ? pairs.rest_id : strings.intern_text(pairs.rest)};
  for (const Pair& pair : pairs.integers) pairs_.push_back(pair);
  return run;
}

void EventTables::add(Event event, const Pairs& args, const Pairs& fields) {
  BlockList<Event>& table = event.phase == 'X' || event.phase == 'B' ? slices_
                            : event.phase == 'E'                     ? ends_
                                                                     : marks_;
  if (table.size() >= std::numeric_limits<int32_t>::max()) {
    throw std::length_error("more than two billion events");
  }
  if (event.phase == 'B' || event.phase == 'E') {
    edges_.push_back({event.time_ns, static_cast<uint32_t>(table.size()), event.phase == 'E'});
  }
  event.args = put_away(args);
  event.fields = put_away(fields);
  table.push_back(event);
}

PairRun EventTables::joined(const PairRun& first, const PairRun& second) {
  if (second.count == 0 && second.rest == 0) return first;
  PairRun both{pairs_.size(), first.count + second.count, first.rest};
  for (const PairRun& run : {first, second}) {
    for (uint64_t i = run.begin; i < run.begin + run.count; ++i) {
      const Pair pair = pairs_[i];
      pairs_.push_back(pair);
    }
  }
  if (first.rest == 0 || second.rest == 0) {
    both.rest = std::max(first.rest, second.rest);
  } else {
    std::string text(strings[first.rest]);
    text += ", ";
    text += strings[second.rest];
    both.rest = strings.intern(text);
  }
  return both;
}

// An end closes the latest begin of its track that is still open, whatever its name: so does
// Chrome.
void EventTables::pair_edges(Columns& out) {
  std::stable_sort(edges_.begin(), edges_.end(),
                   [](const Edge& a, const Edge& b) { return a.time_ns < b.time_ns; });
  uint32_t tracks = 0;
  for (size_t i = 0; i < slices_.size(); ++i) tracks = std::max(tracks, slices_[i].track + 1);
  Stacks stacks(tracks);
  for (const Edge& edge : edges_) {
    if (!edge.is_end) {
      stacks[slices_[edge.row].track].push_back(edge.row);
      continue;
    }
    const Event& end = ends_[edge.row];
    if (end.track >= tracks || stacks[end.track].empty()) {
      ++out.stray_ends;
      marks_.push_back(end);
      continue;
    }
    Event& begin = slices_[stacks[end.track].back()];
    stacks[end.track].pop_back();
    begin.duration_ns = end.time_ns - begin.time_ns;
    begin.args = joined(begin.args, end.args);
    begin.fields = joined(begin.fields, end.fields);
  }
  close_open(stacks, out);
}

// What never ended lasts until the end of the recording.
void EventTables::close_open(const Stacks& stacks, Columns& out) {
  int64_t last_ns = std::numeric_limits<int64_t>::min();
  for (size_t i = 0; i < slices_.size(); ++i) {
    last_ns = std::max(last_ns, slices_[i].time_ns + slices_[i].duration_ns);
  }
  for (const auto& stack : stacks) {
    out.open_begins += stack.size();
    for (const uint32_t row : stack) {
      slices_[row].duration_ns = last_ns - slices_[row].time_ns;
      slices_[row].flags = kUnfinished;
    }
  }
}

PairColumns EventTables::pair_columns(const BlockList<Event>& events, PairRun Event::* which,
                                      const Order& order) const {
  std::vector<uint64_t> counts(keys.size());
  bool any_rest = false;
  for (size_t row = 0; row < events.size(); ++row) {
    const PairRun& run = events[row].*which;
    any_rest = any_rest || run.rest != 0;
    for (uint32_t i = 0; i < run.count; ++i) ++counts[pairs_[run.begin + i].key];
  }
  std::vector<PairColumns::Integers> by_key(keys.size());
  for (uint32_t key = 0; key < keys.size(); ++key) {
    by_key[key].key = key;
    by_key[key].rows.reserve(counts[key]);
    by_key[key].values.reserve(counts[key]);
  }
  PairColumns out;
  if (any_rest) out.rest.resize(events.size());
  for (size_t row = 0; row < events.size(); ++row) {
    const PairRun& run = events[at(order, row)].*which;
    for (uint32_t i = 0; i < run.count; ++i) {
      const Pair& pair = pairs_[run.begin + i];
      put(by_key[pair.key], static_cast<uint32_t>(row), pair.value);
    }
    if (any_rest) out.rest[row] = run.rest;
  }
  for (PairColumns::Integers& integers : by_key) {
    if (!integers.rows.empty()) out.integers.push_back(std::move(integers));
  }
  return out;
}

SliceColumns EventTables::slice_columns() const {
  const Order order =
      slice_order(column(slices_, &Event::time_ns), column(slices_, &Event::duration_ns));
  SliceColumns out;
  out.category = column(slices_, &Event::category, order);
  out.name = column(slices_, &Event::name, order);
  out.track = column(slices_, &Event::track, order);
  out.start_ns = column(slices_, &Event::time_ns, order);
  out.duration_ns = column(slices_, &Event::duration_ns, order);
  out.flags = column(slices_, &Event::flags, order);
  out.args = pair_columns(slices_, &Event::args, order);
  out.fields = pair_columns(slices_, &Event::fields, order);
  return out;
}

MarkColumns EventTables::mark_columns() const {
  MarkColumns out;
  out.phase = column(marks_, &Event::phase);
  out.category = column(marks_, &Event::category);
  out.name = column(marks_, &Event::name);
  out.track = column(marks_, &Event::track);
  out.time_ns = column(marks_, &Event::time_ns);
  out.args = pair_columns(marks_, &Event::args, {});
  out.fields = pair_columns(marks_, &Event::fields, {});
  return out;
}

EventTables::Columns EventTables::finish() {
  Columns out;
  if (!edges_.empty()) pair_edges(out);
  ends_ = {};
  edges_ = {};
  // One after the other: of a large file, rows and columns together are the most it ever needs.
  out.slices = slice_columns();
  slices_ = {};
  give_back_memory();
  out.marks = mark_columns();
  marks_ = {};
  pairs_ = {};
  give_back_memory();
  return out;
}

}  // namespace stepscope::json
