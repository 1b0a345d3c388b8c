// Keys of objects as numbers. Writers put the same keys between the same punctuation event after
// event: what stood between two values before is compared first, and most keys are never searched.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "json/scanner.h"
#include "json/string_table.h"

namespace stepscope::json {

struct Key {
  static constexpr uint32_t kEndOfObject = UINT32_MAX;

  uint32_t id = 0;  // 0: the empty key, or one too many
  bool verbatim = true;
  std::string_view text;  // with its quotes
};

class KeyScanner {
 public:
  // A file with more different keys than this keeps the integers of the others as text: a column a
  // key would cost more than it gives.
  static constexpr uint32_t kMaxKeys = 4096;

  explicit KeyScanner(StringTable& keys) : keys_(&keys), after_(1) {}

  // Gives a key the next free number.
  void add(std::string_view key);

  void begin_event() { state_ = 0; }

  // From behind a value or an opening brace to the next value, or behind the closing brace.
  const char* next(const char* p, const char* end, Key& out) {
    for (const Passage& passage : after_[state_]) {
      if (!passage.matches(p, end)) continue;
      out.id = passage.key;
      out.verbatim = passage.verbatim;
      out.text = {p + passage.key_at, passage.key_length};
      state_ = passage.state;
      p += passage.length;
      return passage.key == Key::kEndOfObject ? p : skip_space(p);
    }
    return search(p, end, out);
  }

 private:
  // What stands between two values, the second's key included.
  struct Passage {
    static constexpr size_t kWords = 6;

    uint32_t key = 0;
    uint32_t state = 0;
    uint8_t length = 0;  // 0: not in use
    uint8_t last_word = 0;
    uint8_t key_at = 0;
    uint8_t key_length = 0;
    bool verbatim = true;
    uint64_t last_mask = 0;  // which bytes of the last word count
    std::array<uint64_t, kWords> words{};

    bool matches(const char* p, const char* end) const {
      if (length == 0 || end - p <= length) return false;
      // The last word first: passages differ in their keys, not in the white space before.
      if (((word_at(p + 8 * last_word) ^ words[last_word]) & last_mask) != 0) return false;
      for (size_t i = 0; i < last_word; ++i) {
        if (word_at(p + 8 * i) != words[i]) return false;
      }
      return true;
    }
    static uint64_t word_at(const char* p) {
      uint64_t word;
      std::memcpy(&word, p, sizeof word);
      return word;
    }
  };

  const char* search(const char* p, const char* end, Key& out);
  void remember(const char* from, const char* to, const Key& key);
  uint32_t id_of(const Value& key);

  StringTable* keys_;
  // By the number of the last key, or of kAfterObject: that this may be a key's too does no harm,
  // it only leads to other guesses.
  static constexpr uint32_t kAfterObject = 1;
  std::vector<std::array<Passage, 4>> after_;
  uint32_t state_ = 0;
  std::string scratch_;
};

inline void KeyScanner::add(std::string_view key) {
  keys_->intern_text(key);
  after_.resize(std::max<size_t>(keys_->size(), kAfterObject + 1));
}

inline const char* KeyScanner::search(const char* p, const char* end, Key& out) {
  const char* from = p;
  p = skip_space(p);
  while (p < end && *p == ',') p = skip_space(p + 1);
  if (p >= end) return end + 1;
  if (*p == '}') {
    out.id = Key::kEndOfObject;
    out.text = {};
    remember(from, p + 1, out);
    return p + 1;
  }
  Value key;
  p = scan_key(p, end, key);
  if (p == nullptr || p >= end) return p;
  out.id = id_of(key);
  out.verbatim = key.verbatim;
  out.text = key.text;
  remember(from, p, out);
  return p;
}

inline void KeyScanner::remember(const char* from, const char* to, const Key& key) {
  auto& passages = after_[state_];
  state_ = key.id == Key::kEndOfObject ? kAfterObject : key.id;
  Passage passage;
  const auto length = static_cast<size_t>(to - from);
  if (length > sizeof passage.words) return;
  passage.key = key.id;
  passage.state = state_;
  passage.length = static_cast<uint8_t>(length);
  passage.last_word = static_cast<uint8_t>((length - 1) / 8);
  passage.key_length = static_cast<uint8_t>(key.text.size());
  passage.key_at = key.text.empty() ? 0 : static_cast<uint8_t>(key.text.data() - from);
  passage.verbatim = key.verbatim;
  constexpr std::array<unsigned char, 8> kAll{255, 255, 255, 255, 255, 255, 255, 255};
  std::memcpy(&passage.last_mask, kAll.data(), length - 8 * size_t{passage.last_word});
  std::memcpy(passage.words.data(), from, length);
  std::move_backward(passages.begin(), passages.end() - 1, passages.end());
  passages[0] = passage;
}

inline uint32_t KeyScanner::id_of(const Value& key) {
  std::string_view text = key.inner();
  if (key.escaped) {
    scratch_.clear();
    append_decoded(scratch_, text);
    text = scratch_;
  }
  if (keys_->size() > kMaxKeys && !keys_->contains(text)) return 0;
  add(text);
  return keys_->intern_text(text);
}

}  // namespace stepscope::json
