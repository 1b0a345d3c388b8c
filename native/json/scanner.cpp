#include "json/scanner.h"

#include <array>
#include <cstring>
#include <optional>

#include "json/decimal.h"
#include "json/utf8.h"

namespace stepscope::json {
namespace {

bool is_space(char c) { return static_cast<unsigned char>(c) <= ' '; }

// What numbers and words are made of, and what broken writers put in their place ("nan", "1.#INF").
bool is_scalar_char(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' || c == '+' ||
         c == '.' || c == '_' || c == '#';
}

std::optional<uint32_t> hex4(std::string_view text) {
  if (text.size() < 4) return std::nullopt;
  uint32_t code = 0;
  for (size_t i = 0; i < 4; ++i) {
    const char c = text[i];
    const char lower = static_cast<char>(c | 0x20);
    if (is_digit(c)) {
      code = code * 16 + static_cast<uint32_t>(c - '0');
    } else if (lower >= 'a' && lower <= 'f') {
      code = code * 16 + static_cast<uint32_t>(lower - 'a' + 10);
    } else {
      return std::nullopt;
    }
  }
  return code;
}

bool is_json_number(std::string_view text) {
  size_t i = 0;
  const auto digits = [&] {
    const size_t from = i;
    while (i < text.size() && is_digit(text[i])) ++i;
    return i > from;
  };
  if (i < text.size() && text[i] == '-') ++i;
  const bool zero = i < text.size() && text[i] == '0';
  const size_t first = i;
  if (!digits() || (zero && i > first + 1)) return false;
  if (i < text.size() && text[i] == '.') {
    ++i;
    if (!digits()) return false;
  }
  if (i < text.size() && (text[i] == 'e' || text[i] == 'E')) {
    ++i;
    if (i < text.size() && (text[i] == '+' || text[i] == '-')) ++i;
    if (!digits()) return false;
  }
  return i == text.size();
}

bool is_json_scalar(std::string_view text) {
  return is_json_number(text) || text == "true" || text == "false" || text == "null" ||
         text == "NaN" || text == "Infinity" || text == "-Infinity";
}

void append_scalar(std::string& out, std::string_view text) {
  if (is_json_scalar(text)) {
    out += text;
  } else if (text == "nan" || text == "-nan") {  // as C prints them
    out += "NaN";
  } else if (text == "inf") {
    out += "Infinity";
  } else if (text == "-inf") {
    out += "-Infinity";
  } else {
    append_quoted(out, text);
  }
}

void append_repaired_string(std::string& out, std::string_view inner) {
  out += '"';
  for (size_t i = 0; i < inner.size();) {
    if (inner[i] == '\\') {
      const size_t length = escape_length(inner.substr(i));
      if (length == 0) {
        out += "\\\\";
        ++i;
        continue;
      }
      out += inner.substr(i, length);
      i += length;
      continue;
    }
    if (static_cast<unsigned char>(inner[i]) < ' ') {
      append_control(out, inner[i]);
    } else {
      out += inner[i];
    }
    ++i;
  }
  out += '"';
}

// Which brackets are open; only the first kMaxDepth must close as they were opened.
class Brackets {
 public:
  bool empty() const { return depth_ == 0; }
  bool too_deep() const { return too_deep_; }
  bool in_object() const { return depth_ <= kMaxDepth && open_[depth_ - 1] == '{'; }
  void push(char bracket) {
    if (depth_ < kMaxDepth) {
      open_[depth_] = bracket;
    } else {
      too_deep_ = true;
    }
    ++depth_;
  }
  bool pop(char bracket) {
    --depth_;
    return depth_ >= kMaxDepth || open_[depth_] == (bracket == '}' ? '{' : '[');
  }

 private:
  std::array<char, kMaxDepth> open_;
  size_t depth_ = 0;
  bool too_deep_ = false;
};

const char* scan_scalar(const char* p, Value& out) {
  const char* start = p;
  while (is_scalar_char(*p)) ++p;
  out.text = {start, static_cast<size_t>(p - start)};
  if (p == start) return nullptr;
  out.kind = Kind::kScalar;
  out.escaped = false;
  out.verbatim = is_json_scalar(out.text);
  out.too_deep = false;
  return p;
}

// Below kMaxDepth nothing is known of the brackets, so keys are taken for values and colons for
// commas: such a value is kept as text only.
bool is_separator(char c, const Brackets& open) {
  return c == ',' || (c == ':' && open.too_deep());
}

class ContainerScan {
 public:
  ContainerScan(const char* start, const char* end) : at_(start), end_(end) {}

  // Whether the container was understood; else at() is where it was not, or beyond the end.
  bool run() {
    do {
      if (!step()) return false;
    } while (!open_.empty());
    return true;
  }
  const char* at() const { return at_; }
  bool verbatim() const { return verbatim_ && !open_.too_deep(); }
  bool too_deep() const { return open_.too_deep(); }

 private:
  bool step() {
    if (at_ >= end_) return false;
    const char c = *at_;
    if (want_value_) return c == '{' || c == '[' ? opened(c) : took_value();
    if (c == '}' || c == ']') return closed(c);
    if (!is_separator(c, open_)) return false;
    at_ = skip_space(at_ + 1);
    want_value_ = true;
    return at_ < end_ && (!open_.in_object() || took(scan_key(at_, end_, part_)));
  }

  bool opened(char bracket) {
    open_.push(bracket);
    at_ = skip_space(at_ + 1);
    if (at_ >= end_) return false;
    want_value_ = *at_ != '}' && *at_ != ']';
    return !want_value_ || !open_.in_object() || took(scan_key(at_, end_, part_));
  }

