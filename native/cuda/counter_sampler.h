// Hardware counters of devices over time (CUPTI's PM sampling): the device samples itself into a
// buffer, which a thread of ours decodes.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "core/own_threads.h"
#include "cuda/pm_library.h"
#include "cuda/readings.h"
#include "sampler/stop_signal.h"
#include "stream/stream_turn.h"

namespace stepscope {

struct CounterOptions {
  int64_t interval_ns;
  uint64_t limit_bytes;  // 0: none
  bool keep_newest;
  int64_t age_ns;  // what is older goes; 0: nothing does
};

class CounterSampler {
 public:
  // `candidates` has for each counter the metrics that tell it, the best first.
  CounterSampler(const std::string& cupti_path, const CounterOptions& options,
                 std::vector<std::vector<std::string>> candidates);
  ~CounterSampler();
  CounterSampler(const CounterSampler&) = delete;
  CounterSampler& operator=(const CounterSampler&) = delete;

  // Returns when devices that are in use are sampled: that takes some tenths of a second, which a
  // short recording would miss.
  bool start();
  void stop();

  std::vector<CounterReading> readings() const;
  std::vector<CounterDevice> devices() const;
  uint64_t lost() const;
  int64_t cpu_ns() const { return cpu_ns_.load(std::memory_order_relaxed); }
  int64_t wall_ns() const { return wall_ns_.load(std::memory_order_relaxed); }

 private:
  struct Sampled;  // one device

  void loop();
  void begin_new_devices();
  std::unique_ptr<Sampled> begun(uint32_t number);
  void decode(Sampled& sampled);
  void end(Sampled& sampled);
  void keep(const CounterReading& reading);
  void note(const CounterDevice& device) const;

  cupti::pm::Library library_;
  CounterOptions options_;
  std::vector<std::vector<std::string>> candidates_;
  std::vector<std::unique_ptr<Sampled>> sampled_;  // the thread's
  mutable std::mutex mutex_;
  std::deque<CounterReading> readings_;
  std::vector<CounterDevice> devices_;
  uint64_t lost_ = 0;
  std::atomic<int64_t> cpu_ns_{0};
  std::atomic<int64_t> wall_ns_{0};
  StreamTurn<CounterSampler> turn_;  // of the thread
  Worker worker_;
  StopSignal stop_;
  StopSignal begun_;  // set by the thread: no need to wait for it any more
};

}  // namespace stepscope
