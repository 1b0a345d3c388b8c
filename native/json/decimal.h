// Numbers from their decimal text, without float64: it moves the times of a trace.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace stepscope::json {

// The integer that the text spells, if it is one, fits, and would be spelled the same again.
std::optional<int64_t> parse_integer(std::string_view text);

// No time is farther from 0 than this, so that a start and a duration can be added.
inline constexpr int64_t kMaxTimeNs = (int64_t{1} << 62) - 4;

struct Time {
  int64_t ns = 0;     // rounded down
  int32_t rest = 0;   // what is left, in millionths of a ns
  bool valid = true;  // false: the text is no number; ns is 0
  bool clamped = false;
};

// From microseconds with any number of decimals, with or without an exponent.
Time parse_microseconds(std::string_view text);

// To the nearest ns, the later one of two.
int64_t rounded_ns(const Time& time);

// The end is rounded, not the duration: what was nested stays nested.
int64_t rounded_duration_ns(const Time& start, const Time& duration);

}  // namespace stepscope::json
