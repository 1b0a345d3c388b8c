#include "core/recent_ranges.h"

#include <algorithm>
#include <unordered_map>

#include "core/thread_state.h"

namespace stepscope {

// Records of a chunk stand in the order of their ends.
std::vector<RecentRange> recent_ranges(const Recording& recording, uint64_t since_ticks,
                                       const std::vector<std::string>& prefixes) {
  const std::vector<ChunkView> chunks = recording.chunks_since(since_ticks);
  Inside::order_with_others();
  std::unordered_map<uint32_t, std::string> wanted;  // by label; empty: not
  const auto name_of = [&](uint32_t label) -> const std::string& {
    const auto [found, is_new] = wanted.try_emplace(label);
    if (is_new) {
      const std::string text = recording.interner.text(label);
      const bool is_one = std::any_of(prefixes.begin(), prefixes.end(),
                                      [&](const auto& prefix) { return text.starts_with(prefix); });
      if (is_one) found->second = text;
    }
    return found->second;
  };
  std::vector<RecentRange> ranges;
  for (const auto& [chunk, size, is_retired] : chunks) {
    for (size_t i = size; i-- > 0;) {
      const Record& record = chunk->records[i];
      const bool is_slice = record.kind < Kind::kMemoryChange;
      if ((is_slice ? record.slice.end_ticks : record.start_ticks) < since_ticks) break;
      if (record.kind != Kind::kRange) continue;
      const std::string& name = name_of(record.slice.label);
      if (!name.empty()) ranges.push_back({record.start_ticks, record.slice.end_ticks, name});
    }
  }
  return ranges;
}

}  // namespace stepscope
