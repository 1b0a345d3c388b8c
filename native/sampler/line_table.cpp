#include "sampler/line_table.h"

#include <cstddef>
#include <cstdint>

#include "sampler/sampled_code.h"

namespace stepscope {
namespace {

// Kinds of entries; those below kOneLine0 are the short form, with the column in the kind.
enum EntryKind { kOneLine0 = 10, kOneLine2 = 12, kNoColumns = 13, kLong = 14, kNone = 15 };

class TableReader {
 public:
  explicit TableReader(std::span<const uint8_t> table) : table_(table) {}

  bool at_end() const { return at_ >= table_.size(); }
  // 0 after the end.
  int byte() { return at_end() ? 0 : table_[at_++]; }

  int varint() {
    unsigned value = 0;
    int shift = 0;
    int read;
    do {
      read = byte();
      if (shift < 30) {
        value |= static_cast<unsigned>(read & 63) << shift;
        shift += 6;
      }
    } while ((read & 64) && !at_end());
    return static_cast<int>(value);
  }

  int signed_varint() {
    const int value = varint();
    return value & 1 ? -(value >> 1) : value >> 1;
  }

 private:
  std::span<const uint8_t> table_;
  size_t at_ = 0;
};

// Numbers of a damaged table may add up to anything.
int sum(int a, int b) {
  return static_cast<int>(static_cast<unsigned>(a) + static_cast<unsigned>(b));
}

// Reads an entry's fields; `line` becomes the line that the next entry counts from.
SourceRange read_entry(TableReader& in, int kind, int& line) {
  SourceRange range;
  switch (kind) {
    case kNone:
      return range;
    case kLong:
      line = sum(line, in.signed_varint());
      range.end_line = sum(line, in.varint());
      range.column = in.varint() - 1;
      range.end_column = in.varint() - 1;
      break;
    case kNoColumns:
      line = sum(line, in.signed_varint());
      range.end_line = line;
      break;
    case kOneLine0:
    case kOneLine0 + 1:
    case kOneLine2:
      line = sum(line, kind - kOneLine0);
      range.end_line = line;
      range.column = in.byte();
      range.end_column = in.byte();
      break;
    default: {
      const int second = in.byte();
      range.end_line = line;
      range.column = kind << 3 | second >> 4;
      range.end_column = range.column + (second & 15);
    }
  }
  range.line = line;
  return range;
}

}  // namespace

SourceRange source_of(std::span<const uint8_t> table, int first_line, int instruction) {
  if (instruction < 0) return {first_line, first_line, -1, -1};
  TableReader in(table);
  int line = first_line;
  int64_t end = 0;
  while (!in.at_end()) {
    const int head = in.byte();
    const SourceRange range = read_entry(in, head >> 3 & 15, line);
    end += ((head & 7) + 1) * kUnitBytes;
    if (instruction < end) return range;
  }
  return {};
}

}  // namespace stepscope
