// What names a frame: a copy of what a code object says of itself.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace stepscope {

inline constexpr int kUnitBytes = 2;  // of instructions

struct SampledCode {
  std::string file;
  std::string function;
  int first_line = 0;
  std::vector<uint8_t> line_table;
  std::vector<uint8_t> operations;  // what each unit of the instructions does

  uint8_t operation_at(int instruction) const {
    const auto unit = static_cast<size_t>(instruction) / kUnitBytes;
    return instruction >= 0 && unit < operations.size() ? operations[unit] : 0;
  }
};

}  // namespace stepscope
