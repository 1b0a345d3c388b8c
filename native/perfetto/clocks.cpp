#include "perfetto/clocks.h"

#include <algorithm>

#include "perfetto/messages.h"
#include "protobuf/wire.h"

namespace stepscope::perfetto {

using protobuf::Field;
using protobuf::FlatMessage;
using protobuf::Got;
using protobuf::Wire;
using protobuf::WireReader;

uint64_t Clocks::key_of(uint64_t clock, uint32_t sequence) {
  const bool is_own = clock >= clock::kFirstOfSequence && clock <= clock::kLastOfSequence;
  return is_own ? (uint64_t{sequence} + 1) << 32 | clock : clock & UINT32_MAX;
}

uint64_t Clocks::on_trace(const Clock& clock, uint64_t ns) {
  auto after =
      std::upper_bound(clock.points.begin(), clock.points.end(), ns,
                       [](uint64_t time, const Point& point) { return time < point.clock_ns; });
  if (after != clock.points.begin()) --after;
  return after->trace_ns + (ns - after->clock_ns);
}

// The moment of a snapshot on the clock of the trace, by any clock in it that is known.
std::optional<uint64_t> Clocks::trace_time(const std::vector<Reading>& readings) {
  for (const Reading& reading : readings) {
    if (reading.key == trace_clock_) return reading.ns;
  }
  for (const Reading& reading : readings) {
    const auto place = clocks_.find(reading.key);
    if (place != clocks_.end() && !place->second.points.empty()) {
      return on_trace(place->second, reading.ns);
    }
  }
  return {};
}

bool Clocks::add_snapshot(std::string_view bytes, uint32_t sequence) {
  std::vector<Reading> readings;
  std::optional<uint64_t> primary;
  WireReader reader(bytes);
  Field field;
  Got got = Got::kField;
  while ((got = reader.next(field)) == Got::kField) {
    if (field.number == clock::kPrimary && field.wire == Wire::kVarint) primary = field.value;
    if (field.number != clock::kClocks || field.wire != Wire::kBytes) continue;
    FlatMessage<5> message;
    if (!message.read(field.bytes)) return false;
    const uint64_t key = key_of(message.number[clock::kId], sequence);
    Clock& state = clocks_[key];
    if (message.has(clock::kMultiplier)) state.multiplier = message.number[clock::kMultiplier];
    if (message.has(clock::kIsIncremental))
      state.is_incremental = message.number[clock::kIsIncremental];
    state.last_ns = message.number[clock::kTimestamp] * state.multiplier;
    readings.push_back({key, state.last_ns});
  }
  if (!trace_clock_) {
    const auto has = [&](uint64_t key) {
      return std::any_of(readings.begin(), readings.end(),
                         [&](const Reading& reading) { return reading.key == key; });
    };
    trace_clock_ = primary                                      ? *primary
                   : has(clock::kBoottime)                      ? clock::kBoottime
                   : has(clock::kMonotonic) || readings.empty() ? clock::kMonotonic
                                                                : readings.front().key;
  }
  const std::optional<uint64_t> now = trace_time(readings);
  if (!now) return got == Got::kEnd;
  for (const Reading& reading : readings) {
    std::vector<Point>& points = clocks_[reading.key].points;
    if (points.empty() || points.back().clock_ns < reading.ns) points.push_back({reading.ns, *now});
    if (reading.key == clock::kRealtime && !wall_offset_ns_) {
      wall_offset_ns_ = static_cast<int64_t>(reading.ns - *now);
    }
  }
  return got == Got::kEnd;
}

std::optional<uint64_t> Clocks::convert(uint64_t clock, uint32_t sequence, uint64_t time) {
  const uint64_t key = key_of(clock, sequence);
  const auto place = clocks_.find(key);
  if (place == clocks_.end()) {
    if (trace_clock_ && key != *trace_clock_) return {};
    return time;
  }
  Clock& state = place->second;
  uint64_t ns = time * state.multiplier;
  if (state.is_incremental) ns = state.last_ns += ns;
  if (key == trace_clock_) return ns;
  if (state.points.empty()) return {};
  return on_trace(state, ns);
}

}  // namespace stepscope::perfetto
