// What Paddle's Chrome JSON hides in texts: exact times, and the duration behind every name.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "json/string_table.h"

namespace stepscope::paddle {

inline constexpr int64_t kUntold = INT64_MIN;

struct Unlabeled {
  std::vector<uint32_t> name;     // `matmul dygraph` for `matmul dygraph[44.956 us]`
  std::vector<uint32_t> rest;     // without start_time and end_time
  std::vector<int64_t> start_ns;  // since the first event, kUntold where it is not said
  std::vector<int64_t> end_ns;
  json::StringTable strings;  // of name and rest
};

// Text i is blob[offsets[i] .. offsets[i + 1]). Throws std::invalid_argument for ids without a
// text.
Unlabeled unlabel(std::string_view blob, std::span<const int64_t> offsets,
                  std::span<const uint32_t> name, std::span<const uint32_t> rest);

// `matmul dygraph` of `matmul dygraph[44.956 us]`; a name without a duration is as it is.
std::string_view without_duration(std::string_view name);

}  // namespace stepscope::paddle
