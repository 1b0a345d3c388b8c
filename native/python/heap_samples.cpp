// A sample of the memory in use: when each block was allocated, on which Python stack, and for how
// many bytes it stands. Wrapped allocators draw the blocks at random: Python's, NumPy's, and those
// that bridges to frameworks know.
//
// The allocating thread reads its stack without the GIL, because it may hold a lock of its
// framework.
#include "python/heap_samples.h"

#include <nanobind/nanobind.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/clock.h"
#include "core/held_blocks.h"
#include "core/recorder.h"
#include "core/stream.h"
#include "python/columns.h"
#include "python/module.h"
#include "python/own_stacks.h"
#include "python/python_memory.h"
#include "python/recovered_tables.h"
#include "python/stack_rows.h"

namespace nb = nanobind;

namespace stepscope {
namespace {

class ThreadNumbers {
 public:
  uint32_t of(int64_t thread) {
    const auto [entry, is_new] =
        number_of_.try_emplace(thread, static_cast<uint32_t>(threads_.size()));
    if (is_new) threads_.push_back(thread);
    return entry->second;
  }
  const std::vector<int64_t>& threads() const { return threads_; }

 private:
  std::unordered_map<int64_t, uint32_t> number_of_;
  std::vector<int64_t> threads_;
};

// Blocks whose stacks are rows.
nb::dict tables_of(const std::vector<HeldBlock>& blocks, StackRows rows,
                   const ThreadNumbers& numbers) {
  using B = HeldBlock;
  Table<B> table(blocks);
  table.column<int64_t>("time_ns", [](const B& block) { return block.time_ns; });
  table.column<int64_t>("duration_ns", [](const B& block) { return block.duration_ns; });
  table.column<int64_t>("size", [](const B& block) { return block.bytes; });
  table.column<uint32_t>("device", [](const B& block) { return block.device; });
  table.column<uint32_t>("track", [](const B& block) { return block.thread; });
  table.column<uint32_t>("stack", [](const B& block) { return block.stack; });
  table.column<uint8_t>("is_held", [](const B& block) { return block.is_held; });
  nb::dict out;
  nb::list threads;
  for (const int64_t thread : numbers.threads()) threads.append(thread);
  out["held"] = table.columns;
  add_stacks(out, std::move(rows));
  out["threads"] = threads;
  return out;
}

class HeapSamples;

// A recording begins and ends while blocks come and go.
std::mutex listeners_mutex;
std::vector<HeapSamples*>& listeners() {
  static auto* const all = new std::vector<HeapSamples*>;
  return *all;
}

class HeapSamples {
 public:
  ~HeapSamples() { stop_listening(); }

  // With what Python and NumPy allocate, or only what bridges to frameworks see. False if stacks
  // cannot be read.
  bool start(bool with_python);

  void allocated(uintptr_t address, int64_t bytes, Device device) {
    const std::lock_guard lock(mutex_);
    const pid_t thread = gettid();
    HeldBlock block;
    block.time_ns = Clock::now_ns();
    block.bytes = bytes;
    block.device = device.word();
    block.thread = threads_.of(thread);
    block.stack = stacks_.current();
    blocks_.allocated(address, block);
    if (!turn_.is_mine()) return;
    stacks_.write();
    Stream::instance().note(Entry::kHeldBlock,
                            HeldBlockEntry{address, block.time_ns, bytes, thread, stacks_.owner(),
                                           block.stack, block.device, 0});
  }

  // False if the block was not sampled.
  bool released(uintptr_t address) {
    const std::lock_guard lock(mutex_);
    const int64_t now_ns = Clock::now_ns();
    if (!blocks_.released(address, now_ns)) return false;
    note_released(address, now_ns);
    return true;
  }

  void stop() {
    stop_listening();
    const std::lock_guard lock(mutex_);
    stopped_ns_ = Clock::now_ns();
    note_released(0, stopped_ns_);
    turn_.end();
  }

  // The blocks that were held for some time, and those still held at the end, or now if it goes on.
  // The caller has the GIL: nothing here waits for it with the lock.
  nb::dict collect(bool goes_on) {
    std::vector<HeldBlock> blocks;
    StackRows rows;
    std::vector<uint32_t> row_of;
    ThreadNumbers threads;
    {
      const std::lock_guard lock(mutex_);
      blocks = blocks_.all(goes_on ? Clock::now_ns() : stopped_ns_);
      row_of = stacks_.rows(rows);
      threads = threads_;
      if (!goes_on) blocks_ = {};
    }
    for (HeldBlock& block : blocks) block.stack = row_of[block.stack];
    return tables_of(blocks, std::move(rows), threads);
  }

