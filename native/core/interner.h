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

// The same for names. An operator's name stands at one address for the life of the process and is
// found by that; names made anew for each call are found by their text.
//
// The tables are small on purpose: every page of memory that an operator touches costs it time.
class NameCache {
 public:
  static constexpr uint32_t kIgnored = UINT32_MAX;

  // Have the place of find_at() in the cache when it is asked.
  void prefetch(const char* name) const { __builtin_prefetch(&by_address_[address_hash(name)]); }

  // The id of a name that is known to last at this address; null when there is none.
  const uint32_t* find_at(const char* name) const {
    const AddressSlot& slot = by_address_[address_hash(name)];
    return slot.address == name ? &slot.id : nullptr;
  }
  // Remember that the name lasts at this address.
  void keep_at(const char* name, uint32_t id) { by_address_[address_hash(name)] = {name, id}; }

  // kIgnored when the overload is null.
  uint32_t find_with_overload(Interner& interner, const char* name, const char* overload);
  uint32_t find_text(Interner& interner, std::string_view text) {
    return texts_.find(interner, text);
  }
  void clear();

 private:
  struct AddressSlot {
    const char* address = nullptr;
    uint32_t id = 0;
  };
  static constexpr unsigned kAddressBits = 9;

  static size_t address_hash(const char* name) {
    return static_cast<size_t>((reinterpret_cast<uintptr_t>(name) * 0x9E3779B97F4A7C15ULL) >>
                               (64 - kAddressBits));
  }

  std::array<AddressSlot, size_t{1} << kAddressBits> by_address_{};
  TextCache texts_;
  std::string scratch_;
};

}  // namespace stepscope
