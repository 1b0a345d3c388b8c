// The journal of a stream, read by another process.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "read_back/read_bytes.h"
#include "read_back/recovered.h"
#include "sampler/sample.h"

namespace stepscope {

// A recording, as far as it is known.
struct FoundRecording {
  std::vector<std::string> texts;
  std::vector<std::string> inputs;
  std::vector<ThreadInfo> threads;
  uint64_t window = 0;  // the first that was opened
  uint64_t start_ticks = 0;
  Limit limit;
  std::vector<Record> open;  // slices, which stand beside the journal
};

// A sample, which grows until its thread does something else.
struct WrittenSample {
  int64_t written_ns = INT64_MIN;
  Sample sample;
};

// The entries of a journal that need more work before they are tables.
struct Journal {
  std::map<uint32_t, FoundRecording> recordings;  // by generation
  std::map<int64_t, WrittenSample> samples;       // by place
  std::vector<SyncPoint> points;
  NumberRoom room;
};

// Reads one part of the journal into `journal` and `out`.
void read_journal(std::string_view bytes, Journal& journal, Recovered& out);

}  // namespace stepscope
