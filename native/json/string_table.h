// Interned strings: equal text, equal number. Number 0 is the empty string.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace stepscope::json {

class StringTable {
 public:
  StringTable();

  uint32_t intern(std::string_view text);
  // The same for text from outside: what is kept is UTF-8, see replace_invalid_utf8.
  uint32_t intern_text(std::string_view text);
  bool contains(std::string_view text);

  std::string_view operator[](uint32_t id) const {
    const auto from = static_cast<size_t>(offsets_[id]);
    return {blob_.data() + from, static_cast<size_t>(offsets_[id + 1]) - from};
  }
  uint32_t size() const { return static_cast<uint32_t>(offsets_.size() - 1); }
  const std::vector<char>& blob() const { return blob_; }
  std::vector<int64_t> take_offsets() { return std::move(offsets_); }

 private:
  struct Slot {
    uint32_t hash = 0;
    uint32_t id = 0;  // 0: free, the empty string is never looked up
  };

  uint64_t hash_of(std::string_view text) const;
  // The slot of the text, or the free one where it belongs.
  Slot& slot_of(std::string_view text, uint64_t hash);
  uint32_t insert(Slot& slot, std::string_view text, uint64_t hash);
  void grow();

  std::vector<char> blob_;
  std::vector<int64_t> offsets_{0, 0};
  std::vector<Slot> slots_;
  uint64_t seed_;
};

}  // namespace stepscope::json
