#include "core/interner.h"

#include <cstring>

#include "core/own_pages.h"
#include "stream/stream.h"

namespace stepscope {
namespace {

constexpr size_t kFirstBytes = size_t{1} << 16;

uint64_t word_at(const char* bytes) {
  uint64_t word = 0;
  std::memcpy(&word, bytes, sizeof(word));
  return word;
}

uint64_t mixed(uint64_t hash, uint64_t word) {
  hash = (hash ^ word) * 0x9E3779B97F4A7C15ULL;
  return hash ^ hash >> 32;
}

}  // namespace

// Two chains of multiplications, neither of which waits for the other.
TextPrint::TextPrint(std::string_view text) : first(text.size()), second(~first) {
  constexpr size_t kWord = sizeof(uint64_t);
  const char* at = text.data();
  size_t left = text.size();
  for (; left > 2 * kWord; left -= 2 * kWord, at += 2 * kWord) {
    first = mixed(first, word_at(at));
    second = mixed(second, word_at(at + kWord));
  }
  if (left >= kWord) {  // the last two words may overlap
    first = mixed(first, word_at(at));
    second = mixed(second, word_at(at + left - kWord));
  } else {
    uint64_t word = 0;
    std::memcpy(&word, at, left);
    first = mixed(first, word);
  }
}

uint64_t TextPrint::hash() const { return mixed(first, second) * 0x9E3779B97F4A7C15ULL; }

uint64_t text_hash(std::string_view text) { return TextPrint(text).hash(); }

Interner::Interner(uint32_t generation, TextSpace space)
    : generation_(generation), space_(space), memory_(kFirstBytes, &OwnPages::instance()) {
  intern("");
}

std::pair<uint32_t, std::string_view> Interner::intern(std::string_view text) {
  const std::lock_guard lock(mutex_);
  if (const auto found = ids_.find(text); found != ids_.end()) return {found->second, found->first};
  const std::string_view kept = texts_.emplace_back(text);
  const auto id = static_cast<uint32_t>(texts_.size() - 1);
  ids_.emplace(kept, id);
  if (generation_ && Stream::is_on()) {
    const TextEntry entry{generation_, static_cast<uint32_t>(space_), id, 0};
    Stream::instance().note(Entry::kText, entry, kept);
  }
  return {id, kept};
}

std::string Interner::text(uint32_t id) const {
  const std::lock_guard lock(mutex_);
  return std::string(texts_[id]);
}

std::vector<std::string_view> Interner::texts() const {
  const std::lock_guard lock(mutex_);
  return {texts_.begin(), texts_.end()};
}

}  // namespace stepscope
