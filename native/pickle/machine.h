// Runs the opcodes of a pickle that build plain data, and refuses all that could run code.
#pragma once

#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "json/string_table.h"

namespace stepscope::pickle {

// A pickle holds numbers, texts, lists and dictionaries; nothing else is ever made of one.
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

class Input;

// Told when a value goes into a container, so that it can be put away in less space.
class Observer {
 public:
  virtual ~Observer() = default;
  // Items that the list need not hold become kOther.
  virtual void on_append(uint32_t list, std::span<Value> items) = 0;
  // Recalled values, opcodes of five bytes each, are all that goes into an empty list. True: the
  // list stands for them, and need not hold them.
  virtual bool on_recalled(uint32_t list, std::string_view opcodes) = 0;
  // What was stored under a number is now another.
  virtual void on_stored_again() = 0;
  virtual void on_set(uint32_t dict, const Value& key, Value& value) = 0;
};

class Machine {
 public:
  json::StringTable strings;
  std::vector<List> lists;
  std::vector<Dict> dicts;

  explicit Machine(Observer& observer) : observer_(observer) {}

  const Value* stored(uint32_t number) const {
    return number < memo_.size() ? &memo_[number] : nullptr;
  }
  // From now on a number is recalled instead of the dictionary.
  void replace_stored(const Dict& dict, uint32_t folded);

  // Text may end anywhere; what is left of an opcode waits for more.
  void feed(std::string_view text);

  bool has_stopped() const { return has_stopped_; }
  const Value& root() const { return root_; }
  uint64_t position() const { return position_; }

 private:
  const char* recall_all(const char* at, const char* end);
  bool step(Input& in);
  bool step_number(uint8_t op, Input& in);
  bool step_text(uint8_t op, Input& in);
  bool step_memo(uint8_t op, Input& in);
  bool step_container(uint8_t op);
  bool refuse(uint8_t op, Input& in);

  void push(Value value);
  Value pop();
  Value& top();
  size_t pop_mark();
  Value new_list();
  Value new_dict();
  void append_from(size_t first);
  void set_from(size_t first);
  void tuple_from(size_t first);
  void remember(uint32_t number);
  void recall(uint32_t number);

  Observer& observer_;
  std::string pending_;
  std::vector<Value> stack_;
  std::vector<size_t> marks_;
  std::vector<Value> memo_;
  std::unordered_map<uint32_t, Value> odd_memo_;  // numbers that were not given in order
  Value root_;
  uint64_t position_ = 0;
  bool has_stopped_ = false;
};

}  // namespace stepscope::pickle
