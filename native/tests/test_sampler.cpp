// The parts of the sampler that know nothing of Python.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "core/read_clock.h"
#include "sampler/cpu_account.h"
#include "sampler/kernel_view.h"
#include "sampler/memory_reader.h"
#include "sampler/other_threads.h"
#include "sampler/pace.h"
#include "sampler/sample_store.h"
#include "sampler/stack_nodes.h"
#include "sampler/stop_signal.h"

using namespace stepscope;

namespace {

using Way = MemoryReader::Way;

pid_t own_id() { return static_cast<pid_t>(syscall(SYS_gettid)); }

// ---- memory

TEST_CASE("memory that is there is read, and that is not, is not") {
  for (const Way way : {Way::kVmReadv, Way::kProcMemory}) {
    REQUIRE(MemoryReader::works(way));
    const MemoryReader memory(way);
    const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    char* const both = static_cast<char*>(
        mmap(nullptr, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    REQUIRE(both != MAP_FAILED);
    both[page - 1] = 'x';
    munmap(both + page, page);
    const auto begin = reinterpret_cast<Address>(both);
    char copied[3] = {};
    CHECK(memory.read(begin + page - 1, copied, 1));
    CHECK_EQ(copied[0], 'x');
    CHECK_FALSE(memory.read(begin + page, copied, 1));
    CHECK_FALSE(memory.read(Address{0}, copied, 1));
    // Pieces up to the first that is missing.
    const iovec pieces[] = {piece(begin + page - 1, 1), piece(begin + page - 1, 1),
                            piece(begin + page, 1)};
    CHECK_EQ(memory.read(pieces, copied), 2U);
    CHECK_EQ(copied[1], 'x');
    munmap(both, page);
  }
}

TEST_CASE("lasting memory is read without the kernel") {
  static uint64_t words[4] = {1, 2, 3, 4};
  MemoryReader memory(Way::kNone);  // it could read nothing else
  memory.set_lasting(reinterpret_cast<Address>(&words), sizeof words);
  struct {
    uint64_t first, second;
  } copied;
  CHECK(memory.read(reinterpret_cast<Address>(&words[2]), &copied));
  CHECK_EQ(copied.first, 3U);
  CHECK_EQ(copied.second, 4U);
  CHECK_FALSE(memory.read(reinterpret_cast<Address>(&words[3]), &copied));
}

// ---- the kernel's view

TEST_CASE("what the kernel writes of a thread") {
  CHECK_EQ(parse_syscall("running\n").is, KernelView::Is::kRunnable);
  CHECK_EQ(parse_syscall("").is, KernelView::Is::kUnknown);
  CHECK_EQ(parse_syscall("nonsense").is, KernelView::Is::kUnknown);
  CHECK_EQ(parse_syscall("12 0x1").is, KernelView::Is::kUnknown);
  const KernelView fault = parse_syscall("-1 0xffff 0x1234\n");
  CHECK_EQ(fault.is, KernelView::Is::kWaiting);
  CHECK_EQ(fault.call.number, -1);
  const KernelView call = parse_syscall("98 0xffffa5098000 0x189 0x0 0x1 0x2 0xf 0xfe 0xab\n");
  CHECK_EQ(call.is, KernelView::Is::kWaiting);
  CHECK_EQ(call.call.number, 98);
  CHECK_EQ(call.call.args[0], 0xffffa5098000U);
  CHECK_EQ(call.call.args[5], 0xfU);
}

WaitReason reason(long number, uint64_t first = 0, uint64_t second = 0) {
  static const MemoryReader memory(Way::kVmReadv);
  return wait_reason({number, {first, second, 0, 0, 0, 0}}, memory);
}

TEST_CASE("what a call waits for") {
  int ends[2];
  REQUIRE_EQ(pipe(ends), 0);
  const int file = open("/proc/self/exe", O_RDONLY);
  const auto pipe_end = static_cast<uint64_t>(ends[0]);
  CHECK_EQ(reason(SYS_clock_nanosleep), WaitReason::kSleep);
  CHECK_EQ(reason(SYS_futex), WaitReason::kLock);
  CHECK_EQ(reason(SYS_read, pipe_end), WaitReason::kPipe);
  CHECK_EQ(reason(SYS_read, static_cast<uint64_t>(file)), WaitReason::kFile);
  CHECK_EQ(reason(SYS_read, 9999), WaitReason::kUnknown);
  CHECK_EQ(reason(SYS_recvfrom), WaitReason::kSocket);
  CHECK_EQ(reason(SYS_wait4), WaitReason::kProcess);
  CHECK_EQ(reason(SYS_fsync), WaitReason::kFile);
  CHECK_EQ(reason(SYS_pselect6, 0), WaitReason::kSleep);
  CHECK_EQ(reason(SYS_pselect6, 4), WaitReason::kPoll);
  CHECK_EQ(reason(SYS_epoll_pwait), WaitReason::kPoll);
  CHECK_EQ(reason(SYS_ppoll, 0, 0), WaitReason::kSleep);
  CHECK_EQ(reason(SYS_ppoll, 0, 5), WaitReason::kPoll);
  struct {
    int file;
    short events, found;
  } one{ends[0], 1, 0};
  CHECK_EQ(reason(SYS_ppoll, reinterpret_cast<uint64_t>(&one), 1), WaitReason::kPipe);
  CHECK_EQ(reason(-1), WaitReason::kUnknown);
  close(file);
  close(ends[0]);
  close(ends[1]);
}

TEST_CASE("a thread that waits, and its clock") {
  int ends[2];
  REQUIRE_EQ(pipe(ends), 0);
  std::atomic<pid_t> id{0};
  std::thread waiting([&] {
    id = own_id();
    char got;
    CHECK_EQ(read(ends[0], &got, 1), 1);
  });
  SyscallFile file;
  KernelView view;
  do {
    view = id ? file.read(id, true) : KernelView{};
  } while (view.is != KernelView::Is::kWaiting || view.call.number != SYS_read);
  CHECK_EQ(view.call.args[0], static_cast<uint64_t>(ends[0]));
  CHECK(cpu_ns_of(id).has_value());
  CHECK_EQ(cpu_ns_of(id), cpu_ns_of(id));
  CHECK_EQ(write(ends[1], "x", 1), 1);
  waiting.join();
  // A joined thread has left its stack, not yet the kernel: that it goes is what is checked.
  while (cpu_ns_of(id).has_value()) std::this_thread::yield();
  CHECK_EQ(file.read(id, true).is, KernelView::Is::kUnknown);
  close(ends[0]);
  close(ends[1]);
}

TEST_CASE("a thread with files of its own does not touch those of others") {
  const int file = open("/proc/self/exe", O_RDONLY);
  REQUIRE_GE(file, 0);
  std::thread apart([&] {
    REQUIRE(leave_shared_files());
    CHECK_EQ(fcntl(file, F_GETFD), -1);
    CHECK_GE(open("/proc/self/exe", O_RDONLY), 0);
    CHECK_EQ(reason(SYS_read, static_cast<uint64_t>(file)), WaitReason::kFile);
  });
  apart.join();
  CHECK_GE(fcntl(file, F_GETFD), 0);
  close(file);
}

TEST_CASE("other threads are told with the CPU time that they used since") {
  std::atomic<bool> ends{false};
  std::atomic<pid_t> id{0};
  std::thread busy([&] {
    pthread_setname_np(pthread_self(), "busy one");
    id = own_id();
    while (!ends) continue;
  });
  while (!id) continue;
  OtherThreads others;
  const auto nobody = [](pid_t) { return false; };
  others.look(nobody, [](pid_t, int64_t, int64_t) { FAIL_CHECK("nothing was used since"); });
  int64_t used_ns = 0;
  int64_t waited_ns = 0;
  while (!used_ns) {
    others.look(nobody, [&](pid_t thread, int64_t used, int64_t ready) {
      if (thread != id) return;
      used_ns += used;
      waited_ns += ready;
    });
  }
  CHECK_GE(waited_ns, 0);
  CHECK_LE(waited_ns, ready_ns_of(id));
  others.look([&](pid_t) { return true; },
              [](pid_t, int64_t, int64_t) { FAIL_CHECK("the caller knows them all"); });
  CHECK_EQ(kernel_name_of(id), "busy one");
  CHECK_GT(resident_bytes(), 1 << 16);
  ends = true;
  busy.join();
  // The kernel removes a thread a moment after those that wait for it go on.
  while (!kernel_name_of(id).empty()) continue;
  CHECK_EQ(ready_ns_of(id), 0);
}

TEST_CASE("a thread that shares its core waits for it") {
  // Both on one core: what one runs, the other waits.
  cpu_set_t before;
  REQUIRE_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  int core = 0;
  while (!CPU_ISSET(core, &before)) ++core;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(core, &one);
  REQUIRE_EQ(sched_setaffinity(0, sizeof one, &one), 0);
  const int64_t start_ns = ready_ns_of(own_id());
  std::atomic<bool> ends{false};
  std::thread other([&] {
    while (!ends) continue;
  });
  const int64_t until_ns = monotonic_ns() + 5'000'000'000;
  while (ready_ns_of(own_id()) == start_ns && monotonic_ns() < until_ns) continue;
  const bool is_counted = start_ns > 0 || ready_ns_of(own_id()) > 0;
  if (is_counted) CHECK_GT(ready_ns_of(own_id()), start_ns);
  ends = true;
  other.join();
  sched_setaffinity(0, sizeof before, &before);
}

// ---- what is kept

Sample sample(int64_t time_ns) {
  Sample made;
  made.time_ns = time_ns;
  return made;
}

TEST_CASE("samples are kept in order, and can be changed later") {
  SampleStore store(0, false);
  for (int64_t i = 0; i < 2000; ++i) CHECK_EQ(store.add(sample(i)), i);
  store.at(1500)->duration_ns = 7;
  CHECK_EQ(store.at(2000), nullptr);
  CHECK_EQ(store.at(SampleStore::kNowhere), nullptr);
  const std::vector<Sample> all = store.take();
  REQUIRE_EQ(all.size(), 2000U);
  CHECK_EQ(all[1500].duration_ns, 7);
  CHECK_EQ(all.back().time_ns, 1999);
}

TEST_CASE("at the limit, the oldest are kept, or the newest") {
  for (const bool keep_newest : {false, true}) {
    SampleStore store(64 << 10, keep_newest);
    int64_t last = 0;
    for (int64_t i = 0; i < 10'000; ++i) last = store.add(sample(i));
    CHECK_LE(store.size() * sizeof(Sample), 64U << 10);
    CHECK_EQ(store.size() + static_cast<size_t>(store.lost()), 10'000U);
    CHECK_EQ(last == SampleStore::kNowhere, !keep_newest);
    CHECK_EQ(store.at(0) == nullptr, keep_newest);
    const std::vector<Sample> all = store.take();
    CHECK_EQ(keep_newest ? all.back().time_ns : all.front().time_ns, keep_newest ? 9'999 : 0);
    for (size_t i = 1; i < all.size(); ++i) CHECK_EQ(all[i].time_ns, all[i - 1].time_ns + 1);
  }
}

TEST_CASE("what others take of the limit is not there for samples") {
  SampleStore store(64 << 10, false);
  store.set_other_bytes(64 << 10);
  CHECK_EQ(store.add(sample(0)), SampleStore::kNowhere);
  CHECK_EQ(store.lost(), 1);
}

TEST_CASE("a stack is one node however often it is met") {
  StackNodes stacks;
  std::vector<uint32_t> numbers_seen;
  for (int round = 0; round < 2; ++round) {
    for (uint32_t i = 0; i < 5'000; ++i) {
      const uint32_t node = stacks.child(i / 3, i % 7, static_cast<int32_t>(i));
      if (round == 0) numbers_seen.push_back(node);
      CHECK_EQ(node, numbers_seen[i]);
    }
  }
  CHECK_EQ(stacks.nodes().size(), 5'001U);
  CHECK_EQ(stacks.nodes()[numbers_seen[4'000]].parent, 4'000U / 3);
}

// ---- when, and how much

TEST_CASE("the pace keeps to the interval, or to the budget") {
  Pace fast(1'000'000, 0.03);
  Pace slow(1'000'000, 0.03);
  int64_t sum_ns = 0;
  int64_t least_ns = INT64_MAX;
  int64_t most_ns = 0;
  for (int i = 0; i < 10'000; ++i) {
    const int64_t next_ns = fast.next_ns(5'000);
    sum_ns += next_ns;
    least_ns = std::min(least_ns, next_ns);
    most_ns = std::max(most_ns, next_ns);
    slow.next_ns(300'000);
  }
  CHECK_EQ(doctest::Approx(1e6).epsilon(0.01), static_cast<double>(sum_ns) / 10'000);
  CHECK_GE(least_ns, 500'000);
  CHECK_LT(least_ns, 510'000);
  CHECK_LE(most_ns, 1'500'000);
  CHECK_EQ(doctest::Approx(1e7).epsilon(0.01), static_cast<double>(slow.interval_ns()));
}

TEST_CASE("running time is what the clock has counted") {
  constexpr int64_t kMs = 1'000'000;
  CpuAccount busy;
  CHECK_EQ(busy.split(true, true, kMs, kMs).first_ns, kMs);
  // It has lost its core for most of 10 ms.
  const CpuAccount::Split late = busy.split(true, true, 10 * kMs, 2 * kMs);
  CHECK_EQ(late.first_ns, 2 * kMs);
  CHECK_EQ(late.rest_ns, 8 * kMs);
  // It was woken up and computes since, before the first look that sees it do so.
  const CpuAccount::Split began = busy.split(false, true, 10 * kMs, 6 * kMs);
  CHECK_EQ(began.next_ns, 4 * kMs);
  CHECK_EQ(began.rest_ns, 6 * kMs);
  CHECK_EQ(busy.split(true, false, 10 * kMs, 3 * kMs).first_ns, 5 * kMs);
}

TEST_CASE("what ran between two looks is given to the next sample that runs") {
  constexpr int64_t kMs = 1'000'000;
  CpuAccount bursts;
  int64_t used_ns = 0;
  int64_t running_ns = 0;
  for (int i = 0; i < 1'000; ++i) {
    running_ns += bursts.split(i % 10 == 0, i % 10 == 9, kMs, kMs / 10).first_ns;
    used_ns += kMs / 10;
  }
  CHECK_EQ(doctest::Approx(static_cast<double>(used_ns)).epsilon(0.02),
           static_cast<double>(running_ns));
}

TEST_CASE("a wait ends at its time, or when it is told to") {
  StopSignal signal;
  signal.wait_until(monotonic_ns() - 1);
  CHECK_FALSE(signal.is_set());
  std::thread other([&] { signal.set(); });
  signal.wait_until(INT64_MAX / 2);
  CHECK(signal.is_set());
  other.join();
}

}  // namespace
