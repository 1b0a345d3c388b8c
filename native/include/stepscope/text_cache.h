// A thread's cache of the ids of texts it has seen: for the core and for the bridges, inline in
// both.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace stepscope {

// Of two texts of a program the same by a chance of one in 10^19 only, and never where one word
// differs: it stands for the text.
struct TextPrint {
  uint64_t first = 0;
  uint64_t second = 0;

  TextPrint() = default;
  // Two chains of multiplications, neither of which waits for the other.
  explicit TextPrint(std::string_view text) : first(text.size()), second(~first) {
    constexpr size_t kWord = sizeof(uint64_t);
    const char* at = text.data();
    size_t bytes_to_hash = text.size();
    for (; bytes_to_hash > 2 * kWord; bytes_to_hash -= 2 * kWord, at += 2 * kWord) {
      first = mixed(first, word_at(at));
      second = mixed(second, word_at(at + kWord));
    }
    if (bytes_to_hash >= kWord) {  // the last two words may overlap
      first = mixed(first, word_at(at));
      second = mixed(second, word_at(at + bytes_to_hash - kWord));
    } else {
      uint64_t word = 0;
      std::memcpy(&word, at, bytes_to_hash);
      first = mixed(first, word);
    }
  }

  uint64_t hash() const { return mixed(first, second) * kFactor; }
  bool operator==(const TextPrint& other) const {
    return first == other.first && second == other.second;
  }

 private:
  static constexpr uint64_t kFactor = 0x9E3779B97F4A7C15ULL;

  static uint64_t word_at(const char* bytes) {
    uint64_t word = 0;
    std::memcpy(&word, bytes, sizeof(word));
    return word;
  }
  static uint64_t mixed(uint64_t hash, uint64_t word) {
    hash = (hash ^ word) * kFactor;
    return hash ^ hash >> 32;
  }
};

// No lock is taken for what it knows, and no text is read but the one that is looked for. Each text
// has two places: of those that share them, the latest two are cached.
template <unsigned kBits>
class TextCache {
 public:
  static constexpr uint32_t kUnknown = UINT32_MAX;

  uint32_t find(const TextPrint& print) const {
    for (const Slot& slot : slots_[print.hash() >> (64 - kBits)].both) {
      if (slot.print == print && slot.id != kUnknown) return slot.id;
    }
    return kUnknown;
  }
  // The id of a text that was not found.
  uint32_t put(const TextPrint& print, uint32_t id) {
    Slots& slots = slots_[print.hash() >> (64 - kBits)];
    slots.both[1] = slots.both[0];
    slots.both[0] = {print, id};
    return id;
  }
  void clear() { slots_.fill({}); }

 private:
  struct Slot {
    TextPrint print;
    uint32_t id = kUnknown;
  };
  struct alignas(64) Slots {
    std::array<Slot, 2> both;
  };

  std::array<Slots, size_t{1} << kBits> slots_{};
};

}  // namespace stepscope
