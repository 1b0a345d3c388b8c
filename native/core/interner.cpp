#include "core/interner.h"

#include "core/own_pages.h"
#include "core/stream.h"

namespace stepscope {
namespace {

constexpr size_t kFirstBytes = size_t{1} << 16;

}  // namespace

uint64_t text_hash(std::string_view text) { return TextPrint(text).hash(); }

Interner::Interner(uint32_t generation, TextSpace space)
    : generation_(generation), space_(space), memory_(kFirstBytes, &OwnPages::instance()) {
  intern("");
}

std::pair<uint32_t, std::string_view> Interner::intern(std::string_view text) {
  const std::lock_guard lock(mutex_);
  if (const auto entry = ids_.find(text); entry != ids_.end()) return {entry->second, entry->first};
  const std::string_view copy = texts_.emplace_back(text);
  const auto id = static_cast<uint32_t>(texts_.size() - 1);
  ids_.emplace(copy, id);
  if (generation_ && Stream::is_on()) {
    const TextEntry entry{generation_, static_cast<uint32_t>(space_), id, 0};
    Stream::instance().note(Entry::kText, entry, copy);
  }
  return {id, copy};
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
