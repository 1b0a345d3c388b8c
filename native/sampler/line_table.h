// The table of a code object that says which part of the source an instruction belongs to: the
// format of Python 3.11 and later (Objects/locations.md of CPython).
#pragma once

#include <cstdint>
#include <span>

namespace stepscope {

// Lines from 1, columns from 0 in bytes of UTF-8; -1 where the table does not say.
struct SourceRange {
  int line = -1;
  int end_line = -1;
  int column = -1;
  int end_column = -1;
};

// Where the instruction at a byte offset comes from; all -1 where it comes from nowhere. A table
// that is cut or damaged gives what can be read of it.
SourceRange source_of(std::span<const uint8_t> table, int first_line, int instruction);

}  // namespace stepscope