  bool closed(char bracket) {
    if (!open_.pop(bracket)) return false;
    ++at_;
    if (!open_.empty()) at_ = skip_space(at_);
    return true;
  }

  bool took_value() {
    const char* after = *at_ == '"' ? scan_string(at_, end_, part_) : scan_scalar(at_, part_);
    if (!took(after) || at_ >= end_) return false;
    at_ = skip_space(at_);
    want_value_ = false;
    return true;
  }

  bool took(const char* after) {
    if (after == nullptr) return false;
    verbatim_ = verbatim_ && part_.verbatim;
    at_ = after;
    return true;
  }

  const char* at_;
  const char* end_;
  Brackets open_;
  Value part_;
  bool verbatim_ = true;
  bool want_value_ = true;  // else what follows a value
};

// The scanner skips all control characters between values; JSON allows only some of them there.
bool has_control(std::string_view text) {
  bool has_any = false;
  for (const char c : text) has_any |= static_cast<unsigned char>(c) < ' ';  // no exit: vectorized
  return has_any;
}

const char* scan_container(const char* p, const char* end, Value& out) {
  ContainerScan scan(p, end);
  const bool complete = scan.run();
  out.text = {p, static_cast<size_t>(scan.at() - p)};
  if (!complete) return scan.at() >= end ? end + 1 : nullptr;
  out.kind = *p == '{' ? Kind::kObject : Kind::kArray;
  out.escaped = false;
  out.too_deep = scan.too_deep();
  out.verbatim = scan.verbatim() && !has_control(out.text);
  return scan.at();
}

void append_compact(std::string& out, std::string_view text) {
  const char* p = text.data();
  const char* end = p + text.size();
  Value part;
  while (p < end) {
    if (is_space(*p)) {
      ++p;
    } else if (*p == '"') {
      p = scan_string(p, end, part);
      append_repaired_string(out, part.inner());
    } else if (is_scalar_char(*p)) {
      const char* start = p;
      while (p < end && is_scalar_char(*p)) ++p;
      append_scalar(out, {start, static_cast<size_t>(p - start)});
    } else {
      out += *p++;
    }
  }
}

}  // namespace

size_t escape_length(std::string_view text) {
  if (text.size() < 2) return 0;
  if (text[1] == 'u') return hex4(text.substr(2)) ? 6 : 0;
  return std::strchr("\"\\/bfnrt", text[1]) != nullptr && text[1] != '\0' ? 2 : 0;
}

void append_control(std::string& out, char c) {
  constexpr char kHex[] = "0123456789abcdef";
  if (c == '\n') {
    out += "\\n";
    return;
  }
  out += "\\u00";
  out += kHex[(c >> 4) & 15];
  out += kHex[c & 15];
}

const char* scan_odd_string(const char* start, const char* p, const char* end, Value& out) {
  out.escaped = false;
  out.verbatim = true;
  for (;; p = find_special(p)) {
    if (p >= end) return end + 1;
    if (*p == '"') break;
    if (*p == '\\') {
      out.escaped = true;
      const size_t length = escape_length({p, static_cast<size_t>(end - p)});
      out.verbatim = out.verbatim && length > 0;
      p += length > 0 ? length : 1;
    } else {
      out.verbatim = false;
      ++p;
    }
  }
  out.text = {start, static_cast<size_t>(p + 1 - start)};
  out.kind = Kind::kString;
  out.too_deep = false;
  return p + 1;
}

const char* scan_value(const char* p, const char* end, Value& out) {
  if (p >= end) return end + 1;
  if (*p == '"') return scan_string(p, end, out);
  if (*p == '{' || *p == '[') return scan_container(p, end, out);
  return scan_scalar(p, out);
}

bool is_fragment(std::string_view text, std::string& room) {
  room.assign(1, '{');
  room += text;
  room += '}';
  const size_t size = room.size();
  room.append(kPadding, '"');
  const char* end = room.data() + size;
  Value value;
  return scan_value(room.data(), end, value) == end && value.verbatim;
}

void append_value(std::string& out, const Value& value) {
  if (value.verbatim) {
    out += value.text;
  } else if (value.too_deep) {
    append_quoted(out, value.text);
  } else if (value.kind == Kind::kScalar) {
    append_scalar(out, value.text);
  } else if (value.kind == Kind::kString) {
    append_repaired_string(out, value.inner());
  } else {
    append_compact(out, value.text);
  }
}

void append_quoted(std::string& out, std::string_view text) {
  out += '"';
  for (const char c : text) {
    if (static_cast<unsigned char>(c) < ' ') {
      append_control(out, c);
      continue;
    }
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  out += '"';
}

void append_decoded(std::string& out, std::string_view inner) {
  for (size_t i = 0; i < inner.size();) {
    const size_t length = inner[i] == '\\' ? escape_length(inner.substr(i)) : 0;
    if (length == 0) {
      out += inner[i++];
      continue;
    }
    if (length == 2) {
      constexpr std::string_view kLetters = "bfnrt";
      constexpr std::string_view kMeanings = "\b\f\n\r\t";
      const size_t at = kLetters.find(inner[i + 1]);
      out += at == std::string_view::npos ? inner[i + 1] : kMeanings[at];
      i += 2;
      continue;
    }
    uint32_t code = *hex4(inner.substr(i + 2));
    i += 6;
    if (code >= 0xd800 && code < 0xdc00 && inner.substr(i, 2) == "\\u") {
      const std::optional<uint32_t> low = hex4(inner.substr(i + 2));
      if (low && *low >= 0xdc00 && *low < 0xe000) {
        code = 0x10000 + ((code - 0xd800) << 10) + (*low - 0xdc00);
        i += 6;
      }
    }
    append_utf8(out, code);
  }
}

}  // namespace stepscope::json
