// Keeps the stream up to date with what a sampler has found. On the sampler's own thread.
#pragma once

#include <cstdint>
#include <vector>

#include "python/stack_journal.h"
#include "sampler/sample_store.h"
#include "stream/placed_sample.h"

namespace stepscope {

struct ResidentMemory;
struct SeenThread;

class SampleJournal {
 public:
  SampleJournal();
  ~SampleJournal() { end(); }
  SampleJournal(const SampleJournal&) = delete;
  SampleJournal& operator=(const SampleJournal&) = delete;

  // Only one sampler of a process is streamed at a time: the first, and when that has ended, one
  // that still goes on or begins later.
  bool is_on();
  bool is_due(int64_t now_ns) const { return now_ns >= due_ns_; }

  // Another sampler may be streamed from here on.
  void end();
  // The parent's stays behind, and with it what it wrote.
  static void forget_after_fork();

  // All that is new. A sample that is still growing is written again each time.
  void write(int64_t now_ns, const CodeCopies& codes, const StackNodes& stacks,
             SampleStore& samples, const std::vector<int64_t>& growing,
             const std::vector<SeenThread>& threads, const std::vector<ResidentMemory>& resident);

 private:
  // What the journals before this one have written: their numbers are not used again.
  struct Written {
    StackJournal::Written stacks;
    uint32_t threads = 0;
    int64_t samples = 0;
    int64_t until_ns = 0;
  };

  void take_on();
  void add(SampleStore& samples, int64_t place);

  static Written written_;  // whoever is streamed has it

  bool is_streamed_ = false;
  Written before_;
  int64_t due_ns_ = 0;
  StackJournal stacks_{StackJournal::kSampler};
  int64_t samples_ = 0;
  size_t threads_ = 0;
  size_t resident_ = 0;
  std::vector<int64_t> unfinished_;  // samples that still grew when they were last written
  std::vector<PlacedSample> batch_;
};

}  // namespace stepscope
