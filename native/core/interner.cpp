#include "core/interner.h"

#include <algorithm>
#include <cstring>
#include <tuple>

namespace stepscope {
namespace {

uint64_t text_hash(std::string_view text) {
  constexpr uint64_t kGolden = 0x9E3779B97F4A7C15ULL;
  const auto mixed = [](uint64_t hash, const char* bytes, size_t count) {
    uint64_t word = 0;
    std::memcpy(&word, bytes, count);
    hash = (hash ^ word) * kGolden;
    return hash ^ hash >> 32;
  };
  uint64_t hash = text.size();
  const char* at = text.data();
  size_t left = text.size();
  for (; left > sizeof(uint64_t); left -= sizeof(uint64_t), at += sizeof(uint64_t)) {
    hash = mixed(hash, at, sizeof(uint64_t));
  }
  return mixed(hash, at, left) * kGolden;
}

}  // namespace

Interner::Interner() { intern(""); }

std::pair<uint32_t, std::string_view> Interner::intern(std::string_view text) {
  const std::lock_guard lock(mutex_);
  if (const auto found = ids_.find(text); found != ids_.end()) return {found->second, found->first};
  const std::string& kept = texts_.emplace_back(text);
  const auto id = static_cast<uint32_t>(texts_.size() - 1);
  ids_.emplace(kept, id);
  return {id, kept};
}

std::vector<std::string_view> Interner::texts() const {
  const std::lock_guard lock(mutex_);
  return {texts_.begin(), texts_.end()};
}

uint32_t TextCache::find(Interner& interner, std::string_view text) {
  Slot& slot = slots_[text_hash(text) >> (64 - kBits)];
  if (!slot.text.data() || slot.text != text) std::tie(slot.id, slot.text) = interner.intern(text);
  return slot.id;
}

}  // namespace stepscope
