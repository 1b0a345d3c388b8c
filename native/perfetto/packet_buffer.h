// Protobuf, written into room that was made before: what every slice of a trace passes through.
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <string_view>

#include "protobuf/wire.h"

namespace stepscope::perfetto {

class PacketBuffer {
 public:
  static constexpr size_t kVarintBytes = 10;

  // Room for so many bytes more: everything below needs it.
  void reserve(size_t more) {
    if (capacity_ - size_ < more) grow(more);
  }
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
  void put(std::string_view value) {
    std::memcpy(data_.get() + size_, value.data(), value.size());
    size_ += value.size();
  }

  void clear() { size_ = 0; }
  size_t size() const { return size_; }
  std::string_view view() const { return {data_.get(), size_}; }
  std::unique_ptr<char[]> release() {
    size_ = capacity_ = 0;
    return std::move(data_);
  }

 private:
  void grow(size_t more) {
    const size_t capacity = size_ + more > 2 * capacity_ ? size_ + more : 2 * capacity_;
    auto data = std::make_unique_for_overwrite<char[]>(capacity);
    if (size_ > 0) std::memcpy(data.get(), data_.get(), size_);
    data_ = std::move(data);
    capacity_ = capacity;
  }

  std::unique_ptr<char[]> data_;
  size_t size_ = 0;
  size_t capacity_ = 0;
};

}  // namespace stepscope::perfetto
