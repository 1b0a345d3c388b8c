#include "json/json_escape.h"

#include <array>
#include <utility>

#include "json/scanner.h"
#include "json/utf8.h"

namespace stepscope::json {
namespace {

bool is_control(char c) { return static_cast<unsigned char>(c) < 0x20; }

// The bare word at the front of `text` that JSON does not know, or nothing.
std::string_view forbidden_word(std::string_view text) {
  constexpr std::array<std::string_view, 3> kWords = {"NaN", "Infinity", "-Infinity"};
  for (const std::string_view word : kWords) {
    if (text.starts_with(word)) return word;
  }
  return {};
}

// Appends what stands at the front of `text`, inside a string, and returns its length.
size_t append_inside_string(std::string& out, std::string_view text) {
  if (text[0] == '\\') {
    const bool is_escape = escape_length(text) > 0;
    out += is_escape ? text.substr(0, 2) : "\\\\";
    return is_escape ? 2 : 1;
  }
  if (is_control(text[0])) {
    append_control(out, text[0]);
  } else {
    out += text[0];
  }
  return 1;
}

// Appends what stands at the front of `text`, outside of strings, and returns its length.
size_t append_outside_string(std::string& out, std::string_view text) {
  const std::string_view word = forbidden_word(text);
  if (word.empty()) {
    out += text[0];
    return 1;
  }
  out += '"';
  out += word;
  out += '"';
  return word.size();
}

}  // namespace

std::string quoted(std::string_view text) {
  if (!is_utf8(text)) return quoted(replace_invalid_utf8(text));
  std::string out;
  out.reserve(text.size() + 2);
  append_quoted(out, text);
  return out;
}

std::string mended_fragment(std::string_view fragment) {
  if (!is_utf8(fragment)) return mended_fragment(replace_invalid_utf8(fragment));
  std::string out;
  out.reserve(fragment.size());
  bool in_string = false;
  for (size_t i = 0; i < fragment.size();) {
    const std::string_view text = fragment.substr(i);
    if (text[0] == '"') {
      in_string = !in_string;
      out += '"';
      ++i;
    } else {
      i += in_string ? append_inside_string(out, text) : append_outside_string(out, text);
    }
  }
  return out;
}

JsonTexts::JsonTexts(std::string_view blob, std::span<const int64_t> offsets)
    : blob_(blob),
      offsets_(offsets),
      literals_(offsets.size() - 1),
      fragments_(offsets.size() - 1) {}

std::string_view JsonTexts::text(uint32_t id) const {
  const auto begin = static_cast<size_t>(offsets_[id]);
  return blob_.substr(begin, static_cast<size_t>(offsets_[id + 1]) - begin);
}

std::string_view JsonTexts::keep(std::string&& made) {
  return owned_.emplace_back(std::move(made));
}

}  // namespace stepscope::json
