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

// A thread's own way to the ids of names it has seen, so that no lock is taken for them. An
// operator's name stands at one address for the life of the process and is found by that; names
// made anew for each call are found by their text. A hit is always checked against the text.
class NameCache {
 public:
  // `overload` is called when the name is new at its address.
  template <typename Overload>
  uint32_t find(Interner& interner, const char* name, Overload overload) {
    Slot& slot = by_address_[address_hash(name)];
    if (slot.text && std::strcmp(slot.text, name) == 0) [[likely]]
      return slot.id;
    return slot.id = find_by_text(interner, slot, name, overload());
  }
  uint32_t find_text(Interner& interner, std::string_view text) {
    return slot_of(interner, text).id;
  }
  void clear();

 private:
  struct Slot {
    const char* text = nullptr;  // ends with a zero, as the interner keeps it
    uint32_t id = 0;
  };
  struct TextSlot {
    std::string_view text;
    uint32_t id = 0;
  };
  static constexpr unsigned kSlotBits = 10;
  static constexpr size_t kSlots = size_t{1} << kSlotBits;

  static size_t address_hash(const char* name) {
    return static_cast<size_t>((reinterpret_cast<uintptr_t>(name) * 0x9E3779B97F4A7C15ULL) >>
                               (64 - kSlotBits));
  }
  uint32_t find_by_text(Interner& interner, Slot& slot, const char* name, const char* overload);
  TextSlot& slot_of(Interner& interner, std::string_view text);

  std::array<Slot, kSlots> by_address_{};
  std::array<TextSlot, kSlots> by_text_{};
  std::string scratch_;
};

}  // namespace stepscope
