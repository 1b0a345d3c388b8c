// Protobuf, written into room that was made before: what every slice of a trace passes through.
#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>

#include "core/byte_buffer.h"
#include "protobuf/wire.h"

namespace stepscope::perfetto {

class PacketBuffer : public ByteBuffer {
 public:
  void varint(uint64_t value) {
    for (; value >= 0x80; value >>= 7) data_[size_++] = static_cast<char>(value | 0x80);
    data_[size_++] = static_cast<char>(value);
  }
  void number(uint32_t field, uint64_t value) {
    varint(field << 3);
    varint(value);
  }
  void fixed64(uint32_t field, uint64_t value) {
    varint(field << 3 | static_cast<uint32_t>(protobuf::Wire::kFixed64));
    std::memcpy(data_.get() + size_, &value, sizeof value);
    size_ += sizeof value;
  }
  void bytes(uint32_t field, std::string_view value) {
    varint(field << 3 | static_cast<uint32_t>(protobuf::Wire::kBytes));
    varint(value.size());
    put(value);
  }
};

}  // namespace stepscope::perfetto
