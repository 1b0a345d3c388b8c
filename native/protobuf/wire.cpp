#include "protobuf/wire.h"

namespace stepscope::protobuf {

Got WireReader::long_varint(uint64_t& value) {
  constexpr unsigned kLastShift = 63;  // of the tenth byte
  value = 0;
  for (unsigned shift = 0; shift <= kLastShift; shift += 7) {
    if (p_ == end_) return Got::kCut;
    const auto byte = static_cast<uint8_t>(*p_++);
    value |= static_cast<uint64_t>(byte & 0x7FU) << shift;
    if (byte < 0x80) return Got::kField;
  }
  return Got::kBroken;
}

// Counts how deep it is instead of calling itself: a file may nest groups without an end.
Got WireReader::skip_group() {
  Field inner;
  for (uint64_t depth = 1; depth > 0;) {
    uint8_t wire = 0;
    if (const Got got = tag(inner, wire); got != Got::kField) return got;
    if (wire == kGroupEnd) {
      --depth;
    } else if (wire == static_cast<uint8_t>(Wire::kGroup)) {
      ++depth;
    } else if (const Got got = body(inner, wire); got != Got::kField) {
      return got;
    }
  }
  return Got::kField;
}

}  // namespace stepscope::protobuf
