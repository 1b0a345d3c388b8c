// Recently ended ranges with given names, read from a recording in progress.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/recording.h"

namespace stepscope {

struct RecentRange {
  uint64_t start_ticks = 0;
  uint64_t end_ticks = 0;
  std::string name;
};

// Those that ended from `since_ticks` on and whose names begin with one of the prefixes, in no
// order. Few records are looked at where little time has passed.
std::vector<RecentRange> recent_ranges(const Recording& recording, uint64_t since_ticks,
                                       const std::vector<std::string>& prefixes);

}  // namespace stepscope
