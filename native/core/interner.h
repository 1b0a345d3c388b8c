// Text to small numbers, once for the whole recording; threads keep a cache of their own.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <deque>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace stepscope {

// An operator's overload rides behind its name, after this byte.
inline constexpr char kOverloadMark = '\0';

class Interner {
 public:
  Interner();

  // The id and the lasting copy of a text, which a zero follows.
  std::pair<uint32_t, std::string_view> intern(std::string_view text);

  // All texts by id, at this moment; id 0 is "".
  std::vector<std::string_view> texts() const;

 private:
  mutable std::mutex mutex_;
  std::deque<std::string> texts_;  // a deque never moves its elements
  std::unordered_map<std::string_view, uint32_t> ids_;
};

// A thread's own way to the ids of texts it has seen, so that no lock is taken for them.
class TextCache {
 public:
  uint32_t find(Interner& interner, std::string_view text);
  void clear() { slots_.fill({}); }

 private:
  struct Slot {
    std::string_view text;
    uint32_t id = 0;
  };
  static constexpr unsigned kBits = 8;

  std::array<Slot, size_t{1} << kBits> slots_{};
};

}  // namespace stepscope