 private:
  void stop_listening() {
    const std::lock_guard lock(listeners_mutex);
    std::erase(listeners(), this);
    if (listeners().empty()) stop_python_memory();
  }

  void note_released(uintptr_t address, int64_t now_ns) {
    if (turn_.is_mine()) Stream::instance().note(Entry::kReleased, ReleasedEntry{address, now_ns});
  }

  std::mutex mutex_;
  OwnStacks stacks_;
  ThreadNumbers threads_;
  HeldBlocks blocks_;
  StreamTurn<HeldBlocks> turn_;
  int64_t stopped_ns_ = 0;
};

constexpr BlockListener kTellAll = {
    .sampled = &sample_block,
    .released = [](uintptr_t address) { release_block(address); },
};

bool HeapSamples::start(bool with_python) {
  [[maybe_unused]] static const int registered =
      pthread_atfork([] { listeners_mutex.lock(); }, [] { listeners_mutex.unlock(); },
                     [] {
                       listeners().clear();  // they are the parent's
                       listeners_mutex.unlock();
                     });
  if (!OwnStacks::works()) return false;
  turn_.take();
  const std::lock_guard lock(listeners_mutex);
  if (with_python) start_python_memory();
  listeners().push_back(this);
  Recorder::set_block_listener(&kTellAll);
  return true;
}

bool is_moment(int64_t time_ns) { return time_ns >= 0 && time_ns <= TickMap::kLatestNs; }

}  // namespace

void sample_block(uintptr_t address, int64_t bytes, Device device) {
  const std::lock_guard lock(listeners_mutex);
  for (HeapSamples* const samples : listeners()) samples->allocated(address, bytes, device);
}

bool release_block(uintptr_t address) {
  const std::lock_guard lock(listeners_mutex);
  bool was_sampled = false;
  for (HeapSamples* const samples : listeners()) was_sampled |= samples->released(address);
  return was_sampled;
}

// The parts of the journal are in no order, so its events are sorted by time and replayed.
nb::dict held_tables(const Recovered& recovered) {
  std::vector<HeldBlockEntry> came = recovered.held_blocks;
  std::vector<ReleasedEntry> went = recovered.released;
  std::erase_if(came,
                [](const auto& event) { return !is_moment(event.time_ns) || event.bytes < 0; });
  std::erase_if(went, [](const auto& event) { return !is_moment(event.time_ns); });
  const auto by_time = [](const auto& a, const auto& b) { return a.time_ns < b.time_ns; };
  std::stable_sort(came.begin(), came.end(), by_time);
  std::stable_sort(went.begin(), went.end(), by_time);
  RecoveredRows rows(recovered);
  ThreadNumbers threads;
  std::vector<HeldBlock> blocks;
  HeldBlocks now;
  const auto add_all = [&](int64_t until_ns) {
    const std::vector<HeldBlock> all = std::exchange(now, {}).all(until_ns);
    blocks.insert(blocks.end(), all.begin(), all.end());
  };
  auto next = went.begin();
  const auto release_until = [&](int64_t time_ns) {
    for (; next != went.end() && next->time_ns < time_ns; ++next) {
      next->address ? void(now.released(next->address, next->time_ns)) : add_all(next->time_ns);
    }
  };
  int64_t last_ns = std::max<int64_t>(recovered.last_ns, 0);
  for (const HeldBlockEntry& event : came) {
    release_until(event.time_ns);
    HeldBlock block;
    block.time_ns = event.time_ns;
    block.bytes = event.bytes;
    block.thread = threads.of(event.thread);
    block.stack = rows.of(event.owner, event.stack);
    block.device = event.device;
    now.allocated(event.address, block);
    last_ns = std::max(last_ns, event.time_ns);
  }
  release_until(INT64_MAX);
  add_all(last_ns);
  return tables_of(blocks, std::move(rows.rows), threads);
}

void bind_heap_samples(nb::module_& m) {
  nb::class_<HeapSamples>(m, "HeapSamples")
      .def(nb::init<>())
      .def("start", &HeapSamples::start, nb::arg("with_python") = false)
      .def("stop", &HeapSamples::stop)
      .def("collect", &HeapSamples::collect, nb::arg("goes_on") = false);
}

}  // namespace stepscope
