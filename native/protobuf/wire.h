// Protobuf's wire format: the fields of a message, one after the other, nothing trusted.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace stepscope::protobuf {

enum class Wire : uint8_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kGroup = 3, kFixed32 = 5 };

struct Field {
  uint32_t number = 0;
  Wire wire = Wire::kVarint;
  uint64_t value = 0;      // of a number: its bits
  std::string_view bytes;  // of kBytes; when the message was cut off, what is there of them
};

enum class Got : uint8_t {
  kField,
  kEnd,
  kCut,     // the field reaches beyond the end of the message
  kBroken,  // what follows is not a field
};

class WireReader {
 public:
  explicit WireReader(std::string_view message)
      : begin_(message.data()), p_(begin_), end_(begin_ + message.size()) {}

  // Groups, which are no longer in use, are passed over whatever they hold.
  Got next(Field& field);
  // A number without a field around it, as packed lists hold them.
  Got varint(uint64_t& value) {
    if (p_ != end_ && static_cast<uint8_t>(*p_) < 0x80) {  // most are that short
      value = static_cast<uint8_t>(*p_++);
      return Got::kField;
    }
    return long_varint(value);
  }
  // Where the next field begins; after kCut and kBroken, where the trouble is.
  size_t position() const { return static_cast<size_t>(p_ - begin_); }

 private:
  static constexpr uint8_t kGroupEnd = 4;

  Got long_varint(uint64_t& value);
  template <typename Word>
  Got fixed(uint64_t& value);
  Got skip_group();
  Got tag(Field& field, uint8_t& wire);
  Got body(Field& field, uint8_t wire);

  const char* begin_;
  const char* p_;
  const char* end_;
};

inline Got WireReader::tag(Field& field, uint8_t& wire) {
  uint64_t key = 0;
  if (const Got got = varint(key); got != Got::kField) return got;
  wire = key & 7U;
  field.number = static_cast<uint32_t>(key >> 3);
  return key >> 32 != 0 || field.number == 0 ? Got::kBroken : Got::kField;
}

template <typename Word>
Got WireReader::fixed(uint64_t& value) {
  if (static_cast<size_t>(end_ - p_) < sizeof(Word)) return Got::kCut;
  Word word;
  std::memcpy(&word, p_, sizeof word);
  p_ += sizeof word;
  value = word;
  return Got::kField;
}

inline Got WireReader::body(Field& field, uint8_t wire) {
  field.wire = static_cast<Wire>(wire);
  switch (field.wire) {
    case Wire::kVarint:
      return varint(field.value);
    case Wire::kFixed64:
      return fixed<uint64_t>(field.value);
    case Wire::kFixed32:
      return fixed<uint32_t>(field.value);
    case Wire::kBytes: {
      uint64_t length = 0;
      if (const Got got = varint(length); got != Got::kField) return got;
      const auto bytes_there = static_cast<uint64_t>(end_ - p_);
      field.bytes = {p_, static_cast<size_t>(length < bytes_there ? length : bytes_there)};
      p_ += field.bytes.size();
      return length <= bytes_there ? Got::kField : Got::kCut;
    }
    default:
      return Got::kBroken;
  }
}

inline Got WireReader::next(Field& field) {
  if (p_ == end_) return Got::kEnd;
  uint8_t wire = 0;
  field.bytes = {};
  if (const Got got = tag(field, wire); got != Got::kField) return got;
  if (wire != static_cast<uint8_t>(Wire::kGroup)) return body(field, wire);
  field.wire = Wire::kGroup;
  return skip_group();
}

// A message without repeated fields and with numbers below `Fields`: the last value of each counts.
// Fields of other numbers are passed over.
template <size_t Fields>
struct FlatMessage {
  static_assert(Fields <= 32);

  std::array<uint64_t, Fields> number{};
  std::array<std::string_view, Fields> text{};
  uint32_t seen = 0;  // a bit a field

  bool has(uint32_t field) const { return (seen >> field & 1) != 0; }

  // False: not all of it could be understood.
  bool read(std::string_view message) {
    WireReader reader(message);
    Field field;
    Got got = reader.next(field);
    for (; got == Got::kField; got = reader.next(field)) {
      if (field.number >= Fields || field.wire == Wire::kGroup) continue;
      seen |= 1U << field.number;
      if (field.wire == Wire::kBytes) {
        text[field.number] = field.bytes;
      } else {
        number[field.number] = field.value;
      }
    }
    return got == Got::kEnd;
  }
};

}  // namespace stepscope::protobuf
