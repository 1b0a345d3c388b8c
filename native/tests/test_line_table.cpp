// Where an instruction comes from: the table of a code object, as Python 3.11 and later write it.
#include <doctest/doctest.h>

#include <cstdint>
#include <vector>

#include "sampler/line_table.h"

using namespace stepscope;

namespace {

// An entry for some units of two bytes each.
uint8_t head(int kind, int units) { return static_cast<uint8_t>(0x80 | kind << 3 | (units - 1)); }

void check(const SourceRange& range, int line, int end_line, int column, int end_column) {
  CHECK_EQ(range.line, line);
  CHECK_EQ(range.end_line, end_line);
  CHECK_EQ(range.column, column);
  CHECK_EQ(range.end_column, end_column);
}

TEST_CASE("every kind of entry") {
  const std::vector<uint8_t> table = {
      head(0, 1),  0x24,            // line 10, columns 2 to 6
      head(5, 2),  0x10,            // columns 41 to 41
      head(10, 1), 7,    9,         // the same line, columns 7 to 9
      head(11, 1), 4,    30,        // the next line
      head(12, 1), 0,    1,         // two lines on
      head(13, 1), 6,               // three lines on (a signed 3), no columns
      head(14, 1), 3,    2,  5, 9,  // one line back, to two lines later, columns 4 to 8
      head(15, 1),                  // from nowhere
  };
  check(source_of(table, 10, 0), 10, 10, 2, 6);
  check(source_of(table, 10, 2), 10, 10, 41, 41);
  check(source_of(table, 10, 4), 10, 10, 41, 41);
  check(source_of(table, 10, 6), 10, 10, 7, 9);
  check(source_of(table, 10, 8), 11, 11, 4, 30);
  check(source_of(table, 10, 10), 13, 13, 0, 1);
  check(source_of(table, 10, 12), 16, 16, -1, -1);
  check(source_of(table, 10, 14), 15, 17, 4, 8);
  check(source_of(table, 10, 16), -1, -1, -1, -1);
}

TEST_CASE("numbers of several bytes") {
  // 5000 lines on: 10000 in groups of six bits, the lowest first.
  const std::vector<uint8_t> table = {head(13, 1), 0x40 | (10000 & 63), 0x40 | (10000 >> 6 & 63),
                                      10000 >> 12};
  CHECK_EQ(source_of(table, 1, 0).line, 5001);
}

TEST_CASE("before the first instruction and behind the last") {
  const std::vector<uint8_t> table = {head(0, 1), 0};
  check(source_of(table, 7, -2), 7, 7, -1, -1);
  check(source_of(table, 7, 2), -1, -1, -1, -1);
  check(source_of({}, 7, 0), -1, -1, -1, -1);
}

TEST_CASE("any bytes are read to their end and no further") {
  uint32_t random = 1;
  for (int round = 0; round < 20'000; ++round) {
    std::vector<uint8_t> table(round % 40);
    for (uint8_t& byte : table) {
      random = random * 1664525 + 1013904223;
      byte = static_cast<uint8_t>(random >> 24);
    }
    source_of(table, 1, round % 100);
  }
  std::vector<uint8_t>
      far;  // each entry goes on by more than the last, from the last line there is
  for (int i = 0; i < 10; ++i)
    far.insert(far.end(), {head(14, 1), 0x7E, 127, 127, 127, 63, 63, 1, 1});
  source_of(far, INT32_MAX, 100);
  const std::vector<uint8_t> endless(50, 0xFF);
  source_of(endless, 1, 1000);
}

}  // namespace
