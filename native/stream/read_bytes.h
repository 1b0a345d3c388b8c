// Numbers and texts out of bytes that anybody may have changed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

namespace stepscope {

// Takes it off the front; false when there is not as much.
template <typename T>
bool take(std::string_view& bytes, T& value) {
  if (bytes.size() < sizeof(T)) return false;
  std::memcpy(static_cast<void*>(&value), bytes.data(), sizeof(T));
  bytes.remove_prefix(sizeof(T));
  return true;
}

inline std::string_view take_text(std::string_view& bytes, size_t size) {
  const std::string_view text = bytes.substr(0, size);
  bytes.remove_prefix(text.size());
  return text;
}

template <typename T>
std::vector<T> all_of(std::string_view bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  if (!values.empty())
    std::memcpy(static_cast<void*>(values.data()), bytes.data(), values.size() * sizeof(T));
  return values;
}

// Numbers come from a file that anybody may have changed: none may ask for all memory there is.
inline constexpr uint32_t kMostNumbered = 1U << 26;

template <typename T>
T* at_number(std::vector<T>& all, uint32_t number) {
  if (number >= kMostNumbered) return nullptr;
  if (all.size() <= number) all.resize(number + 1);
  return &all[number];
}

}  // namespace stepscope
