#include "core/snapshot.h"

#include <algorithm>
#include <queue>
#include <set>
#include <utility>

#include "core/thread_state.h"

namespace stepscope {
namespace {

using Run = std::vector<const Record*>;

// Records stand in the order of their ends, and `order` counts begins without a gap but for what
// was lost: placing each at its number is a sort in linear time.
Run in_begin_order(Run records) {
  if (records.empty()) return records;
  const auto by_order = [](const Record* a, const Record* b) {
    return a->slice.order < b->slice.order;
  };
  const auto [first, last] = std::minmax_element(records.begin(), records.end(), by_order);
  const uint64_t lowest = (*first)->slice.order;
  const uint64_t distance = (*last)->slice.order - lowest;  // in a damaged file, of all 64 bits
  if (distance >= 4 * records.size()) {
    std::sort(records.begin(), records.end(), by_order);
    return records;
  }
  Run placed(distance + 1, nullptr);
  for (const Record* record : records) placed[record->slice.order - lowest] = record;
  std::erase(placed, nullptr);
  return placed;
}

Run merge_by_start(std::vector<Run> runs) {
  std::erase_if(runs, [](const Run& run) { return run.empty(); });
  if (runs.empty()) return {};
  if (runs.size() == 1) return std::move(runs.front());
  using Head = std::pair<uint64_t, size_t>;
  std::priority_queue<Head, std::vector<Head>, std::greater<>> heads;
  std::vector<size_t> next(runs.size(), 0);
  size_t total = 0;
  for (size_t i = 0; i < runs.size(); ++i) {
    heads.emplace(runs[i].front()->start_ticks, i);
    total += runs[i].size();
  }
  Run merged;
  merged.reserve(total);
  while (!heads.empty()) {
    const size_t i = heads.top().second;
    heads.pop();
    const Run& run = runs[i];
    // Take from this run as long as it stays the earliest.
    const uint64_t others_ticks = heads.empty() ? UINT64_MAX : heads.top().first;
    do {
      merged.push_back(run[next[i]++]);
    } while (next[i] < run.size() && run[next[i]]->start_ticks <= others_ticks);
    if (next[i] < run.size()) heads.emplace(run[next[i]]->start_ticks, i);
  }
  return merged;
}

// Turns kBlock records, which are in order of time, into changes of the memory in use: what each
// allocation took, what each release gave back, and how much was in use afterwards. `blocks` has
// what was in use before the window. A release of a block that was allocated before the recording
// is left out, because its size is not known.
std::vector<Record> changes_of(const Run& events, MemoryBlocks blocks, uint64_t start_ticks) {
  std::vector<Record> changes;
  for (const Record* event : events) {
    const auto [address, bytes, device] = event->block;
    const MemoryBlocks::Change change =
        bytes ? blocks.add(address, bytes, device) : blocks.remove(address);
    if (!change.bytes || event->start_ticks < start_ticks) continue;
    Record& made = changes.emplace_back(*event);
    made.kind = Kind::kMemoryChange;
    made.change = {address, change.bytes, change.device, change.in_use, 0};
  }
  return changes;
}

// Finds the slices whose inputs were sampled. Both the records and the samples of a thread are in
// the order in which the slices began.
std::vector<std::pair<size_t, uint32_t>> places_of(const std::vector<Run>& samples,
                                                   const Run& records) {
  std::vector<std::pair<size_t, uint32_t>> places;
  std::vector<size_t> next(samples.size(), 0);
  for (size_t place = 0; place < records.size(); ++place) {
    const Record& record = *records[place];
    const Run& of_thread = samples[record.thread];
    size_t& at = next[record.thread];
    while (at < of_thread.size() && of_thread[at]->sampled.order < record.slice.order) ++at;
    if (at < of_thread.size() && of_thread[at]->sampled.order == record.slice.order &&
        record.kind == Kind::kOperator) {
      places.emplace_back(place, of_thread[at]->sampled.inputs);
    }
  }
  return places;
}

}  // namespace

size_t HeldWindow::size() const {
  size_t records = unfinished.size();
  for (const ChunkView& view : chunks) records += view.size;
  return records;
}

bool HeldWindow::is_in_stream() const {
  return std::any_of(chunks.begin(), chunks.end(),
                     [](const ChunkView& view) { return view.chunk->lasting != nullptr; });
}

HeldWindow hold_window(std::shared_ptr<const Recording> recording, uint64_t window,
                       uint64_t end_ticks) {
  HeldWindow hold;
  hold.end_ticks = end_ticks;
  hold.tick_map = recording->tick_map();
  // Open slices first: one that ends meanwhile is then found twice, and never missed.
  hold.unfinished = ThreadState::open_slices(recording->generation, end_ticks);
  Recording::View view = recording->view(window);
  Inside::order_with_others();
  hold.threads = recording->threads();
  hold.limit = view.watch.limit;
  hold.lost = view.watch.lost;
  hold.asked_ticks = hold.start_ticks = view.watch.start_ticks;
  if (hold.limit.is_ring()) {
    const uint64_t aged = end_ticks - std::min(hold.limit.age_ticks, end_ticks);
    hold.start_ticks = std::max({hold.start_ticks, view.whole_since, aged});
  }
  hold.chunks = std::move(view.chunks);
  hold.blocks_before = std::move(view.blocks_before);
  hold.recording = std::move(recording);
  return hold;
}

Snapshot in_order(HeldWindow hold) {
  if (!hold.recording) return {};
  const Recording& recording = *hold.recording;
  Snapshot out;
  out.start_ticks = hold.start_ticks;
  out.end_ticks = hold.end_ticks;
  out.tick_map = std::move(hold.tick_map);
  out.limit = hold.limit;
  out.lost = hold.lost;
  out.unfinished = std::move(hold.unfinished);
  out.chunks = std::move(hold.chunks);
  out.threads = std::move(hold.threads);
  for (const std::string_view text : recording.interner.texts()) out.texts.emplace_back(text);
  for (const std::string_view text : recording.inputs.texts()) out.inputs.emplace_back(text);
  put_in_order(out, hold.asked_ticks, std::move(hold.blocks_before));
  return out;
}

void put_in_order(Snapshot& out, uint64_t asked_ticks, MemoryBlocks blocks_before) {
  const uint64_t end_ticks = out.end_ticks;
  std::set<std::pair<uint32_t, uint64_t>> open;
  for (const Record& record : out.unfinished) open.emplace(record.thread, record.slice.order);

  std::vector<Run> runs(out.threads.size());
  std::vector<Run> blocks(out.threads.size());
  std::vector<Run> samples(out.threads.size());
  bool has_samples = false;
  const auto in_window = [&](const Record& record) {
    return record.start_ticks >= out.start_ticks && record.start_ticks <= end_ticks &&
           record.thread < runs.size();
  };
  // A Python call that was in progress when the window began begins with it.
  const auto reaches_in = [&](const Record& record) {
    return record.kind == Kind::kPython && record.start_ticks < out.start_ticks &&
           record.slice.end_ticks > out.start_ticks && record.thread < runs.size();
  };
  // Records older than a ring's window are lost, even when their chunk is still in memory.
  const auto has_fallen_off = [&](const Record& record) {
    return record.start_ticks < out.start_ticks && record.start_ticks >= asked_ticks;
  };
  for (const auto& [chunk, size, is_retired] : out.chunks) {
    for (size_t i = 0; i < size; ++i) {
      const Record& record = chunk->records[i];
      if (record.kind == Kind::kBlock) {
        out.lost += has_fallen_off(record);
        if (record.start_ticks <= end_ticks && record.thread < blocks.size()) {
          blocks[record.thread].push_back(&record);
        }
        continue;
      }
      if (reaches_in(record)) [[unlikely]] {
        if (!open.empty()) open.erase({record.thread, record.slice.order});
        Record& cut = out.entered_before.emplace_back(record);
        cut.start_ticks = out.start_ticks;
        runs[record.thread].push_back(&cut);
        continue;
      }
      if (!in_window(record)) {
        out.lost += has_fallen_off(record);
        continue;
      }
      if (record.kind == Kind::kInputs) {
        samples[record.thread].push_back(&record);
        has_samples = true;
        continue;
      }
      if (record.kind == Kind::kUse) {
        out.uses.push_back(&record);
        continue;
      }
      if (record.kind == Kind::kMemoryChange || record.kind == Kind::kOwner) {
        (record.kind == Kind::kOwner ? out.owners : out.memory).push_back(&record);
        continue;
      }
      if (!open.empty()) open.erase({record.thread, record.slice.order});
      runs[record.thread].push_back(&record);
    }
  }
  for (Record& record : out.unfinished) {
    if (reaches_in(record)) record.start_ticks = out.start_ticks;
    if (!in_window(record) || !open.contains({record.thread, record.slice.order})) continue;
    record.flags |= kUnfinished;
    runs[record.thread].push_back(&record);
  }
  out.block_changes =
      changes_of(merge_by_start(std::move(blocks)), std::move(blocks_before), out.start_ticks);
  for (const Record& change : out.block_changes) out.memory.push_back(&change);
  for (Run& run : runs) run = in_begin_order(std::move(run));
  out.records = merge_by_start(std::move(runs));
  if (has_samples) out.sampled_inputs = places_of(samples, out.records);
}

}  // namespace stepscope
