#include "pickle/machine.h"

#include <cstring>

#include "pickle/input.h"

namespace stepscope::pickle {
namespace {

constexpr size_t kMostContainers = std::size_t{1} << 31;

}  // namespace

void Machine::feed(std::string_view text) {
  if (has_stopped_) return;
  const bool is_split = !pending_.empty();
  if (is_split) pending_ += text;
  const std::string_view all = is_split ? std::string_view(pending_) : text;
  const char* at = all.data();
  const char* end = at + all.size();
  const uint64_t before = position_;
  while (at < end && !has_stopped_) {
    position_ = before + static_cast<uint64_t>(at - all.data());
    if (*at == 'j') {
      at = recall_all(at, end);
      if (at == end) break;
    }
    Input in(at, end);
    if (!step(in)) break;
    at = in.at();
  }
  position_ = before + static_cast<uint64_t>(at - all.data());
  pending_ = has_stopped_ ? std::string() : std::string(at, end);
}

// Nine of ten opcodes recall a frame: stacks are lists of those that were stored before. A whole
// stack that is met again is known by its bytes.
const char* Machine::recall_all(const char* at, const char* end) {
  constexpr ptrdiff_t kSize = 5;
  constexpr ptrdiff_t kBatch = 1000;  // of Python's pickler: more values follow then
  const char* behind = at;
  while (end - behind >= kSize && *behind == 'j') behind += kSize;
  const bool is_all = behind < end && *behind == 'e' && (behind - at) / kSize < kBatch;
  if (is_all && !marks_.empty() && marks_.back() == stack_.size() && !stack_.empty() &&
      stack_.back().kind == Kind::kList) {
    const uint32_t list = stack_.back().at;
    if (lists[list].items.empty() && !lists[list].is_folded &&
        observer_.on_recalled(list, {at, static_cast<size_t>(behind - at)})) {
      marks_.pop_back();
      return behind + 1;
    }
  }
  const size_t memo_size = memo_.size();
  for (; at < behind; at += kSize) {
    uint32_t number;
    std::memcpy(&number, at + 1, sizeof number);
    if (number >= memo_size) break;
    push(memo_[number]);
  }
  return at;
}

void Machine::push(Value value) {
  if (stack_.size() >= kMostContainers) throw Malformed("holds too much");
  stack_.push_back(value);
}

Value Machine::pop() {
  if (stack_.empty() || (!marks_.empty() && marks_.back() >= stack_.size())) {
    throw Malformed("takes a value where there is none");
  }
  const Value value = stack_.back();
  stack_.pop_back();
  return value;
}

Value& Machine::top() {
  if (stack_.empty() || (!marks_.empty() && marks_.back() >= stack_.size())) {
    throw Malformed("uses a value where there is none");
  }
  return stack_.back();
}

size_t Machine::pop_mark() {
  if (marks_.empty()) throw Malformed("ends a container that it did not begin");
  const size_t first = marks_.back();
  marks_.pop_back();
  return first;
}

Value Machine::new_list() {
  if (lists.size() >= kMostContainers) throw Malformed("holds more than two billion lists");
  lists.emplace_back();
  return Value::ref(Kind::kList, lists.size() - 1);
}

Value Machine::new_dict() {
  if (dicts.size() >= kMostContainers) throw Malformed("holds more than two billion dictionaries");
  dicts.emplace_back();
  return Value::ref(Kind::kDict, dicts.size() - 1);
}

void Machine::append_from(size_t first) {
  if (first == 0 || first > stack_.size() || stack_[first - 1].kind != Kind::kList) {
    throw Malformed("appends to what is no list");
  }
  const uint32_t list = stack_[first - 1].at;
  if (lists[list].is_folded) throw Malformed("changes a stack after its use");
  const std::span<Value> added(stack_.begin() + static_cast<ptrdiff_t>(first), stack_.end());
  observer_.on_append(list, added);
  std::vector<Value>& items = lists[list].items;
  if (items.empty()) items.reserve(added.size());
  for (const Value& item : added) {
    if (item.kind != Kind::kOther) items.push_back(item);
  }
  stack_.resize(first);
}

void Machine::set_from(size_t first) {
  if (first == 0 || first > stack_.size() || stack_[first - 1].kind != Kind::kDict) {
    throw Malformed("sets an item of what is no dictionary");
  }
  if ((stack_.size() - first) % 2 != 0) throw Malformed("has a key without a value");
  const uint32_t dict = stack_[first - 1].at;
  if (dicts[dict].fold != 0) throw Malformed("changes an event after its use");
  if (dicts[dict].items.empty()) dicts[dict].items.reserve((stack_.size() - first) / 2);
  for (size_t i = first; i < stack_.size(); i += 2) {
    observer_.on_set(dict, stack_[i], stack_[i + 1]);
    dicts[dict].items.emplace_back(stack_[i], stack_[i + 1]);
  }
  stack_.resize(first);
}

void Machine::tuple_from(size_t first) {
  if (first > stack_.size()) throw Malformed("makes a tuple of nothing");
  const Value tuple = new_list();
  lists[tuple.at].items.assign(stack_.begin() + static_cast<std::ptrdiff_t>(first), stack_.end());
  stack_.resize(first);
  push(tuple);
}

void Machine::remember(uint32_t number) {
  const Value& value = top();
  if (value.kind == Kind::kDict) dicts[value.at].memo = number;
  if (number < memo_.size()) {
    memo_[number] = value;
    observer_.on_stored_again();
  } else if (number == memo_.size()) {
    memo_.push_back(value);
  } else {
    odd_memo_[number] = value;
  }
}

void Machine::replace_stored(const Dict& dict, uint32_t folded) {
  if (dict.memo < memo_.size()) memo_[dict.memo] = Value::ref(Kind::kFolded, folded);
}

void Machine::recall(uint32_t number) {
  if (number < memo_.size()) return push(memo_[number]);
  const auto entry = odd_memo_.find(number);
  if (entry == odd_memo_.end()) throw Malformed("recalls what it never stored");
  push(entry->second);
}

}  // namespace stepscope::pickle
