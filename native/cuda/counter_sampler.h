// Hardware counters of devices over time (CUPTI's PM sampling): the device samples itself into a
// buffer, which a thread of ours decodes.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cuda/device_readings.h"
#include "cuda/pm_library.h"

namespace stepscope {

class CounterSampler
    : public DeviceReadings<CounterReading, &CounterReading::end_ns, Entry::kCounters> {
 public:
  // `candidates` has, for each counter, the metrics that measure it, the best first.
  CounterSampler(const std::string& cupti_path, const ReadingOptions& options,
                 std::vector<std::vector<std::string>> candidates);
  ~CounterSampler();
  CounterSampler(const CounterSampler&) = delete;
  CounterSampler& operator=(const CounterSampler&) = delete;

  // Returns once the devices in use are sampled: that takes some tenths of a second, which a short
  // recording would miss.
  bool start();

  std::vector<CounterDevice> devices() const;

 private:
  struct Sampled;  // one device

  void loop();
  void begin_new_devices();
  std::unique_ptr<Sampled> begun(uint32_t number);
  void decode(Sampled& sampled);
  void end(Sampled& sampled);
  void note(const CounterDevice& device) const;

  cupti::pm::Library library_;
  std::vector<std::vector<std::string>> candidates_;
  std::vector<std::unique_ptr<Sampled>> sampled_;  // used by the thread only
  std::vector<CounterDevice> devices_;             // guarded by mutex_
  StopSignal begun_;                               // the devices in use are sampled
};

}  // namespace stepscope
