// A sample of the memory that is in use: when each block was allocated, on which Python stack, and
// for how many bytes it stands. Who allocates them (a bridge) draws them by lot.
//
// The stack is read by the allocating thread, without the GIL: it may hold any lock of its
// framework's.
#include <nanobind/nanobind.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/clock.h"
#include "core/recorder.h"
#include "python/columns.h"
#include "python/module.h"
#include "python/own_stacks.h"
#include "python/stack_rows.h"
#include "python/text.h"

namespace nb = nanobind;

namespace stepscope {
namespace {

// What is given back sooner is no memory that grows.
constexpr int64_t kShortLifeNs = 250'000'000;
// More blocks that were given back tell no more: from here on, every other one is forgotten, and
// those that stay stand for twice as many bytes.
constexpr size_t kMostReleased = size_t{1} << 16;

struct Block {
  int64_t time_ns = 0;
  int64_t duration_ns = 0;
  int64_t bytes = 0;  // that it stands for
  uint32_t thread = 0;
  uint32_t stack = 0;
  uint32_t device = 0;  // a word
  uint8_t is_held = 1;  // when the recording stopped
};

class HeapSamples {
 public:
  static bool works() { return OwnStacks::works(); }

  void allocated(uintptr_t address, int64_t bytes, Device device) {
    const std::lock_guard lock(mutex_);
    Block block;
    block.time_ns = Clock::now_ns();
    block.bytes = bytes;
    block.device = device.word();
    block.thread = this_thread();
    block.stack = stacks_.current();
    held_.insert_or_assign(address, block);
  }

  void released(uintptr_t address) {
    const std::lock_guard lock(mutex_);
    const auto found = held_.find(address);
    if (found == held_.end()) return;
    Block block = found->second;
    held_.erase(found);
    block.duration_ns = Clock::now_ns() - block.time_ns;
    block.is_held = 0;
    if (block.duration_ns < kShortLifeNs) return;
    released_.push_back(block);
    if (released_.size() >= kMostReleased) thin_out();
  }

  void stop() {
    const std::lock_guard lock(mutex_);
    stopped_ns_ = Clock::now_ns();
  }

  // All that was held for some time, and what was when it stopped, or is while it goes on. Needs
  // the GIL, which is not waited for with the lock.
  nb::dict collect(bool goes_on) {
    std::vector<Block> blocks;
    StackRows rows;
    std::vector<uint32_t> row_of;
    std::vector<pid_t> threads;
    {
      const std::lock_guard lock(mutex_);
      const int64_t until_ns = goes_on ? Clock::now_ns() : stopped_ns_;
      blocks = released_;
      for (const auto& [address, block] : held_) {
        blocks.push_back(block);
        blocks.back().duration_ns = until_ns - block.time_ns;
      }
      row_of = stacks_.add_rows(rows);
      threads = threads_;
      if (!goes_on) {
        released_ = {};
        held_ = {};
      }
    }
    return columns_of(blocks, std::move(rows), row_of, threads);
  }

 private:
  void thin_out() {
    size_t kept = 0;
    for (size_t i = 0; i < released_.size(); i += 2) {
      released_[kept] = released_[i];
      released_[kept++].bytes *= 2;
    }
    released_.resize(kept);
  }

  uint32_t this_thread() {
    const pid_t thread = gettid();
    const auto [found, is_new] =
        number_of_thread_.try_emplace(thread, static_cast<uint32_t>(threads_.size()));
    if (is_new) threads_.push_back(thread);
    return found->second;
  }

  static nb::dict columns_of(const std::vector<Block>& blocks, StackRows rows,
                             const std::vector<uint32_t>& row_of,
                             const std::vector<pid_t>& thread_ids) {
    Table<Block> table(blocks);
    table.column<int64_t>("time_ns", [](const Block& block) { return block.time_ns; });
    table.column<int64_t>("duration_ns", [](const Block& block) { return block.duration_ns; });
    table.column<int64_t>("size", [](const Block& block) { return block.bytes; });
    table.column<uint32_t>("device", [](const Block& block) { return block.device; });
    table.column<uint32_t>("track", [](const Block& block) { return block.thread; });
    table.column<uint32_t>("stack", [&](const Block& block) { return row_of[block.stack]; });
    table.column<uint8_t>("is_held", [](const Block& block) { return block.is_held; });
    nb::dict out;
    nb::list threads;
    for (const pid_t thread : thread_ids) threads.append(thread);
    out["held"] = table.columns;
    add_stacks(out, std::move(rows));
    out["threads"] = threads;
    return out;
  }

  std::mutex mutex_;
  OwnStacks stacks_;
  std::unordered_map<pid_t, uint32_t> number_of_thread_;
  std::vector<pid_t> threads_;
  std::unordered_map<uintptr_t, Block> held_;
  std::vector<Block> released_;
  int64_t stopped_ns_ = 0;
};

// ---- those who are told; a recording begins and ends while blocks come and go

std::mutex listeners_mutex;
std::vector<HeapSamples*>& listeners() {
  static auto* const all = new std::vector<HeapSamples*>;
  return *all;
}

constexpr BlockListener kTellAll = {
    .sampled =
        [](uintptr_t address, int64_t bytes, Device device) {
          const std::lock_guard lock(listeners_mutex);
          for (HeapSamples* const each : listeners()) each->allocated(address, bytes, device);
        },
    .released =
        [](uintptr_t address) {
          const std::lock_guard lock(listeners_mutex);
          for (HeapSamples* const each : listeners()) each->released(address);
        },
};

void listen(HeapSamples* samples) {
  [[maybe_unused]] static const int registered =
      pthread_atfork([] { listeners_mutex.lock(); }, [] { listeners_mutex.unlock(); },
                     [] {
                       listeners().clear();  // they are the parent's
                       listeners_mutex.unlock();
                     });
  const std::lock_guard lock(listeners_mutex);
  listeners().push_back(samples);
  Recorder::set_block_listener(&kTellAll);
}

void stop_listening(const HeapSamples* samples) {
  const std::lock_guard lock(listeners_mutex);
  std::erase(listeners(), samples);
}

// A forked child has the parent's object; its memory is given back as ever.
class PythonHeapSamples {
 public:
  ~PythonHeapSamples() { stop_listening(&samples_); }

  bool start() {
    if (HeapSamples::works()) listen(&samples_);
    return HeapSamples::works();
  }
  void stop() {
    stop_listening(&samples_);
    samples_.stop();
  }
  nb::dict collect(bool goes_on) { return samples_.collect(goes_on); }

 private:
  HeapSamples samples_;
};

}  // namespace

void bind_heap_samples(nb::module_& m) {
  nb::class_<PythonHeapSamples>(m, "HeapSamples")
      .def(nb::init<>())
      .def("start", &PythonHeapSamples::start)
      .def("stop", &PythonHeapSamples::stop)
      .def("collect", &PythonHeapSamples::collect, nb::arg("goes_on") = false);
}

}  // namespace stepscope
