// Rows of a Trace's table of stacks. Frames that differ in nothing a reader sees are one.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "python/columns.h"
#include "python/text.h"

namespace stepscope {

class StackRows {
 public:
  // The row of a stack with one more frame; 0 is the empty stack.
  uint32_t add(uint32_t parent_row, std::string text) {
    const uint32_t id = text_id(std::move(text));
    const auto [found, is_new] =
        rows_.try_emplace(uint64_t{parent_row} << 32 | id, static_cast<uint32_t>(parent.size()));
    if (is_new) {
      parent.push_back(parent_row);
      frame.push_back(id);
    }
    return found->second;
  }

  std::vector<uint32_t> parent{0};
  std::vector<uint32_t> frame{0};  // in texts
  std::vector<std::string> texts{""};

 private:
  uint32_t text_id(std::string text) {
    const auto [found, is_new] =
        ids_.try_emplace(std::move(text), static_cast<uint32_t>(texts.size()));
    if (is_new) texts.push_back(found->first);
    return found->second;
  }

  std::unordered_map<uint64_t, uint32_t> rows_;
  std::unordered_map<std::string, uint32_t> ids_;
};

// The table as columns.
inline void add_stacks(nanobind::dict& columns, StackRows&& rows) {
  columns["parent"] = to_column(std::move(rows.parent));
  columns["frame"] = to_column(std::move(rows.frame));
  columns["texts"] = to_list(rows.texts);
}

// The same, and in front of it which row each of some stacks has.
inline nanobind::tuple stack_tuple(std::vector<uint32_t>&& row_of, StackRows&& rows) {
  return nanobind::make_tuple(to_column(std::move(row_of)), to_column(std::move(rows.parent)),
                              to_column(std::move(rows.frame)), to_list(rows.texts));
}

}  // namespace stepscope
