// Numbers from their decimal text, without float64: it moves the times of a trace.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string_view>

namespace stepscope::json {

inline bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Eight characters at once, if all are digits.
inline bool take_eight_digits(const char* p, uint64_t& value) {
  uint64_t word;
  std::memcpy(&word, p, sizeof word);
  if (((word & 0xf0f0f0f0f0f0f0f0U) |
       (((word + 0x0606060606060606U) & 0xf0f0f0f0f0f0f0f0U) >> 4)) != 0x3333333333333333U) {
    return false;
  }
  // Neighbours are joined: digits to pairs, pairs to fours, fours to eight.
  word = (word & 0x0f0f0f0f0f0f0f0fU) * (1 + (10U << 8)) >> 8;
  word = (word & 0x00ff00ff00ff00ffU) * (1 + (100U << 16)) >> 16;
  word = (word & 0x0000ffff0000ffffU) * (1 + (uint64_t{10'000} << 32)) >> 32;
  value = value * 100'000'000 + word;
  return true;
}

// Adds the digits at p to the value; more than kMaxShortDigits may overflow it. The text must be
// followed by eight bytes that can be read, the first of which is not a digit.
inline constexpr int kMaxShortDigits = 18;
inline const char* scan_digits(const char* p, uint64_t& value) {
  if constexpr (std::endian::native == std::endian::little) {
    while (take_eight_digits(p, value)) p += 8;
  }
  while (*p >= '0' && *p <= '9') value = value * 10 + static_cast<uint64_t>(*p++ - '0');
  return p;
}

// The integer that the text spells, if it is one, fits, and would be spelled the same again.
std::optional<int64_t> parse_integer(std::string_view text);

// No time is farther from 0 than this, so that a start and a duration can be added.
inline constexpr int64_t kMaxTimeNs = (int64_t{1} << 62) - 4;

inline constexpr int kMaxShortTimeDigits = 16;  // of whole microseconds; as ns they fit 64 bits

struct Time {
  int64_t ns = 0;     // rounded down
  int32_t rest = 0;   // what is left, in millionths of a ns
  bool valid = true;  // false: the text is not a number; ns is 0
  bool clamped = false;
};

// From microseconds with any number of decimals, with or without an exponent.
Time parse_microseconds(std::string_view text);

// To the nearest ns, the later one of two.
int64_t rounded_ns(const Time& time);

// The end is rounded, not the duration: what was nested stays nested.
int64_t rounded_duration_ns(const Time& start, const Time& duration);

}  // namespace stepscope::json
