#include "perfetto/annotations.h"

#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <limits>

#include "json/scanner.h"
#include "json/utf8.h"
#include "perfetto/fragments.h"
#include "perfetto/messages.h"

namespace stepscope::perfetto {
namespace {

using protobuf::Field;
using protobuf::FlatMessage;
using protobuf::Got;
using protobuf::Wire;
using protobuf::WireReader;

constexpr uint32_t kMaxKeys = 4096;  // a column a key costs more than it gives where there are more
constexpr uint64_t kMaxInteger = std::numeric_limits<int64_t>::max();

void append_quoted(std::string& out, std::string_view text) {
  if (json::is_utf8(text)) {
    json::append_quoted(out, text);
  } else {
    json::append_quoted(out, json::replace_invalid_utf8(text));
  }
}

std::string_view key_of(const FlatMessage<18>& message, const Interned& interned) {
  const auto place = interned.keys.find(message.number[annotation::kName]);
  return place == interned.keys.end() ? message.text[annotation::kNameText] : place->second;
}

}  // namespace

void append_json(std::string& out, double value) {
  if (!std::isfinite(value)) {
    out += std::isnan(value) ? "\"NaN\"" : value > 0 ? "\"Infinity\"" : "\"-Infinity\"";
    return;
  }
  std::array<char, 32> digits;
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
  const std::string_view text(digits.data(), static_cast<size_t>(end - digits.data()));
  out += text;
  if (text.find_first_of(".e") == std::string_view::npos) out += ".0";
}

void Interned::clear() {
  names.clear();
  categories.clear();
  keys.clear();
  texts.clear();
  fragments.clear();
}

bool Interned::add(std::string_view bytes, json::StringTable& strings) {
  WireReader reader(bytes);
  Field field;
  Got got = Got::kField;
  while ((got = reader.next(field)) == Got::kField) {
    if (field.wire != Wire::kBytes) continue;
    FlatMessage<3> entry;
    switch (field.number) {
      case interned::kCategory:
      case interned::kEventName:
      case interned::kAnnotationName:
      case interned::kText:
        if (!entry.read(field.bytes)) return false;
        break;
      default:
        continue;
    }
    const uint64_t id = entry.number[interned::kId];
    const std::string_view text = entry.text[interned::kName];
    if (field.number == interned::kCategory) categories[id] = strings.intern_text(text);
    if (field.number == interned::kEventName) names[id] = strings.intern_text(text);
    if (field.number == interned::kAnnotationName) keys[id] = text;
    if (field.number == interned::kText) texts[id] = text;
  }
  return got == Got::kEnd;
}

void AnnotationReader::add(std::string_view bytes, const Interned& interned, json::Pairs& out) {
  FlatMessage<18> message;
  if (!message.read(bytes)) {
    ++malformed;
    return;
  }
  const bool is_signed = message.has(annotation::kInteger);
  const bool is_unsigned =
      message.has(annotation::kUnsigned) && message.number[annotation::kUnsigned] <= kMaxInteger;
  if (is_signed || is_unsigned) {
    const std::string_view key = key_of(message, interned);
    if (tables_->keys.size() < kMaxKeys || tables_->keys.contains(key)) {
      const uint32_t field = is_signed ? annotation::kInteger : annotation::kUnsigned;
      out.integers.push_back(
          {tables_->keys.intern_text(key), static_cast<int64_t>(message.number[field])});
      return;
    }
  }
  // Its length first: of two lists of annotations none is the other's beginning.
  raw_ += std::to_string(bytes.size());
  raw_ += ':';
  raw_ += bytes;
}

bool AnnotationReader::finish(Interned& interned, json::Pairs& out) {
  if (raw_.empty()) return true;
  const auto [place, is_new] = interned.fragments.try_emplace(raw_, 0);
  if (!is_new) {
    out.rest_id = place->second;
    return true;
  }
  for (std::string_view rest = raw_; !rest.empty();) {
    size_t size = 0;
    const char* digits = std::from_chars(rest.data(), rest.data() + rest.size(), size).ptr;
    rest.remove_prefix(static_cast<size_t>(digits - rest.data()) + 1);
    if (!out.rest.empty()) out.rest += ", ";
    append_pair(out.rest, rest.substr(0, size), interned, 0);
    rest.remove_prefix(size);
    if (out.rest.size() > room_) break;
  }
  if (out.rest.size() > room_) {
    out.rest.clear();
    return false;
  }
  room_ -= out.rest.size();
  place->second = tables_->strings.intern_text(out.rest);
  out.rest_id = place->second;
  return true;
}

void AnnotationReader::append_pair(std::string& out, std::string_view bytes,
                                   const Interned& interned, int depth) {
  FlatMessage<18> message;
  message.read(bytes);
  append_quoted(out, key_of(message, interned));
  out += ": ";
  append_value(out, bytes, interned, depth);
}

void AnnotationReader::append_value(std::string& out, std::string_view bytes,
                                    const Interned& interned, int depth) {
  WireReader reader(bytes);
  Field field;
  std::string list;
  bool is_object = false;
  const size_t from = out.size();
  while (reader.next(field) == Got::kField) {
    const bool is_part = field.number == annotation::kEntry || field.number == annotation::kItem;
    if (!is_part && field.number != annotation::kName && field.number != annotation::kNameText) {
      out.resize(from);  // of several values the last counts
    }
    switch (field.number) {
      case annotation::kBool:
        out += field.value != 0 ? "true" : "false";
        break;
      case annotation::kUnsigned:
        out += std::to_string(field.value);
        break;
      case annotation::kInteger:
        out += std::to_string(static_cast<int64_t>(field.value));
        break;
      case annotation::kDouble:
        append_json(out, std::bit_cast<double>(field.value));
        break;
      case annotation::kPointer: {
        std::array<char, 20> digits;
        const auto end =
            std::to_chars(digits.data(), digits.data() + digits.size(), field.value, 16).ptr;
        out.append("\"0x").append(digits.data(), end) += '"';
        break;
      }
      case annotation::kText:
        append_text(out, field.bytes, false);
        break;
      case annotation::kJson:
        append_text(out, field.bytes, true);
        break;
      case annotation::kTextId:
        if (const auto place = interned.texts.find(field.value); place != interned.texts.end()) {
          append_text(out, place->second, texts_may_be_json && looks_like_json(place->second));
        }
        break;
      case annotation::kEntry:
      case annotation::kItem:
        if (list.empty()) is_object = field.number == annotation::kEntry;
        if (field.wire != Wire::kBytes || depth == kMaxDepth || list.size() > room_ ||
            is_object != (field.number == annotation::kEntry)) {
          break;
        }
        if (!list.empty()) list += ", ";
        if (is_object) {
          append_pair(list, field.bytes, interned, depth + 1);
        } else {
          append_value(list, field.bytes, interned, depth + 1);
        }
        break;
      default:
        break;
    }
  }
  if (!list.empty()) {
    out.resize(from);
    out += is_object ? '{' : '[';
    out += list;
    out += is_object ? '}' : ']';
  }
  if (out.size() == from) out += "null";
}

bool AnnotationReader::is_json(std::string_view text) {
  if (text.empty() || !json::is_utf8(text)) return false;
  scratch_.assign(text).append(json::kPadding, '"');
  const char* end = scratch_.data() + text.size();
  json::Value value;
  return json::scan_value(scratch_.data(), end, value) == end && value.verbatim;
}

void AnnotationReader::append_text(std::string& out, std::string_view text, bool may_be_json) {
  if (may_be_json && is_json(text)) {
    out += text;
  } else {
    append_quoted(out, text);
  }
}

}  // namespace stepscope::perfetto
