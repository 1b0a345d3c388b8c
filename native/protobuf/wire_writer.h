// Protobuf's wire format, written field by field.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <utility>

#include "json/utf8.h"
#include "protobuf/wire.h"

namespace stepscope::protobuf {

class WireWriter {
 public:
  void varint(uint64_t value) {
    for (; value >= 0x80; value >>= 7) out_.push_back(static_cast<char>(value | 0x80));
    out_.push_back(static_cast<char>(value));
  }
  void number(uint32_t field, uint64_t value) {
    varint(field << 3);
    varint(value);
  }
  // A float of 32 bits; 0 for what it cannot hold.
  void single(uint32_t field, double value) {
    const bool fits = !(std::abs(value) > std::numeric_limits<float>::max());
    uint32_t bits = std::bit_cast<uint32_t>(fits ? static_cast<float>(value) : 0.0F);
    varint(field << 3 | static_cast<uint32_t>(Wire::kFixed32));
    for (int byte = 0; byte < 4; ++byte, bits >>= 8) out_.push_back(static_cast<char>(bits));
  }
  void bytes(uint32_t field, std::string_view value) {
    varint(field << 3 | static_cast<uint32_t>(Wire::kBytes));
    varint(value.size());
    out_ += value;
  }
  // Protobuf's strings are UTF-8; its readers refuse anything else.
  void text(uint32_t field, std::string_view value) {
    if (json::is_utf8(value)) {
      bytes(field, value);
    } else {
      bytes(field, json::replace_invalid_utf8(value));
    }
  }
  void encoded(std::string_view fields) { out_ += fields; }

  std::string_view view() const { return out_; }
  void clear() { out_.clear(); }
  std::string take() { return std::move(out_); }

 private:
  std::string out_;
};

}  // namespace stepscope::protobuf
