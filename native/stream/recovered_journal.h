// The journal of a stream, read by another process.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "sampler/sample.h"
#include "stream/read_bytes.h"
#include "stream/recovered.h"

namespace stepscope {

// A recording, as far as it is known.
struct FoundRecording {
  std::vector<std::string> texts;
  std::vector<std::string> inputs;
  std::vector<ThreadInfo> threads;
  uint64_t window = 0;  // the first that was opened
  uint64_t start_ticks = 0;
  uint64_t limit_bytes = 0;
  std::vector<Record> open;  // slices, which stand beside the journal
};

// What it says that cannot be handed out as it stands.
struct Journal {
  std::map<uint32_t, FoundRecording> recordings;  // by generation
  std::map<int64_t, Sample> samples;              // by place
  std::vector<SyncPoint> points;
  NumberRoom room;
};

// One part of it, which stands in `journal` and `out` afterwards.
void read_journal(std::string_view bytes, Journal& journal, Recovered& out);

}  // namespace stepscope
