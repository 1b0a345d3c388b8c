#include "python/sampler.h"

#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "core/read_clock.h"
#include "core/recording.h"
#include "core/stream.h"
#include "python/frames.h"

namespace stepscope {
namespace {

constexpr int64_t kMs = 1'000'000;
constexpr int64_t kOthersEveryNs = 100 * kMs;
constexpr int64_t kResidentEveryNs = 50 * kMs;
constexpr int64_t kCountsEveryNs = 1000 * kMs;
constexpr int64_t kShortWaitNs = kMs;  // that another thread waits for a core: not worth a sample
constexpr size_t kStackBytes = size_t{512} << 10;  // of our own thread
constexpr int kPassesToCost = 8;                   // reading our own clock costs, too
constexpr size_t kWaitingLooks = 4;       // at threads that have run and wait again, in a pass
constexpr int64_t kAskAfterNs = 2 * kMs;  // that a thread waits: whether it still does
constexpr int64_t kAsksInAWait = 8;       // and then each time that it has waited an eighth longer
constexpr uint32_t kNoRoom = UINT32_MAX;  // for a stack, at the limit of memory
constexpr size_t kFewResident = 1024;
constexpr size_t kMostResident = size_t{1} << 20;  // 14 hours

// Ask for a short turn as soon as it is due, rather than a long one later: where all cores are
// busy, we would else be late by some ms. Kernels before 6.12 do not know of it, and it needs no
// right.
void ask_for_short_turns() {
  struct {
    uint32_t size;
    uint32_t policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime_ns;
    uint64_t deadline_ns;
    uint64_t period_ns;
  } wanted{sizeof wanted, SCHED_OTHER, 0, 0, 0, 100'000, 0, 0};
  wanted.nice = getpriority(PRIO_PROCESS, 0);
  syscall(SYS_sched_setattr, 0, &wanted, 0);
}

}  // namespace

Sampler::Sampler(SamplerOptions options)
    : options_(std::move(options)),
      memory_(options_.way),
      codes_(memory_),
      reader_(memory_, codes_),
      list_(memory_),
      pace_(options_.interval_ns, options_.budget),
      samples_(options_.limit_bytes, options_.keep_newest, options_.age_ns) {
  set_lasting_memory(memory_);
}

Sampler::~Sampler() { stop(); }

bool Sampler::reads_truly() {
  if (!kLayout.is_known) return false;
  memory_.open();
  PyThreadState* const mine = PyThreadState_Get();
  std::vector<ThreadPlaces> all;
  ThreadList(memory_).find_new(all);
  const auto my_places = std::find_if(all.begin(), all.end(), [&](const ThreadPlaces& places) {
    return places.thread == reinterpret_cast<Address>(mine);
  });
  if (my_places == all.end()) return false;
  if (reader_.read(*my_places, part_) != StackReader::Outcome::kRead || !part_.holds_gil)
    return false;
  std::vector<Frame> expected = frames_of(mine);
  std::erase_if(expected, [](const Frame& frame) { return !frame.code; });
  return std::equal(part_.frames.begin(), part_.frames.end(), expected.begin(), expected.end(),
                    [&](const FrameAt& read, const Frame& frame) {
                      const auto code = codes_.number_of(reinterpret_cast<Address>(frame.code));
                      return code == read.code && frame.instruction == read.instruction;
                    });
}

// ---- the thread

bool Sampler::start() {
  memory_.close();
  rests_ = false;
  stop_.clear();
  return worker_.start<&Sampler::loop>(this, kStackBytes);
}

void Sampler::stop() {
  stop_.set();
  worker_.join();
}

void Sampler::rest() {
  rests_ = true;
  stop();
}

void Sampler::loop() {
  own_thread_ = static_cast<pid_t>(syscall(SYS_gettid));
  ask_for_short_turns();
  may_keep_files_ = leave_shared_files();
  memory_.open();
  clock_is_fine_ = cpu_clock_is_fine();
  sees_waits_ = syscalls_are_shown();
  if (!start_ns_) {
    start_ns_ = monotonic_ns();
    counts_due_ns_ = start_ns_ + kCountsEveryNs;
  }
  int64_t cpu_ns = own_cpu_ns();
  int64_t cost_ns = 0;
  while (!stop_.is_set()) {
    const int64_t now_ns = monotonic_ns();
    look_at_all(now_ns);
    if (counts_.passes % kPassesToCost == 0) {
      const int64_t used_ns = own_cpu_ns() - cpu_ns;
      cpu_ns += used_ns;
      cost_ns = used_ns / kPassesToCost;
    }
    stop_.wait_until(now_ns + pace_.next_ns(cost_ns));
  }
  const int64_t end_ns = monotonic_ns();
  for (auto& [thread, watched] : watched_) {
    const int64_t last_ns = cpu_ns_of(thread).value_or(watched.cpu_ns);
    begin_sample(watched, watched.last, settle(watched, watched.last, end_ns, last_ns));
    extend(watched, end_ns);
  }
  look_at_others(end_ns);
  counts_due_ns_ = end_ns;
  measure(end_ns);
  if (journal_.is_on()) stream(end_ns);
  if (!rests_) journal_.end();
  earlier_cpu_ns_ = counts_.cpu_ns;
  watched_.clear();  // its files are this thread's
  list_.forget_all();
  memory_.close();
}

void Sampler::measure(int64_t now_ns) {
  counts_.cpu_ns = earlier_cpu_ns_ + own_cpu_ns();
  counts_.wall_ns = now_ns - start_ns_;
}

void Sampler::look_at_all(int64_t now_ns) {
  ++counts_.passes;
  new_places_.clear();
  list_.find_new(new_places_);
  for (const ThreadPlaces& places : new_places_) {
    const auto [watched, is_new] = watched_.try_emplace(places.native_id);
    if (is_new) watched->second.seen = number_of(places.native_id);
    watched->second.places.push_back(places);
  }
  for (auto entry = watched_.begin(); entry != watched_.end();) {
    entry = look_at(entry->first, entry->second, now_ns) ? std::next(entry) : watched_.erase(entry);
  }
  turns_ = 1 + std::exchange(waits_again_, 0) / kWaitingLooks;
  if (now_ns >= others_due_ns_) {
    look_at_others(now_ns);
    others_due_ns_ = now_ns + kOthersEveryNs;
  }
  const size_t half = resident_.size() / 2;
  if (options_.age_ns && half > kFewResident &&
      resident_[half].time_ns < now_ns - options_.age_ns) {
    resident_.erase(resident_.begin(), resident_.begin() + static_cast<std::ptrdiff_t>(half));
  }
  if (now_ns >= resident_due_ns_ && resident_.size() < kMostResident) {
    // The program's memory: what is recorded of it would look like something that it keeps.
    const auto recorded = static_cast<int64_t>(bytes_of_all_chunks());
    resident_.push_back({now_ns, std::max<int64_t>(resident_bytes() - recorded, 0)});
    resident_due_ns_ = now_ns + kResidentEveryNs;
  }
  samples_.set_other_bytes(stacks_.bytes() + codes_.bytes());
  if (journal_.is_on() && journal_.is_due(now_ns)) {
    measure(now_ns);
    stream(now_ns);
  }
}

void Sampler::stream(int64_t now_ns) {
  std::vector<int64_t> growing;
  for (const auto& [thread, watched] : watched_) growing.push_back(watched.sample);
  journal_.write(now_ns, codes_, stacks_, samples_, growing, seen_, resident_);
  if (now_ns < counts_due_ns_) return;
  counts_due_ns_ = now_ns + kCountsEveryNs;
  std::string text;
  each_count([&](const char* name, int64_t value) {
    text += (text.empty() ? "{\"" : ", \"") + std::string(name) + "\": " + std::to_string(value);
  });
  Stream::instance().note_value("sampler", text + "}");
}

// ---- one thread

// False when it is no longer one of Python's.
bool Sampler::look_at(pid_t thread, Watched& watched, int64_t now_ns) {
  const auto before_ns = cpu_ns_of(thread);
  if (!before_ns) {
    extend(watched, now_ns);
    for (const ThreadPlaces& places : watched.places) list_.forget(places, true);
    return false;
  }
  const bool has_run = *before_ns != watched.cpu_ns;
  if (!has_run && clock_is_fine_ && !is_running(watched.last.state)) {
    go_on_waiting(thread, watched, now_ns);
    return true;
  }
  if (still_waits_for_gil(watched)) {
    watched.cpu_ns = *before_ns;
    extend(watched, now_ns);
    return true;
  }
  if (may_wait_its_turn(thread, watched, *before_ns)) {
    extend(watched, now_ns);
    return true;
  }
  ++counts_.looks;
  now_ns = monotonic_ns();
  if (!read_stack(watched)) {
    extend(watched, now_ns);
    if (watched.places.empty()) return false;
    ++counts_.torn;
    return true;
  }
  const int64_t after_ns = cpu_ns_of(thread).value_or(*before_ns);
  Look look = look_of(thread, watched, after_ns > *before_ns, has_run);
  set_stacks(watched, look);
  const int64_t begin_ns = settle(watched, look, now_ns, after_ns);
  watched.cpu_ns = after_ns;
  watched.time_ns = now_ns;
  watched.ask_ns = now_ns + kAskAfterNs;
  watched.gil = gil_;
  begin_sample(watched, look, begin_ns);
  return true;
}

// It has not run, so its stack is the same; but what it waited for may have come, and it has no
// core. The longer it waits, the less often the kernel is asked.
void Sampler::go_on_waiting(pid_t thread, Watched& watched, int64_t now_ns) {
  extend(watched, now_ns);
  if (watched.last.state != SampleState::kBlocked || now_ns < watched.ask_ns) return;
  watched.ask_ns = now_ns + (now_ns - watched.time_ns) / kAsksInAWait;
  if (ask_kernel(thread, watched).is != KernelView::Is::kRunnable) return;
  watched.last.state = SampleState::kReady;
  watched.last.wait = WaitReason::kUnknown;
  const Sample* const last = samples_.at(watched.sample);
  if (!last) return;
  Sample has_no_core = *last;
  has_no_core.time_ns = now_ns;
  has_no_core.duration_ns = 0;
  has_no_core.state = SampleState::kReady;
  has_no_core.wait = WaitReason::kUnknown;
  watched.sample = samples_.add(has_no_core);
}

// If there are too many threads to look at all that have run, those that wait again, mostly at the
// same place, take turns. Running threads are always looked at.
bool Sampler::may_wait_its_turn(pid_t thread, const Watched& watched, int64_t cpu_ns) {
  if (!pace_.is_stretched() || watched.last.state != SampleState::kBlocked) return false;
  if (cpu_ns_of(thread) != cpu_ns) return false;
  ++waits_again_;
  return (static_cast<size_t>(counts_.passes) + watched.seen) % turns_ != 0;
}

// Into frames_, the outermost first, with what the innermost does.
bool Sampler::read_stack(Watched& watched) {
  frames_.clear();
  operation_ = Operation::kOther;
  holds_gil_ = moves_ = false;
  for (size_t i = watched.places.size(); i-- > 0;) {
    switch (reader_.read(watched.places[i], part_)) {
      case StackReader::Outcome::kTorn:
        return false;
      case StackReader::Outcome::kGone:
        list_.forget(watched.places[i], false);
        watched.places.erase(watched.places.begin() + static_cast<ptrdiff_t>(i));
        continue;
      case StackReader::Outcome::kRead:
        break;
    }
    holds_gil_ |= part_.holds_gil;
    gil_ = part_.gil;
    moves_ |= part_.moves;
    if (frames_.empty() && !part_.frames.empty()) operation_ = options_.operations[part_.operation];
    frames_.insert(frames_.end(), part_.frames.begin(), part_.frames.end());
  }
  std::reverse(frames_.begin(), frames_.end());
  return !watched.places.empty();
}

// ---- what is kept

void Sampler::extend(Watched& watched, int64_t now_ns) {
  if (Sample* const last = samples_.at(watched.sample)) {
    last->duration_ns = now_ns - last->time_ns;
  }
}

// Adds to the open sample, or begins another one behind it.
void Sampler::append(Watched& watched, const Work& work, int64_t length_ns) {
  Sample* const open = samples_.at(watched.sample);
  if (!open || length_ns <= 0) return;
  const bool is_same = open->state == work.state && open->stack == work.stack;
  if (is_same || !open->duration_ns) {
    open->state = work.state;
    open->stack = work.stack;
    open->wait = WaitReason::kUnknown;  // the sample may have begun as one of a wait
    open->duration_ns += length_ns;
    return;
  }
  watched.sample = samples_.add({open->time_ns + open->duration_ns, length_ns, watched.seen,
                                 work.stack, work.state, WaitReason::kUnknown});
}

// Tells what the thread did since the last look, and returns when the next one's sample begins.
int64_t Sampler::settle(Watched& watched, const Look& next, int64_t now_ns, int64_t cpu_ns) {
  extend(watched, now_ns);
  Sample* const open = samples_.at(watched.sample);
  if (!open || watched.cpu_ns < 0) return now_ns;
  const CpuAccount::Split since = watched.account.split(
      watched.last.computes, next.computes, now_ns - watched.time_ns, cpu_ns - watched.cpu_ns);
  if (!watched.last.computes) {
    // The sample may have begun after the last look, when the wait was over.
    const int64_t next_ns = std::min(since.next_ns, open->duration_ns);
    open->duration_ns -= next_ns;
    if (is_running(next.state)) return now_ns - next_ns;
    append(watched, next.work, next_ns);
    return now_ns;
  }
  // Without a core at a look, it was so around that look; else at some time between the two.
  const bool had_core = is_running(watched.last.state);
  const bool has_core = is_running(next.state);
  const int64_t before_ns = had_core ? 0 : has_core ? since.rest_ns : since.rest_ns / 2;
  const int64_t after_ns = has_core && !had_core ? 0 : since.rest_ns - before_ns;
  const Work no_core{SampleState::kReady, watched.last.work.stack};
  open->duration_ns = std::max<int64_t>(watched.time_ns - open->time_ns, 0);
  append(watched, no_core, before_ns);
  append(watched, watched.last.work, since.first_ns);
  if (!has_core) return now_ns - after_ns;
  append(watched, no_core, after_ns);
  return now_ns;
}

void Sampler::begin_sample(Watched& watched, const Look& look, int64_t begin_ns) {
  watched.last = look;
  watched.sample =
      look.stack == kNoRoom
          ? SampleStore::kNowhere
          : samples_.add({begin_ns, 0, watched.seen, look.stack, look.state, look.wait});
}

void Sampler::set_stacks(Watched& watched, Look& look) {
  const size_t limit = options_.limit_bytes;
  if (limit && stacks_.bytes() + codes_.bytes() > limit / 2) {
    ++lost_stacks_;
    look.stack = kNoRoom;
    look.computes = false;
    return;
  }
  const auto stack_in = [&](SampleState state, uint32_t node) {
    if (!is_in_native(state)) return node;
    return stacks_.child(node, StackNodes::kNativeCall, frames_.back().instruction);
  };
  const uint32_t node = node_of(watched);
  look.stack = stack_in(look.state, node);
  look.work.stack = look.computes ? stack_in(look.work.state, node) : look.stack;
  std::swap(watched.frames, frames_);
}

// The stack's number. Its outer part is mostly that of the last time.
uint32_t Sampler::node_of(Watched& watched) {
  const size_t most = std::min(frames_.size(), watched.frames.size());
  size_t same = 0;
  while (same < most && frames_[same] == watched.frames[same]) ++same;
  watched.nodes.resize(frames_.size());
  uint32_t node = same ? watched.nodes[same - 1] : 0;
  for (size_t i = same; i < frames_.size(); ++i) {
    node = stacks_.child(node, frames_[i].code, frames_[i].instruction);
    watched.nodes[i] = node;
  }
  return node;
}

// ---- all others

void Sampler::look_at_others(int64_t now_ns) {
  others_.look(
      [&](pid_t thread) {
        return thread == own_thread_ || thread == Stream::thread_id() || OwnThread::is(thread) ||
               watched_.contains(thread);
      },
      [&](pid_t thread, int64_t used_ns, int64_t ready_ns) {
        const int64_t most_ns = now_ns - others_looked_ns_;
        const uint32_t number = number_of(thread);
        if (seen_[number].name.empty()) seen_[number].name = kernel_name_of(thread);
        const auto add = [&](int64_t begin_ns, int64_t length_ns, SampleState state) {
          samples_.add({begin_ns, length_ns, number, 0, state, WaitReason::kUnknown});
        };
        used_ns = std::min(used_ns, most_ns);
        ready_ns = std::min(ready_ns, most_ns - used_ns);
        add(others_looked_ns_, used_ns, SampleState::kNative);
        if (ready_ns > kShortWaitNs) {
          add(others_looked_ns_ + used_ns, ready_ns, SampleState::kReady);
        }
      });
  others_looked_ns_ = now_ns;
}

uint32_t Sampler::number_of(pid_t thread) {
  const auto [entry, is_new] =
      seen_number_.try_emplace(thread, static_cast<uint32_t>(seen_.size()));
  if (is_new) seen_.push_back({thread, {}});
  return entry->second;
}

}  // namespace stepscope
