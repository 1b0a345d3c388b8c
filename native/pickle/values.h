// What a pickle holds: numbers, texts, lists and dictionaries. Nothing else is ever made of one.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace stepscope::pickle {

enum class Kind : uint8_t { kNone, kBool, kInteger, kReal, kText, kList, kDict, kFolded, kOther };

struct Value {
  Kind kind = Kind::kNone;
  union {
    int64_t integer = 0;
    double real;
    uint32_t at;  // of a text, a list or a dictionary: its number; kFolded: what it was folded into
  };

  static Value of(Kind kind, int64_t number) {
    Value value;
    value.kind = kind;
    value.integer = number;
    return value;
  }
  static Value of_real(double number) {
    Value value;
    value.kind = Kind::kReal;
    value.real = number;
    return value;
  }
  static Value ref(Kind kind, size_t number) {
    Value value;
    value.kind = kind;
    value.at = static_cast<uint32_t>(number);
    return value;
  }
};

// A tuple is a list, too.
struct List {
  std::vector<Value> items;
  bool is_folded = false;  // into the number that stands for all of it; items are gone then
  uint32_t folded = 0;
};

struct Dict {
  std::vector<std::pair<Value, Value>> items;
  uint8_t fold = 0;  // what it was folded into, 0 nothing
  uint32_t folded = 0;
  uint32_t memo = kNotStored;  // where the pickle stored it, so that it can be recalled

  static constexpr uint32_t kNotStored = ~0U;
};

// The file does not make sense.
class Malformed : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// The file asks for something that only running code can give it.
class Refused : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace stepscope::pickle
