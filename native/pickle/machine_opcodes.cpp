// What each opcode of a pickle does to the machine.
#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "pickle/input.h"
#include "pickle/machine.h"

namespace stepscope::pickle {
namespace {

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

}  // namespace stepscope::pickle
