// Text to small numbers, once for the whole recording; threads keep a cache of their own.
#pragma once

#include <cstdint>
#include <deque>
#include <memory_resource>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/lasting_format.h"
#include "stepscope/text_cache.h"

namespace stepscope {

// An operator's overload rides behind its name, after this byte.
inline constexpr char kOverloadMark = '\0';

class Interner {
 public:
  Interner() : Interner(0, TextSpace::kLabels) {}
  // Its texts are noted in the stream, where there is one: of this recording, and of this kind.
  Interner(uint32_t generation, TextSpace space);

  // The id and the lasting copy of a text, which a zero follows.
  std::pair<uint32_t, std::string_view> intern(std::string_view text);

  std::string text(uint32_t id) const;
  // All texts by id, at this moment; id 0 is "".
  std::vector<std::string_view> texts() const;

 private:
  const uint32_t generation_;  // 0: of none
  const TextSpace space_;
  mutable std::mutex mutex_;
  std::pmr::monotonic_buffer_resource memory_;         // texts are never given back before the end
  std::pmr::deque<std::pmr::string> texts_{&memory_};  // a deque never moves its elements
  std::pmr::unordered_map<std::string_view, uint32_t> ids_{&memory_};
};

uint64_t text_hash(std::string_view text);

// The id of a text, from a thread's cache where that has it.
template <unsigned kBits>
uint32_t id_of(std::string_view text, TextCache<kBits>& cache, Interner& interner) {
  const TextPrint print(text);
  const uint32_t cached = cache.find(print);
  return cached != cache.kUnknown ? cached : cache.put(print, interner.intern(text).first);
}

}  // namespace stepscope
