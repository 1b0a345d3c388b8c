// Bytes that grow without being cleared first, and are given away without a copy.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <string_view>
#include <utility>

namespace stepscope {

class ByteBuffer {
 public:
  // Room for so many bytes more: all that puts something needs it.
  void reserve(size_t more) {
    if (capacity_ - size_ < more) grow(more);
  }
  void put(std::string_view text) {
    text.copy(data_.get() + size_, text.size());
    size_ += text.size();
  }

  void clear() { size_ = 0; }
  size_t size() const { return size_; }
  std::string_view view() const { return {data_.get(), size_}; }
  std::unique_ptr<char[]> release() {
    size_ = capacity_ = 0;
    return std::move(data_);
  }

 protected:
  std::unique_ptr<char[]> data_;
  size_t size_ = 0;

 private:
  void grow(size_t more) {
    const size_t capacity = std::max(size_ + more, 2 * capacity_);
    auto data = std::make_unique_for_overwrite<char[]>(capacity);
    if (size_ > 0) std::memcpy(data.get(), data_.get(), size_);
    data_ = std::move(data);
    capacity_ = capacity;
  }

  size_t capacity_ = 0;
};

}  // namespace stepscope
