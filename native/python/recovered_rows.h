// Stacks that a process left in its stream, as rows of a table.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "python/recovered_tables.h"
#include "python/stack_rows.h"

namespace stepscope {

// Rows of the stacks that were found, by owner and number.
class RecoveredRows {
 public:
  explicit RecoveredRows(const Recovered& found) : found_(found) {}

  uint32_t of(uint32_t owner, uint32_t stack) {
    const auto [rows_of, is_new] = rows_of_.try_emplace(owner);
    if (is_new) {
      const CopiedStacks stacks = copied_stacks(found_, owner);
      rows_of->second = add_rows(rows, stacks.nodes, [&](uint32_t code) -> const SampledCode& {
        return stacks.codes[code];
      });
    }
    return stack < rows_of->second.size() ? rows_of->second[stack] : 0;
  }

  StackRows rows;

 private:
  const Recovered& found_;
  std::map<uint32_t, std::vector<uint32_t>> rows_of_;
};

}  // namespace stepscope
