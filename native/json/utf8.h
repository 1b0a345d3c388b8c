// UTF-8: writing it, and making sure of it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace stepscope::json {

// Half a surrogate pair is written as U+FFFD.
void append_utf8(std::string& out, uint32_t code);

bool is_utf8(std::string_view text);

// Each part that is not UTF-8 becomes one U+FFFD, as Unicode recommends.
std::string replace_invalid_utf8(std::string_view text);

// The same, faster for texts that are UTF-8 already.
inline std::string valid_utf8(std::string_view text) {
  return is_utf8(text) ? std::string(text) : replace_invalid_utf8(text);
}

}  // namespace stepscope::json
