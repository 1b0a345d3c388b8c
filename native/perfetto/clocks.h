// The clocks of a Perfetto trace: times of any of them as times of one.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace stepscope::perfetto {

class Clocks {
 public:
  // False: not all of it could be understood.
  bool add_snapshot(std::string_view bytes, uint32_t sequence);
  // The time in a packet on the clock of the trace; nothing when the clock is not known.
  std::optional<uint64_t> convert(uint64_t clock, uint32_t sequence, uint64_t time);
  // Added to times of the trace it gives the time of day.
  std::optional<int64_t> wall_offset_ns() const { return wall_offset_ns_; }

 private:
  struct Point {
    uint64_t clock_ns;
    uint64_t trace_ns;
  };
  struct Clock {
    std::vector<Point> points;  // ascending
    uint64_t multiplier = 1;
    bool is_incremental = false;
    uint64_t last_ns = 0;
  };
  struct Reading {
    uint64_t key;
    uint64_t ns;
  };

  static uint64_t key_of(uint64_t clock, uint32_t sequence);
  static uint64_t on_trace(const Clock& clock, uint64_t ns);
  std::optional<uint64_t> trace_time(const std::vector<Reading>& readings);

  std::optional<uint64_t> trace_clock_;
  std::optional<int64_t> wall_offset_ns_;
  std::unordered_map<uint64_t, Clock> clocks_;
};

}  // namespace stepscope::perfetto
