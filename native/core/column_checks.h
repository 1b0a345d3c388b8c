// Checks of columns that came from Python; they throw std::invalid_argument.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>

namespace stepscope {

inline void check_fits(bool holds, const char* what) {
  if (!holds) throw std::invalid_argument(std::string(what) + " does not fit the other columns");
}

inline void check_ids(std::span<const uint32_t> ids, size_t id_count, const char* what) {
  if (!ids.empty() && *std::max_element(ids.begin(), ids.end()) >= id_count) {
    throw std::invalid_argument(std::string(what) + " refers to something that is not there");
  }
}

}  // namespace stepscope
