#include "perfetto/fragments.h"

#include <bit>
#include <charconv>
#include <cmath>

#include "json/scanner.h"

namespace stepscope::perfetto {
namespace {

template <typename Number>
bool is_whole(std::string_view text, Number& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && end == text.data() + text.size();
}

// A number or a word of JSON; false for what has no form of its own: null, huge integers.
bool as_scalar(std::string_view text, Annotation& out) {
  int64_t integer = 0;
  double number = 0;
  if (text == "true" || text == "false") {
    out.kind = Annotation::Kind::kBool;
    out.bits = text == "true" ? 1 : 0;
  } else if (is_whole(text, integer)) {
    out.kind = Annotation::Kind::kInteger;
    out.bits = static_cast<uint64_t>(integer);
  } else if (text.find_first_of(".eE") != std::string_view::npos && is_whole(text, number) &&
             std::isfinite(number)) {
    out.kind = Annotation::Kind::kDouble;
    out.bits = std::bit_cast<uint64_t>(number);
  } else {
    return false;
  }
  return true;
}

}  // namespace

bool looks_like_json(std::string_view text) {
  return text.starts_with('[') || text.starts_with('{') || text == "null";
}

const std::vector<Annotation>& Fragments::of(uint32_t id, std::string_view fragment) {
  const auto [place, is_new] = annotations_.try_emplace(id);
  if (is_new) take_apart(fragment, place->second);
  return place->second;
}

void Fragments::take_apart(std::string_view fragment, std::vector<Annotation>& out) {
  room_.assign(fragment);
  room_.append(json::kPadding, '"');
  const char* p = json::skip_space(room_.data());
  const char* end = room_.data() + fragment.size();
  while (p < end) {
    json::Value key;
    json::Value value;
    p = json::scan_key(p, end, key);
    if (p == nullptr || p >= end) return;
    p = json::scan_value(p, end, value);
    if (p == nullptr || p > end) return;
    Annotation made;
    decoded_.clear();
    json::append_decoded(decoded_, key.inner());
    made.key = texts_.intern_text(decoded_);
    if (value.kind != json::Kind::kScalar || !as_scalar(value.text, made)) {
      const bool is_string = value.kind == json::Kind::kString;
      decoded_.clear();
      if (is_string) {
        json::append_decoded(decoded_, value.inner());
      } else {
        json::append_value(decoded_, value);
      }
      made.kind = is_string && looks_like_json(decoded_) ? Annotation::Kind::kPlainText
                                                         : Annotation::Kind::kText;
      made.bits = texts_.intern_text(decoded_);
    }
    out.push_back(made);
    p = json::skip_space(p);
    if (p < end && *p == ',') p = json::skip_space(p + 1);
  }
}

}  // namespace stepscope::perfetto
