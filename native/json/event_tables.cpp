#include "json/event_tables.h"

#include <algorithm>
#include <limits>
#include <stdexcept>

#include "core/nesting.h"
#include "core/record.h"

namespace stepscope::json {
namespace {

template <typename T>
std::vector<T> taken(std::vector<T>& column, const std::vector<uint32_t>& order) {
  if (order.empty()) return std::move(column);
  std::vector<T> out(order.size());
  for (size_t i = 0; i < order.size(); ++i) out[i] = column[order[i]];
  column = {};
  return out;
}

void put(PairRows::IntColumn& column, uint32_t row, int64_t value) {
  if (!column.rows.empty() && column.rows.back() == row) {
    column.values.back() = value;
    return;
  }
  column.rows.push_back(row);
  column.values.push_back(value);
}

}  // namespace

void PairRows::add(const Pairs& pairs, StringTable& strings) {
  for (const auto& [key, value] : pairs.integers) {
    keys_.push_back(key);
    values_.push_back(value);
  }
  ends_.push_back(keys_.size());
  rest_.push_back(strings.intern_text(pairs.rest));
  any_rest_ = any_rest_ || rest_.back() != 0;
}

void PairRows::add(const PairRows& other, size_t row) {
  for (uint64_t i = row == 0 ? 0 : other.ends_[row - 1]; i < other.ends_[row]; ++i) {
    keys_.push_back(other.keys_[i]);
    values_.push_back(other.values_[i]);
  }
  ends_.push_back(keys_.size());
  rest_.push_back(other.rest_[row]);
  any_rest_ = any_rest_ || rest_.back() != 0;
}

void PairRows::join(size_t row, const PairRows& other, size_t other_row) {
  const uint64_t from = other_row == 0 ? 0 : other.ends_[other_row - 1];
  const uint64_t to = other.ends_[other_row];
  if (from == to && other.rest_[other_row] == 0) return;
  Joined& joined = joined_[row];
  for (uint64_t i = from; i < to; ++i) joined.integers.emplace_back(other.keys_[i], other.values_[i]);
  joined.rest = other.rest_[other_row];
  any_rest_ = any_rest_ || joined.rest != 0;
}

PairRows::Columns PairRows::columns(const std::vector<uint32_t>& order, uint32_t keys,
                                    StringTable& strings) const {
  std::vector<uint64_t> counts(keys);
  for (const uint32_t key : keys_) ++counts[key];
  std::vector<IntColumn> by_key(keys);
  for (uint32_t key = 0; key < keys; ++key) {
    by_key[key].key = key;
    by_key[key].rows.reserve(counts[key]);
    by_key[key].values.reserve(counts[key]);
  }
  Columns out;
  if (any_rest_) out.rest.resize(rest_.size());
  for (size_t i = 0; i < ends_.size(); ++i) {
    const size_t row = order.empty() ? i : order[i];
    const auto at = static_cast<uint32_t>(i);
    for (uint64_t pair = row == 0 ? 0 : ends_[row - 1]; pair < ends_[row]; ++pair) {
      put(by_key[keys_[pair]], at, values_[pair]);
    }
    if (any_rest_) out.rest[i] = rest_[row];
    if (joined_.empty()) continue;
    const auto joined = joined_.find(row);
    if (joined == joined_.end()) continue;
    for (const auto& [key, value] : joined->second.integers) put(by_key[key], at, value);
    if (joined->second.rest == 0) continue;
    std::string both(strings[rest_[row]]);
    if (!both.empty()) both += ", ";
    both += strings[joined->second.rest];
    out.rest[i] = strings.intern(both);
  }
  for (IntColumn& column : by_key) {
    if (!column.rows.empty()) out.integers.push_back(std::move(column));
  }
  return out;
}

void Table::add(const Event& event) {
  phase.push_back(event.phase);
  category.push_back(event.category);
  name.push_back(event.name);
  track.push_back(event.track);
  time_ns.push_back(event.time_ns);
  duration_ns.push_back(event.duration_ns);
}

Event Table::at(size_t row) const {
  return {phase[row], category[row], name[row], track[row], time_ns[row], duration_ns[row]};
}

void EventTables::add(const Event& event, const Pairs& args, const Pairs& fields) {
  Table& table = event.phase == 'X' || event.phase == 'B' ? slices_
                 : event.phase == 'E'                     ? ends_
                                                          : marks_;
  if (table.size() >= std::numeric_limits<int32_t>::max()) {
    throw std::length_error("more than two billion events");
  }
  if (event.phase == 'B' || event.phase == 'E') {
    edges_.push_back({event.time_ns, static_cast<uint32_t>(table.size()), event.phase == 'E'});
  }
  table.add(event);
  table.args.add(args, strings);
  table.fields.add(fields, strings);
}

// An end closes the latest begin of its track that is still open, whatever its name: so does Chrome.
void EventTables::pair_edges(Columns& out) {
  std::stable_sort(edges_.begin(), edges_.end(),
                   [](const Edge& a, const Edge& b) { return a.time_ns < b.time_ns; });
  uint32_t tracks = 0;
  for (const uint32_t track : slices_.track) tracks = std::max(tracks, track + 1);
  std::vector<std::vector<uint32_t>> stacks(tracks);
  for (const Edge& edge : edges_) {
    if (!edge.is_end) {
      stacks[slices_.track[edge.row]].push_back(edge.row);
      continue;
    }
    const uint32_t track = ends_.track[edge.row];
    if (track >= tracks || stacks[track].empty()) {
      ++out.stray_ends;
      marks_.add(ends_.at(edge.row));
      marks_.args.add(ends_.args, edge.row);
      marks_.fields.add(ends_.fields, edge.row);
      continue;
    }
    const uint32_t begin = stacks[track].back();
    stacks[track].pop_back();
    slices_.duration_ns[begin] = edge.time_ns - slices_.time_ns[begin];
    slices_.args.join(begin, ends_.args, edge.row);
    slices_.fields.join(begin, ends_.fields, edge.row);
  }
  close_open(stacks, out);
}

// What never ended lasts until the end of the recording.
void EventTables::close_open(const std::vector<std::vector<uint32_t>>& stacks, Columns& out) {
  int64_t last_ns = std::numeric_limits<int64_t>::min();
  for (size_t i = 0; i < slices_.size(); ++i) {
    last_ns = std::max(last_ns, slices_.time_ns[i] + slices_.duration_ns[i]);
  }
  for (const auto& stack : stacks) {
    if (stack.empty()) continue;
    flags_.resize(slices_.size());
    out.open_begins += stack.size();
    for (const uint32_t row : stack) {
      slices_.duration_ns[row] = last_ns - slices_.time_ns[row];
      flags_[row] = kUnfinished;
    }
  }
}

SliceColumns EventTables::ordered_slices() {
  const std::vector<uint32_t> order =
      slice_order(slices_.time_ns, slices_.duration_ns).value_or(std::vector<uint32_t>{});
  SliceColumns out;
  out.category = taken(slices_.category, order);
  out.name = taken(slices_.name, order);
  out.track = taken(slices_.track, order);
  out.start_ns = taken(slices_.time_ns, order);
  out.duration_ns = taken(slices_.duration_ns, order);
  if (!flags_.empty()) out.flags = taken(flags_, order);
  out.args = slices_.args.columns(order, keys.size(), strings);
  slices_.args = {};
  out.fields = slices_.fields.columns(order, keys.size(), strings);
  slices_ = {};
  return out;
}

EventTables::Columns EventTables::finish() {
  Columns out;
  if (!edges_.empty()) pair_edges(out);
  ends_ = {};
  edges_ = {};
  out.slices = ordered_slices();
  out.marks.phase = std::move(marks_.phase);
  out.marks.category = std::move(marks_.category);
  out.marks.name = std::move(marks_.name);
  out.marks.track = std::move(marks_.track);
  out.marks.time_ns = std::move(marks_.time_ns);
  out.marks.args = marks_.args.columns({}, keys.size(), strings);
  out.marks.fields = marks_.fields.columns({}, keys.size(), strings);
  marks_ = {};
  return out;
}

}  // namespace stepscope::json
