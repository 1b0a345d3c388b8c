// Where the arguments of an opcode are read; false once there is not enough.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "pickle/machine.h"

namespace stepscope::pickle {

class Input {
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
  static constexpr uint64_t kLongestText = 16 << 20;
  static constexpr size_t kMaxLine = 4096;

  const char* at_;
  const char* end_;
};

}  // namespace stepscope::pickle
