#include "pickle/machine.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

namespace stepscope::pickle {
namespace {

constexpr uint64_t kLongestText = 16 << 20;
constexpr size_t kMostContainers = std::size_t{1} << 31;
constexpr size_t kMaxLine = 4096;

enum class OpKind : uint8_t { kOther, kNumber, kText, kMemo, kContainer };

constexpr std::array<OpKind, 256> kinds() {
  std::array<OpKind, 256> out{};
  const auto set = [&out](std::string_view ops, OpKind kind) {
    for (const char op : ops) out[static_cast<uint8_t>(op)] = kind;
  };
  set("N\x88\x89KMJG\x8a\x8b", OpKind::kNumber);
  set("\x8cX\x8dUCTB\x8e\x96", OpKind::kText);
  set("\x94qhrj\x80\x95", OpKind::kMemo);
  set(".(012])}\x8f", OpKind::kContainer);
  set("ae\x90sudlt\x91\x85\x86\x87", OpKind::kContainer);
  return out;
}

constexpr std::array<OpKind, 256> kKinds = kinds();

OpKind kind_of(uint8_t op) { return kKinds[op]; }

std::string shown(std::string_view text) {
  std::string out;
  for (const char c : text.substr(0, 100)) out += c >= ' ' && c < 127 ? c : '?';
  return out;
}

}  // namespace

class Machine::Input {
 public:
  Input(const char* from, const char* end) : at_(from), end_(end) {}

  const char* at() const { return at_; }

  template <typename T>
  bool number(T& out) {
    static_assert(std::endian::native == std::endian::little);
    if (static_cast<size_t>(end_ - at_) < sizeof(T)) return false;
    std::memcpy(&out, at_, sizeof(T));
    at_ += sizeof(T);
    return true;
  }

  bool text(uint64_t size, std::string_view& out) {
    if (size > kLongestText) throw Malformed("holds a text of more than 16 MiB");
    if (static_cast<uint64_t>(end_ - at_) < size) return false;
    out = {at_, static_cast<size_t>(size)};
    at_ += size;
    return true;
  }

  template <typename Size>
  bool sized_text(std::string_view& out) {
    Size size;
    return number(size) && text(size, out);
  }

  bool line(std::string_view& out) {
    const char* found =
        static_cast<const char*>(std::memchr(at_, '\n', static_cast<size_t>(end_ - at_)));
    if (found == nullptr) {
      if (static_cast<size_t>(end_ - at_) > kMaxLine) throw Malformed("has a line without an end");
      return false;
    }
    out = {at_, static_cast<size_t>(found - at_)};
    at_ = found + 1;
    return true;
  }

 private:
  const char* at_;
  const char* end_;
};

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
  const size_t known = memo_.size();
  for (; at < behind; at += kSize) {
    uint32_t number;
    std::memcpy(&number, at + 1, sizeof number);
    if (number >= known) break;
    push(memo_[number]);
  }
  return at;
}

bool Machine::step(Input& in) {
  uint8_t op;
  if (!in.number(op)) return false;
  switch (kind_of(op)) {
    case OpKind::kNumber:
      return step_number(op, in);
    case OpKind::kText:
      return step_text(op, in);
    case OpKind::kMemo:
      return step_memo(op, in);
    case OpKind::kContainer:
      return step_container(op);
    default:
      return refuse(op, in);
  }
}

bool Machine::step_number(uint8_t op, Input& in) {
  switch (op) {
    case 'N':
      push({});
      return true;
    case 0x88:
    case 0x89:
      push(Value::of(Kind::kBool, op == 0x88));
      return true;
    case 'K': {
      uint8_t number;
      if (!in.number(number)) return false;
      push(Value::of(Kind::kInteger, number));
      return true;
    }
    case 'M': {
      uint16_t number;
      if (!in.number(number)) return false;
      push(Value::of(Kind::kInteger, number));
      return true;
    }
    case 'J': {
      int32_t number;
      if (!in.number(number)) return false;
      push(Value::of(Kind::kInteger, number));
      return true;
    }
    case 'G': {
      uint64_t bits;
      if (!in.number(bits)) return false;
      push(Value::of_real(std::bit_cast<double>(__builtin_bswap64(bits))));
      return true;
    }
    case 0x8a:    // LONG1
    case 0x8b: {  // LONG4
      std::string_view digits;
      if (op == 0x8a ? !in.sized_text<uint8_t>(digits) : !in.sized_text<uint32_t>(digits)) {
        return false;
      }
      // Addresses have 64 bits, and then a ninth byte for the sign.
      if (digits.size() > 9 || (digits.size() == 9 && digits[8] != 0)) {
        push({Kind::kOther, {}});
        return true;
      }
      int64_t number = !digits.empty() && (digits.back() & 0x80) && digits.size() < 9 ? -1 : 0;
      std::memcpy(&number, digits.data(), std::min<size_t>(digits.size(), 8));
      push(Value::of(Kind::kInteger, number));
      return true;
    }
    default:
      return false;
  }
}

