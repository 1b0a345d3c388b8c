// Texts of any bytes as valid UTF-8 JSON.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace stepscope::json {

// Returns `text` as a JSON string with its quotes. What is not UTF-8 becomes U+FFFD.
std::string quoted(std::string_view text);

// Returns `"key": value, ...` pairs (JSON without its braces) with what real files hold but JSON
// forbids mended: raw control characters and stray backslashes inside strings, broken UTF-8, bare
// NaN and Infinity (which become strings).
std::string mended_fragment(std::string_view fragment);

// Interned texts in their JSON form, each made once, when it is first asked for.
class JsonTexts {
 public:
  // Text i is blob[offsets[i] .. offsets[i + 1]); both must outlive this.
  JsonTexts(std::string_view blob, std::span<const int64_t> offsets);

  size_t size() const { return offsets_.size() - 1; }

  std::string_view literal(uint32_t id) {
    if (literals_[id].data() == nullptr) literals_[id] = keep(quoted(text(id)));
    return literals_[id];
  }
  std::string_view fragment(uint32_t id) {
    if (fragments_[id].data() == nullptr) fragments_[id] = keep(mended_fragment(text(id)));
    return fragments_[id];
  }

 private:
  std::string_view text(uint32_t id) const;
  std::string_view keep(std::string&& made);

  std::string_view blob_;
  std::span<const int64_t> offsets_;
  std::vector<std::string_view> literals_;
  std::vector<std::string_view> fragments_;
  std::deque<std::string> owned_;  // a deque never moves what the views point at
};

}  // namespace stepscope::json
