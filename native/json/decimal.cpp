#include "json/decimal.h"

#include <algorithm>
#include <charconv>

namespace stepscope::json {
namespace {

constexpr int32_t kRestPerNs = 1'000'000;
constexpr int kRestDigits = 6;
constexpr int kNsDigits = 3;         // decimals of a microsecond that make whole ns
constexpr int kMaxWholeDigits = 19;  // of any number of ns up to kMaxTimeNs
constexpr int64_t kMaxExponent = 100'000;

// The digits of a number, and where its point is.
struct Digits {
  std::string_view whole;
  std::string_view decimals;
  int64_t exponent = 0;
  bool negative = false;

  char at(size_t i) const { return i < whole.size() ? whole[i] : decimals[i - whole.size()]; }
  size_t size() const { return whole.size() + decimals.size(); }
};

std::string_view take_digits(std::string_view& text) {
  size_t n = 0;
  while (n < text.size() && is_digit(text[n])) ++n;
  const std::string_view digits = text.substr(0, n);
  text.remove_prefix(n);
  return digits;
}

std::optional<Digits> split(std::string_view text) {
  Digits out;
  if (!text.empty() && (text.front() == '-' || text.front() == '+')) {
    out.negative = text.front() == '-';
    text.remove_prefix(1);
  }
  out.whole = take_digits(text);
  if (!text.empty() && text.front() == '.') {
    text.remove_prefix(1);
    out.decimals = take_digits(text);
  }
  if (out.size() == 0) return std::nullopt;
  if (!text.empty() && (text.front() == 'e' || text.front() == 'E')) {
    text.remove_prefix(1);
    const bool down = !text.empty() && text.front() == '-';
    if (!text.empty() && (down || text.front() == '+')) text.remove_prefix(1);
    const std::string_view digits = take_digits(text);
    if (digits.empty()) return std::nullopt;
    for (const char c : digits) {
      out.exponent = std::min(out.exponent * 10 + (c - '0'), kMaxExponent);
    }
    if (down) out.exponent = -out.exponent;
  }
  return text.empty() ? std::optional(out) : std::nullopt;
}

Time clamped(bool negative) { return {.ns = negative ? -kMaxTimeNs : kMaxTimeNs, .clamped = true}; }

}  // namespace

std::optional<int64_t> parse_integer(std::string_view text) {
  const std::string_view digits = !text.empty() && text[0] == '-' ? text.substr(1) : text;
  if (digits.empty() || !is_digit(digits[0])) return std::nullopt;
  if (digits[0] == '0' && text.size() > 1) return std::nullopt;  // 007 and -0 stay as they are
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

Time parse_microseconds(std::string_view text) {
  const std::optional<Digits> digits = split(text);
  if (!digits) return {.valid = false};
  // Digits before the one of a whole ns, which those of the rest follow.
  const int64_t whole_digits =
      static_cast<int64_t>(digits->whole.size()) + kNsDigits + digits->exponent;
  uint64_t ns = 0;
  int32_t rest = 0;
  bool more = false;
  for (size_t i = 0; i < digits->size(); ++i) {
    const char c = digits->at(i);
    const auto place = whole_digits - static_cast<int64_t>(i);  // 1 for the digit of a ns
    if (place > 0) {
      if (c != '0' && place > kMaxWholeDigits) return clamped(digits->negative);
      ns = ns * 10 + static_cast<uint64_t>(c - '0');
    } else if (place > -kRestDigits) {
      rest = rest * 10 + (c - '0');
    } else {
      more = more || c != '0';
    }
  }
  // Digits that the text leaves out.
  const auto size = static_cast<int64_t>(digits->size());
  for (int64_t i = size; ns > 0 && i < whole_digits; ++i) ns *= 10;
  if (ns >= static_cast<uint64_t>(kMaxTimeNs)) return clamped(digits->negative);
  const int64_t written = std::clamp<int64_t>(size - whole_digits, 0, kRestDigits);
  for (int64_t i = written; i < kRestDigits; ++i) rest *= 10;
  Time time{.ns = static_cast<int64_t>(ns), .rest = rest};
  if (digits->negative) {
    const int32_t up = rest + (more ? 1 : 0);
    time.ns = -time.ns - (up > 0 ? 1 : 0);
    time.rest = up > 0 ? kRestPerNs - up : 0;
  }
  return time;
}

int64_t rounded_ns(const Time& time) { return time.ns + (time.rest * 2 >= kRestPerNs ? 1 : 0); }

int64_t rounded_duration_ns(const Time& start, const Time& duration) {
  const int32_t rest = start.rest + duration.rest;
  const Time end{.ns = start.ns + duration.ns + rest / kRestPerNs, .rest = rest % kRestPerNs};
  return rounded_ns(end) - rounded_ns(start);
}

}  // namespace stepscope::json
