// Runs the opcodes of a pickle that build plain data, and refuses all that could run code.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "json/string_table.h"
#include "pickle/values.h"

namespace stepscope::pickle {

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
