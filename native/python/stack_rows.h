// Rows of a Trace's table of stacks. Frames that differ in nothing a reader sees are one.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "python/code_names.h"
#include "python/columns.h"
#include "python/text.h"
#include "sampler/line_table.h"
#include "sampler/sampled_code.h"
#include "sampler/stack_nodes.h"

namespace stepscope {

inline constexpr const char* kLeftOutText = "<frames that are left out>";

// Where a frame stands, at the line of its instruction.
inline std::string name_of(const StackNodes::Node& node, const SampledCode& code) {
  const int line = source_of(code.line_table, code.first_line, node.instruction).line;
  return place_name(code.file, line > 0 ? line : code.first_line, code.function);
}

class StackRows {
 public:
  // The row of a stack with one more frame; 0 is the empty stack.
  uint32_t add(uint32_t parent_row, std::string text) {
    const uint32_t id = text_id(std::move(text));
    const auto [entry, is_new] =
        rows_.try_emplace(uint64_t{parent_row} << 32 | id, static_cast<uint32_t>(parent.size()));
    if (is_new) {
      parent.push_back(parent_row);
      frame.push_back(id);
    }
    return entry->second;
  }

  std::vector<uint32_t> parent{0};
  std::vector<uint32_t> frame{0};  // in texts
  std::vector<std::string> texts{""};

 private:
  uint32_t text_id(std::string text) {
    const auto [entry, is_new] =
        ids_.try_emplace(std::move(text), static_cast<uint32_t>(texts.size()));
    if (is_new) texts.push_back(entry->first);
    return entry->second;
  }

  std::unordered_map<uint64_t, uint32_t> rows_;
  std::unordered_map<std::string, uint32_t> ids_;
};

// Add stacks that were found without the GIL; returns the row of each node. A call of native code
// has no name here.
template <typename CodeOf>
std::vector<uint32_t> add_rows(StackRows& rows, const std::vector<StackNodes::Node>& nodes,
                               const CodeOf& code_of) {
  std::vector<uint32_t> row_of(nodes.size(), 0);
  std::vector<bool> hidden(nodes.size(), false);
  for (uint32_t i = 1; i < nodes.size(); ++i) {
    const StackNodes::Node& node = nodes[i];
    uint32_t callers = row_of[node.parent];
    if (node.code >= StackNodes::kLeftOut) {
      row_of[i] = rows.add(callers, kLeftOutText);
      continue;
    }
    const SampledCode& code = code_of(node.code);
    hidden[i] = is_hidden(code.file, hidden[node.parent]);
    if (begins_child(code.file, code.function)) callers = 0;
    row_of[i] = hidden[i] ? callers : rows.add(callers, name_of(node, code));
  }
  return row_of;
}

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
