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

// How many more numbers there may be, in all tables together. They come from files that anybody may
// have changed; who wrote them counted from 0 and wrote an entry for each.
class NumberRoom {
 public:
  void add_entries(size_t bytes) { left_ += bytes / kSmallestEntry; }

  // Null for a number that nobody gave out: it may not ask for all memory there is.
  template <typename T>
  T* place(std::vector<T>& all, uint32_t number) {
    if (all.size() <= number) {
      const size_t more = number + size_t{1} - all.size();
      if (more > left_) return nullptr;
      left_ -= more;
      all.resize(number + size_t{1});
    }
    return &all[number];
  }

 private:
  static constexpr size_t kSmallestEntry = 16;
  static constexpr size_t kLostEntries = size_t{1} << 20;  // that may have been in lost memory

  size_t left_ = kLostEntries;
};

}  // namespace stepscope