bool Machine::step_text(uint8_t op, Input& in) {
  std::string_view text;
  bool done = false;
  switch (op) {
    case 0x8c:
      done = in.sized_text<uint8_t>(text);
      break;
    case 'X':
      done = in.sized_text<uint32_t>(text);
      break;
    case 0x8d:
      done = in.sized_text<uint64_t>(text);
      break;
    case 'U':  // SHORT_BINSTRING, of Python 2
    case 'C':  // SHORT_BINBYTES
      done = in.sized_text<uint8_t>(text);
      break;
    case 'T':  // BINSTRING
    case 'B':  // BINBYTES
      done = in.sized_text<uint32_t>(text);
      break;
    case 0x8e:  // BINBYTES8
    case 0x96:  // BYTEARRAY8
      done = in.sized_text<uint64_t>(text);
      break;
    default:
      return false;
  }
  if (!done) return false;
  push(Value::ref(Kind::kText, strings.intern_text(text)));
  return true;
}

bool Machine::step_memo(uint8_t op, Input& in) {
  switch (op) {
    case 0x94:
      remember(static_cast<uint32_t>(memo_.size()));
      return true;
    case 'q':
    case 'h': {
      uint8_t number;
      if (!in.number(number)) return false;
      op == 'q' ? remember(number) : recall(number);
      return true;
    }
    case 'r':
    case 'j': {
      uint32_t number;
      if (!in.number(number)) return false;
      op == 'r' ? remember(number) : recall(number);
      return true;
    }
    case 0x80: {  // PROTO
      uint8_t version;
      if (!in.number(version)) return false;
      if (version > 5) throw Malformed("has the pickle protocol " + std::to_string(version));
      return true;
    }
    case 0x95: {  // FRAME
      uint64_t size;
      return in.number(size);
    }
    default:
      return false;
  }
}

bool Machine::step_container(uint8_t op) {
  switch (op) {
    case '.':
      root_ = pop();
      has_stopped_ = true;
      break;
    case '(':
      marks_.push_back(stack_.size());
      break;
    case '0':
      if (!marks_.empty() && marks_.back() == stack_.size()) {
        marks_.pop_back();
      } else {
        pop();
      }
      break;
    case '1':
      stack_.resize(pop_mark());
      break;
    case '2':
      push(top());
      break;
    case ']':
    case ')':
    case 0x8f:  // EMPTY_SET
      push(new_list());
      break;
    case '}':
      push(new_dict());
      break;
    case 'a': {
      if (stack_.size() < 2) throw Malformed("appends nothing");
      append_from(stack_.size() - 1);
      break;
    }
    case 'e':
    case 0x90:  // ADDITEMS
      append_from(pop_mark());
      break;
    case 's':
      if (stack_.size() < 3) throw Malformed("sets nothing");
      set_from(stack_.size() - 2);
      break;
    case 'u':
      set_from(pop_mark());
      break;
    case 'd': {
      const size_t first = pop_mark();
      stack_.insert(stack_.begin() + static_cast<std::ptrdiff_t>(first), new_dict());
      set_from(first + 1);
      break;
    }
    case 'l':
    case 't':
    case 0x91:  // FROZENSET
      tuple_from(pop_mark());
      break;
    case 0x85:
    case 0x86:
    case 0x87: {
      const size_t size = op - 0x84U;
      if (stack_.size() < size) throw Malformed("makes a tuple of nothing");
      tuple_from(stack_.size() - size);
      break;
    }
    default:
      return false;
  }
  return true;
}

// Whatever is left names code, calls it, or belongs to protocols that torch never wrote.
bool Machine::refuse(uint8_t op, Input& in) {
  std::string what;
  switch (op) {
    case 'c':
    case 'i': {  // GLOBAL, INST
      std::string_view module;
      std::string_view name;
      if (!in.line(module) || !in.line(name)) return false;
      what = shown(module) + "." + shown(name);
      break;
    }
    case 0x93: {  // STACK_GLOBAL
      const Value name = pop();
      const Value module = pop();
      const bool named = name.kind == Kind::kText && module.kind == Kind::kText;
      what = named ? shown(strings[module.at]) + "." + shown(strings[name.at]) : "an object";
      break;
    }
    case 0x82:
    case 0x83:
    case 0x84:
    case 'P':
    case 'Q':
    case 'R':
    case 'b':
    case 'o':
    case 0x81:
    case 0x92:
    case 0x97:
    case 0x98:
      what = "an object to be made";
      break;
    default: {
      const char* digits = "0123456789abcdef";
      const std::string code = {digits[op >> 4], digits[op & 15]};
      throw Malformed("has the unknown pickle opcode 0x" + code);
    }
  }
  throw Refused(what);
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
  const auto found = odd_memo_.find(number);
  if (found == odd_memo_.end()) throw Malformed("recalls what it never stored");
  push(found->second);
}

}  // namespace stepscope::pickle
