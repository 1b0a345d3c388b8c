// Text to small numbers, once for the whole recording; threads keep a cache of their own.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <deque>
#include <memory_resource>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "stream/lasting_format.h"

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

// Of two texts of a program the same by a chance of one in 10^19 only, and never where one word
// differs: it stands for the text.
struct TextPrint {
  uint64_t first = 0;
  uint64_t second = 0;

  explicit TextPrint(std::string_view text);
  TextPrint() = default;

  uint64_t hash() const;
  bool operator==(const TextPrint&) const = default;
};

// A thread's cache of the ids of texts it has seen, so that no lock is taken for them, and no text
// is read but the one that is looked for. Each has two places: of the texts that share them, the
// latest two are cached.
template <unsigned kBits>
class TextCache {
 public:
  uint32_t find(Interner& interner, std::string_view text) {
    const TextPrint print(text);
    Slots& slots = slots_[print.hash() >> (64 - kBits)];
    for (const Slot& slot : slots.both) {
      if (slot.print == print && slot.id != kNone) [[likely]]
        return slot.id;
    }
    slots.both[1] = slots.both[0];
    const uint32_t id = interner.intern(text).first;
    slots.both[0] = {print, id};
    return id;
  }
  void clear() { slots_.fill({}); }

 private:
  static constexpr uint32_t kNone = UINT32_MAX;
  struct Slot {
    TextPrint print;
    uint32_t id = kNone;
  };
  struct alignas(64) Slots {
    std::array<Slot, 2> both;
  };

  std::array<Slots, size_t{1} << kBits> slots_{};
};

}  // namespace stepscope
