#include "cuda/counter_sampler.h"

#include <cmath>
#include <stdexcept>
#include <utility>

#include "core/clock.h"
#include "core/read_clock.h"
#include "cuda/driver.h"

namespace stepscope {
namespace {

namespace pm = cupti::pm;

constexpr size_t kHardwareBufferBytes = size_t{64} << 20;
constexpr uint32_t kMostSamples = 128;  // that are decoded at once: each takes CUPTI some 30 kB
constexpr int64_t kDecodeEveryNs = 50'000'000;
constexpr int64_t kMostStartNs = 5'000'000'000;
constexpr uint64_t kClocksInANs = 2;  // about, of the system clock, where time is no trigger

}  // namespace

struct CounterSampler::Sampled {
  std::unique_ptr<pm::Host> host;
  CounterDevice about;
  std::vector<size_t> counters;      // the counters that are sampled
  std::vector<const char*> metrics;  // theirs, of `about`
  void* sampling = nullptr;
  std::vector<uint8_t> config;  // CUPTI reads it whenever it decodes
  std::vector<uint8_t> image;
  bool is_on = false;
};

CounterSampler::CounterSampler(const std::string& cupti_path, const ReadingOptions& options,
                               std::vector<std::vector<std::string>> candidates)
    : DeviceReadings(options),
      library_(pm::Library::open(cupti_path)),
      candidates_(std::move(candidates)) {
  if (candidates_.size() > kMostCounters) throw std::runtime_error("too many counters");
}

CounterSampler::~CounterSampler() { stop(); }

bool CounterSampler::start() {
  if (!worker_.start<&CounterSampler::loop>(this)) return false;
  begun_.wait_until(monotonic_ns() + kMostStartNs);
  return true;
}

void CounterSampler::loop() {
  const OwnThread ours;
  turn_.take();
  const int64_t begin_ns = monotonic_ns();
  while (!stop_.is_set()) {
    begin_new_devices();
    begun_.set();
    for (const auto& sampled : sampled_) decode(*sampled);
    const int64_t now_ns = monotonic_ns();
    set_times(now_ns - begin_ns);
    stop_.wait_until(now_ns + kDecodeEveryNs);
  }
  for (const auto& sampled : sampled_) {
    end(*sampled);
    note(sampled->about);
  }
  turn_.end();
  const std::lock_guard lock(mutex_);
  devices_.clear();
  for (const auto& sampled : sampled_) devices_.push_back(sampled->about);
}

// The program may begin to use a device at any time: CUDA is not initialised on its behalf.
void CounterSampler::begin_new_devices() {
  for (const int device : Driver().devices_in_use()) {
    const auto number = static_cast<uint32_t>(device);
    bool is_known = false;
    for (const auto& sampled : sampled_) is_known |= sampled->about.number == number;
    if (is_known) continue;
    sampled_.push_back(begun(number));
    note(sampled_.back()->about);
    const std::lock_guard lock(mutex_);
    devices_.push_back(sampled_.back()->about);
  }
}

std::unique_ptr<CounterSampler::Sampled> CounterSampler::begun(uint32_t number) {
  auto sampled = std::make_unique<Sampled>();
  CounterDevice& about = sampled->about;
  about.number = number;
  about.metrics.resize(candidates_.size());
  try {
    sampled->host = std::make_unique<pm::Host>(library_, number);
    about.chip = sampled->host->chip();
    std::vector<uint8_t>& config = sampled->config;
    for (size_t counter = 0; counter < candidates_.size(); ++counter) {
      for (const std::string& metric : candidates_[counter]) {
        sampled->metrics.push_back(metric.c_str());
        std::vector<uint8_t> more = sampled->host->config_for(sampled->metrics);
        if (!more.empty()) {
          config = std::move(more);
          about.metrics[counter] = metric;
          sampled->counters.push_back(counter);
          break;
        }
        sampled->metrics.pop_back();
      }
    }
    if (sampled->metrics.empty()) {
      throw std::runtime_error("this device has none of the counters (" + about.chip + ")");
    }
    sampled->host->config_for(sampled->metrics);  // evaluating needs the last config of the host
    auto enable = pm::sized<pm::EnableParams>();
    enable.device = number;
    library_.check(library_.enable(&enable), "cuptiPmSamplingEnable");
    sampled->sampling = enable.sampling;
    auto set = pm::sized<pm::SetConfigParams>();
    set.sampling = sampled->sampling;
    set.config_bytes = config.size();
    set.config = config.data();
    set.hardware_buffer_bytes = kHardwareBufferBytes;
    set.interval = static_cast<uint64_t>(options_.interval_ns);
    set.trigger = pm::kByTime;
    set.append_mode = pm::kKeepOldest;
    if (library_.set_config(&set) != cupti::kSuccess) {
      set.trigger = pm::kBySystemClock;
      set.interval *= kClocksInANs;
      library_.check(library_.set_config(&set), "cuptiPmSamplingSetConfig");
    }
    auto size = pm::sized<pm::CounterDataSizeParams>();
    size.sampling = sampled->sampling;
    size.names = sampled->metrics.data();
    size.count = sampled->metrics.size();
    size.most_samples = kMostSamples;
    library_.check(library_.counter_data_size(&size), "cuptiPmSamplingGetCounterDataSize");
    sampled->image.resize(size.bytes);
    auto fresh = pm::sized<pm::CounterDataInitializeParams>();
    fresh.sampling = sampled->sampling;
    fresh.bytes = sampled->image.size();
    fresh.image = sampled->image.data();
    library_.check(library_.counter_data_initialize(&fresh),
                   "cuptiPmSamplingCounterDataImageInitialize");
    auto start = pm::sized<pm::SamplingParams>();
    start.sampling = sampled->sampling;
    const int64_t before_ns = Clock::now_ns();
    library_.check(library_.start(&start), "cuptiPmSamplingStart");
    about.bounds.push_back(
        {0, before_ns + options_.interval_ns, Clock::now_ns() + options_.interval_ns});
    sampled->is_on = true;
  } catch (const std::runtime_error& error) {
    about.obstacle = error.what();
    end(*sampled);
  }
  return sampled;
}

void CounterSampler::decode(Sampled& sampled) {
  if (!sampled.is_on) return;
  while (true) {
    auto params = pm::sized<pm::DecodeParams>(pm::kDecodeBytes);
    params.sampling = sampled.sampling;
    params.image = sampled.image.data();
    params.image_bytes = sampled.image.size();
    if (library_.decode(&params) != cupti::kSuccess) return;
    sampled.about.overflowed |= params.overflow != 0;
    auto info = pm::sized<pm::CounterDataInfoParams>();
    info.image = sampled.image.data();
    info.image_bytes = sampled.image.size();
    if (library_.counter_data_info(&info) != cupti::kSuccess) return;
    for (size_t i = 0; i < info.completed_samples; ++i) {
      auto sample = pm::sized<pm::SampleInfoParams>();
      sample.sampling = sampled.sampling;
      sample.image = sampled.image.data();
      sample.image_bytes = sampled.image.size();
      sample.sample = i;
      if (library_.sample_info(&sample) != cupti::kSuccess) continue;
      CounterReading reading{};
      reading.start_ns = static_cast<int64_t>(sample.start);
      reading.end_ns = static_cast<int64_t>(sample.end);
      reading.device = sampled.about.number;
      for (int32_t& value : reading.thousandths) value = -1;
      double values[kMostCounters] = {};
      try {
        sampled.host->evaluate(sampled.image, i, sampled.metrics, values);
      } catch (const std::runtime_error& error) {
        sampled.about.obstacle = error.what();
        return;
      }
      for (size_t k = 0; k < sampled.counters.size(); ++k) {
        const bool is_number = std::isfinite(values[k]) && values[k] >= 0 && values[k] <= 1e5;
        reading.thousandths[sampled.counters[k]] =
            is_number ? static_cast<int32_t>(std::lround(values[k] * 1e3)) : -1;
      }
      ClockBound& first = sampled.about.bounds.front();
      if (first.device_ns == 0) first.device_ns = reading.end_ns;  // it began before we did
      keep(reading);
    }
    auto fresh = pm::sized<pm::CounterDataInitializeParams>();
    fresh.sampling = sampled.sampling;
    fresh.bytes = sampled.image.size();
    fresh.image = sampled.image.data();
    if (library_.counter_data_initialize(&fresh) != cupti::kSuccess) return;
    if (info.completed_samples < kMostSamples) return;  // that was all
  }
}

void CounterSampler::end(Sampled& sampled) {
  auto params = pm::sized<pm::SamplingParams>();
  params.sampling = sampled.sampling;
  if (sampled.is_on) {
    const int64_t before_ns = Clock::now_ns();
    library_.stop(&params);
    const int64_t after_ns = Clock::now_ns();
    decode(sampled);
    sampled.is_on = false;
    const std::lock_guard lock(mutex_);
    for (auto reading = readings_.rbegin(); reading != readings_.rend(); ++reading) {
      if (reading->device != sampled.about.number) continue;
      sampled.about.bounds.push_back({reading->end_ns, before_ns, after_ns});
      break;
    }
  }
  if (sampled.sampling) library_.disable(&params);
  sampled.sampling = nullptr;
  sampled.host.reset();
}

void CounterSampler::note(const CounterDevice& device) const {
  if (!turn_.is_mine()) return;
  const auto size = [](const auto& values) { return static_cast<uint32_t>(values.size()); };
  const CounterDeviceEntry entry{device.number,         device.overflowed,   size(device.chip),
                                 size(device.obstacle), size(device.bounds), 0};
  std::string text = device.chip + device.obstacle;
  text.append(bytes_of(device.bounds));
  for (const std::string& metric : device.metrics) text.append(metric).push_back('\0');
  Stream::instance().note(Entry::kCounterDevice, entry, text);
}

std::vector<CounterDevice> CounterSampler::devices() const {
  const std::lock_guard lock(mutex_);
  return devices_;
}

}  // namespace stepscope
