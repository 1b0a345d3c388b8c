#include "json/string_table.h"

#include <chrono>
#include <cstring>
#include <limits>
#include <stdexcept>

#include "json/utf8.h"

namespace stepscope::json {
namespace {

__extension__ using Wide = unsigned __int128;

constexpr uint64_t kFirst = 0x9e3779b97f4a7c15U;
constexpr uint64_t kSecond = 0xd6e8feb86659fd93U;

uint64_t mix(uint64_t a, uint64_t b) {
  const Wide product = static_cast<Wide>(a) * b;
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

template <typename Word>
uint64_t load(const char* p) {
  Word word;
  std::memcpy(&word, p, sizeof word);
  return word;
}

}  // namespace

// A seed of its own for each table: a file cannot be made so that its strings collide.
StringTable::StringTable()
    : slots_(1024),
      seed_(mix(static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count()) ^
                    kFirst,
                reinterpret_cast<uintptr_t>(this) ^ kSecond)) {}

uint64_t StringTable::hash_of(std::string_view text) const {
  const char* p = text.data();
  size_t bytes_to_hash = text.size();
  uint64_t hash = seed_ ^ bytes_to_hash;
  for (; bytes_to_hash > 16; p += 16, bytes_to_hash -= 16) {
    hash = mix(load<uint64_t>(p) ^ hash, load<uint64_t>(p + 8) ^ kFirst);
  }
  uint64_t low = 0;
  uint64_t high = 0;
  if (bytes_to_hash >= 8) {
    low = load<uint64_t>(p);
    high = load<uint64_t>(p + bytes_to_hash - 8);
  } else if (bytes_to_hash >= 4) {
    low = load<uint32_t>(p);
    high = load<uint32_t>(p + bytes_to_hash - 4);
  } else if (bytes_to_hash > 0) {
    low = load<uint8_t>(p) | load<uint8_t>(p + bytes_to_hash / 2) << 8 |
          load<uint8_t>(p + bytes_to_hash - 1) << 16;
  }
  return mix(mix(low ^ hash, high ^ kSecond), kFirst);
}

StringTable::Slot& StringTable::slot_of(std::string_view text, uint64_t hash) {
  const size_t mask = slots_.size() - 1;
  const auto tag = static_cast<uint32_t>(hash >> 32);
  for (size_t i = hash & mask;; i = (i + 1) & mask) {
    Slot& slot = slots_[i];
    if (slot.id == 0 || (slot.hash == tag && (*this)[slot.id] == text)) return slot;
  }
}

uint32_t StringTable::insert(Slot& slot, std::string_view text, uint64_t hash) {
  if (size() == std::numeric_limits<uint32_t>::max()) {
    throw std::length_error("more than four billion different strings");
  }
  const uint32_t id = size();
  blob_.insert(blob_.end(), text.begin(), text.end());
  offsets_.push_back(static_cast<int64_t>(blob_.size()));
  slot = {static_cast<uint32_t>(hash >> 32), id};
  if (size_t{size()} * 2 > slots_.size()) grow();
  return id;
}

void StringTable::grow() {
  slots_.assign(slots_.size() * 2, {});
  const size_t mask = slots_.size() - 1;
  for (uint32_t id = 1; id < size(); ++id) {
    const uint64_t hash = hash_of((*this)[id]);
    size_t i = hash & mask;
    while (slots_[i].id != 0) i = (i + 1) & mask;
    slots_[i] = {static_cast<uint32_t>(hash >> 32), id};
  }
}

uint32_t StringTable::intern(std::string_view text) {
  if (text.empty()) return 0;
  const uint64_t hash = hash_of(text);
  Slot& slot = slot_of(text, hash);
  return slot.id != 0 ? slot.id : insert(slot, text, hash);
}

bool StringTable::contains(std::string_view text) {
  return text.empty() || slot_of(text, hash_of(text)).id != 0;
}

uint32_t StringTable::intern_text(std::string_view text) {
  if (text.empty()) return 0;
  const uint64_t hash = hash_of(text);
  Slot& slot = slot_of(text, hash);
  if (slot.id != 0) return slot.id;
  return is_utf8(text) ? insert(slot, text, hash) : intern(replace_invalid_utf8(text));
}

}  // namespace stepscope::json
