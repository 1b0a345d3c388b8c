// A thread that looks at all threads of the process every ms or so: what they run, and what they
// wait for. It takes no GIL, sends no signals and calls nothing of Python's.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/own_threads.h"
#include "python/code_copies.h"
#include "python/stack_journal.h"
#include "python/stack_reader.h"
#include "python/thread_list.h"
#include "sampler/cpu_account.h"
#include "sampler/kernel_view.h"
#include "sampler/memory_reader.h"
#include "sampler/other_threads.h"
#include "sampler/pace.h"
#include "sampler/sample_store.h"
#include "sampler/stack_nodes.h"
#include "sampler/stop_signal.h"

namespace stepscope {

// What an instruction may be busy with.
enum class Operation : uint8_t {
  kOther = 0,
  kCall,     // a function that is not Python's, as long as no frame of one is further in
  kOperator  // the same, or the interpreter itself: a sum of arrays, or of numbers
};

struct SamplerOptions {
  int64_t interval_ns = 1'000'000;
  double budget = 0.03;      // the share of a core that it may use
  size_t limit_bytes = 0;    // 0: none
  bool keep_newest = false;  // what to keep at the limit
  int64_t age_ns = 0;        // older samples go; 0: none
  MemoryReader::Way way = MemoryReader::Way::kVmReadv;
  std::array<Operation, 256> operations{};  // what kind each instruction is of
};

struct SeenThread {
  pid_t native_id = 0;
  std::string name;  // the kernel's, of one that Python does not know
};

struct ResidentMemory {
  int64_t time_ns = 0;
  int64_t bytes = 0;
};

// Keeps the stream up to date with what a sampler has found. On the sampler's own thread.
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

class Sampler {
 public:
  struct Counts {
    // Read while it runs, too.
    std::atomic<int64_t> looks{0};   // at one thread each
    std::atomic<int64_t> passes{0};  // over all threads
    int64_t torn = 0;                // looks that found a stack which changed while it was read
    int64_t cpu_ns = 0;              // of the sampler itself
    int64_t wall_ns = 0;             // that it ran
  };

  // Needs the GIL, as its end does.
  explicit Sampler(SamplerOptions options);
  ~Sampler();
  Sampler(const Sampler&) = delete;
  Sampler& operator=(const Sampler&) = delete;

  // Whether the calling thread's own frames are read as the interpreter shows them. Needs the GIL.
  bool reads_truly();

  // False if the system gives no thread.
  bool start();
  void stop();

  // Ends the thread; start() goes on with the same recording.
  void rest();

  // After stop().
  std::vector<Sample> take_samples() { return samples_.take(); }
  const StackNodes& stacks() const { return stacks_; }
  const CodeCopies& codes() const { return codes_; }
  const std::vector<SeenThread>& threads() const { return seen_; }
  const std::vector<ResidentMemory>& resident() const { return resident_; }
  const Counts& counts() const { return counts_; }

  // Calls `put` with each count by name; after stop(), or on the sampler's own thread.
  template <typename Put>
  void each_count(const Put& put) const {
    put("looks", counts_.looks.load());
    put("torn", counts_.torn);
    put("passes", counts_.passes.load());
    put("cpu_ns", counts_.cpu_ns);
    put("wall_ns", counts_.wall_ns);
    put("lost", samples_.lost() + lost_stacks_);
    put("sees_waits", int64_t{sees_waits_});
    put("one_by_one", int64_t{options_.way == MemoryReader::Way::kProcMemory});
  }

 private:
  struct Work {
    SampleState state = SampleState::kNative;
    uint32_t stack = 0;
  };
  // What one look shows of a thread.
  struct Look {
    SampleState state = SampleState::kNative;
    WaitReason wait = WaitReason::kUnknown;
    bool computes = false;  // it has a core, or has lost it in the middle of its work
    Work work{};            // what it does whenever it has a core
    uint32_t stack = 0;     // the native function that it is in included
  };
  // A thread of the system's, with the interpreters' structures for it: several when one
  // interpreter runs another.
  struct Watched {
    std::vector<ThreadPlaces> places;
    uint32_t seen = 0;  // its number among those that were ever seen
    int64_t cpu_ns = -1;
    int64_t time_ns = 0;
    int64_t ask_ns = 0;  // when to ask next whether it still waits
    CpuAccount account;
    int64_t sample = SampleStore::kNowhere;
    Look last;
    GilView gil;                  // when it was last looked at
    std::vector<FrameAt> frames;  // of the last sample, the outermost first
    std::vector<uint32_t> nodes;  // its stack, frame by frame
    SyscallFile syscall;
  };

  void loop();
  void look_at_all(int64_t now_ns);
  bool look_at(pid_t thread, Watched& watched, int64_t now_ns);
  void go_on_waiting(pid_t thread, Watched& watched, int64_t now_ns);
  KernelView ask_kernel(pid_t thread, Watched& watched) const;
  bool still_waits_for_gil(const Watched& watched) const;
  bool may_wait_its_turn(pid_t thread, const Watched& watched, int64_t cpu_ns);
  bool read_stack(Watched& watched);
  SampleState running_state() const;
  bool is_in_native(SampleState state) const;
  Look look_of(pid_t thread, Watched& watched, bool advances, bool has_run);
  void begin_sample(Watched& watched, const Look& look, int64_t begin_ns);
  void set_stacks(Watched& watched, Look& look);
  uint32_t node_of(Watched& watched);
  void extend(Watched& watched, int64_t now_ns);
  void append(Watched& watched, const Work& work, int64_t length_ns);
  int64_t settle(Watched& watched, const Look& next, int64_t now_ns, int64_t cpu_ns);
  void look_at_others(int64_t now_ns);
  uint32_t number_of(pid_t thread);
  void stream(int64_t now_ns);
  void measure(int64_t now_ns);

  const SamplerOptions options_;
  MemoryReader memory_;
  CodeCopies codes_;
  StackReader reader_;
  ThreadList list_;
  Pace pace_;
  SampleStore samples_;
  SampleJournal journal_;
  StackNodes stacks_;
  OtherThreads others_;
  std::unordered_map<pid_t, Watched> watched_;
  std::vector<SeenThread> seen_;
  std::unordered_map<pid_t, uint32_t> seen_number_;
  std::vector<ResidentMemory> resident_;
  Counts counts_;
  int64_t lost_stacks_ = 0;
  int64_t start_ns_ = 0;
  int64_t earlier_cpu_ns_ = 0;  // of the threads before this one
  int64_t counts_due_ns_ = 0;
  int64_t others_due_ns_ = 0;
  int64_t others_looked_ns_ = 0;
  int64_t resident_due_ns_ = 0;
  // With many threads: how many ran and wait again, and that one in `turns_` of them is looked at.
  size_t waits_again_ = 0;
  size_t turns_ = 1;
  bool clock_is_fine_ = false;
  bool sees_waits_ = false;
  bool may_keep_files_ = false;
  pid_t own_thread_ = 0;

  // Scratch.
  std::vector<ThreadPlaces> new_places_;
  ReadStack part_;
  std::vector<FrameAt> frames_;
  Operation operation_ = Operation::kOther;  // of the innermost frame
  GilView gil_;
  bool holds_gil_ = false;
  bool moves_ = false;

  Worker worker_;
  StopSignal stop_;
  bool rests_ = false;
};

}  // namespace stepscope
