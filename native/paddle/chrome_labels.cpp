#include "paddle/chrome_labels.h"

#include <algorithm>
#include <array>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

#include "json/decimal.h"

namespace stepscope::paddle {
namespace {

constexpr std::string_view kSeparator = ", ";
constexpr int64_t kMostMicroseconds = INT64_MAX / 1000 - 1;

// `12.345`: digits, a point, three digits. In thousandths; nothing for any other text.
std::optional<int64_t> parse_decimal(std::string_view text) {
  const bool is_negative = text.starts_with('-');
  if (is_negative) text.remove_prefix(1);
  const size_t point = text.find('.');
  if (point == 0 || point == std::string_view::npos || text.size() - point != 4) return {};
  int64_t whole = 0;
  for (const char c : text.substr(0, point)) {
    if (!json::is_digit(c) || whole > kMostMicroseconds / 10) return {};
    whole = whole * 10 + (c - '0');
  }
  int64_t thousandths = whole * 1000;
  int64_t place = 100;
  for (const char c : text.substr(point + 1)) {
    if (!json::is_digit(c)) return {};
    thousandths += (c - '0') * place;
    place /= 10;
  }
  return is_negative ? -thousandths : thousandths;
}

// Takes `"key": "12.345 us"` out of a fragment and returns its ns.
std::optional<int64_t> take_time(std::string& fragment, std::string_view opening) {
  constexpr std::string_view kClosing = " us\"";
  const size_t begin = fragment.find(opening);
  if (begin == std::string::npos) return {};
  const size_t from = begin + opening.size();
  const size_t to = fragment.find(kClosing, from);
  if (to == std::string::npos) return {};
  const auto time = parse_decimal(std::string_view(fragment).substr(from, to - from));
  if (!time) return {};
  size_t end = to + kClosing.size();
  size_t start = begin;
  const std::string_view text = fragment;
  if (text.substr(end).starts_with(kSeparator)) {
    end += kSeparator.size();
  } else if (text.substr(0, start).ends_with(kSeparator)) {
    start -= kSeparator.size();
  }
  fragment.erase(start, end - start);
  return time;
}

class CheckedTexts {
 public:
  CheckedTexts(std::string_view blob, std::span<const int64_t> offsets)
      : blob_(blob), offsets_(offsets) {}

  std::string_view operator[](uint32_t id) const {
    if (size_t{id} + 1 >= offsets_.size()) throw std::invalid_argument("an id without a text");
    const auto from = static_cast<size_t>(offsets_[id]);
    const auto to = static_cast<size_t>(offsets_[id + 1]);
    if (from > to || to > blob_.size()) throw std::invalid_argument("offsets that do not ascend");
    return blob_.substr(from, to - from);
  }

 private:
  std::string_view blob_;
  std::span<const int64_t> offsets_;
};

}  // namespace

std::string_view without_duration(std::string_view name) {
  constexpr std::array<std::string_view, 4> kUnits = {" ns]", " us]", " ms]", " s]"};
  for (const std::string_view unit : kUnits) {
    if (!name.ends_with(unit)) continue;
    const size_t bracket = name.rfind('[');
    if (bracket == std::string_view::npos) return name;
    const std::string_view number =
        name.substr(bracket + 1, name.size() - unit.size() - bracket - 1);
    return parse_decimal(number) ? name.substr(0, bracket) : name;
  }
  return name;
}

Unlabeled unlabel(std::string_view blob, std::span<const int64_t> offsets,
                  std::span<const uint32_t> name, std::span<const uint32_t> rest) {
  if (!rest.empty() && rest.size() != name.size()) {
    throw std::invalid_argument("name and rest differ in length");
  }
  const CheckedTexts texts(blob, offsets);
  Unlabeled out;
  std::string fragment;
  for (size_t row = 0; row < name.size(); ++row) {
    out.name.push_back(out.strings.intern(without_duration(texts[name[row]])));
    fragment.assign(rest.empty() ? std::string_view{} : texts[rest[row]]);
    const auto start = take_time(fragment, "\"start_time\": \"");
    const auto end = take_time(fragment, "\"end_time\": \"");
    out.start_ns.push_back(start.value_or(kUntold));
    out.end_ns.push_back(end.value_or(kUntold));
    out.rest.push_back(out.strings.intern(fragment));
  }
  return out;
}

}  // namespace stepscope::paddle
