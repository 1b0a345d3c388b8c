// Fragments of JSON, the arguments of slices that are no integers, as debug annotations.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "json/string_table.h"

namespace stepscope::perfetto {

struct Annotation {
  enum class Kind : uint8_t { kInteger, kDouble, kBool, kText, kPlainText };

  uint32_t key = 0;  // a number of the texts
  Kind kind = Kind::kInteger;
  uint64_t bits = 0;  // of a number; of a text: its number among the texts
};

// Whether an interned text stands for JSON that is no string: lists, objects, null. A string that
// looks like one is not interned (kPlainText), so that a reader of ours can tell them apart.
bool looks_like_json(std::string_view text);

// Fragments, each taken apart once.
class Fragments {
 public:
  const std::vector<Annotation>& of(uint32_t id, std::string_view fragment);
  uint32_t key(std::string_view text) { return texts_.intern_text(text); }
  std::string_view text(uint32_t id) const { return texts_[id]; }

 private:
  void take_apart(std::string_view fragment, std::vector<Annotation>& out);

  json::StringTable texts_;
  std::unordered_map<uint32_t, std::vector<Annotation>> annotations_;
  std::string room_;
  std::string decoded_;
};

}  // namespace stepscope::perfetto
