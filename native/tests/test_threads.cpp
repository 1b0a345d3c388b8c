// The recorder under many threads, with stops while they record, and forks.
#include <doctest/doctest.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <functional>
#include <map>
#include <set>
#include <thread>

#include "recorded.h"

using namespace stepscope;
using namespace stepscope::testing;

namespace {

void run_threads(int count, const std::function<void(int)>& work) {
  std::vector<std::thread> threads;
  for (int i = 0; i < count; ++i) threads.emplace_back(work, i);
  for (std::thread& thread : threads) thread.join();
}

void check_whole(const Snapshot& snapshot) {
  std::set<std::pair<uint32_t, uint64_t>> seen;
  uint64_t last_start = 0;
  for (const Record* record : snapshot.records) {
    CHECK(seen.emplace(record->thread, record->slice.order).second);  // none twice
    CHECK(record->start_ticks >= last_start);
    CHECK(record->slice.end_ticks >= record->start_ticks);
    CHECK(record->slice.label < snapshot.texts.size());
    last_start = record->start_ticks;
  }
}

// Under ThreadSanitizer they order themselves.
TEST_CASE("threads need no fence where the kernel has a barrier") {
  const long offered = syscall(SYS_membarrier, 0, 0, 0);
  const bool has_barrier = offered > 0 && (offered & 1 << 3) && (offered & 1 << 4);
  CHECK_EQ(shared_state.needs_fence.load(), !has_barrier && !kOrdersItself);
}

TEST_CASE("every threads slices are there") {
  Window window;
  run_threads(16, [](int i) {
    const std::string name = std::to_string(i);
    for (int k = 0; k < 3'000; ++k) {
      OpenSlice* const outer = enter(name);
      leave(enter_operator("op"));
      leave(outer);
    }
  });
  const Snapshot snapshot = window.close();
  check_whole(snapshot);
  CHECK_EQ(snapshot.records.size(), 16U * 6'000U);
  CHECK_EQ(snapshot.threads.size(), 16U);
  std::map<std::string, std::set<uint32_t>> threads_of;
  for (const Record* record : snapshot.records) {
    if (record->kind != Kind::kRange) continue;
    threads_of[snapshot.texts[record->slice.label]].insert(record->thread);
  }
  CHECK_EQ(threads_of.size(), 16U);
  for (const auto& [name, threads] : threads_of) CHECK_EQ(threads.size(), 1U);
}

TEST_CASE("windows may open and close while threads record") {
  std::atomic<bool> finished{false};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&finished, i] {
      const std::string name = std::to_string(i);
      while (!finished.load(std::memory_order_relaxed)) {
        OpenSlice* const outer = enter(name);
        leave(enter_operator("op", "overload"));
        leave(outer);
      }
    });
  }
  for (int round = 0; round < 40; ++round) {
    Window outer({1 << 20, round % 2 ? Keep::kNewest : Keep::kOldest});
    Window inner;
    leave(enter("main"));
    check_whole(inner.close());
    check_whole(outer.close());
  }
  finished = true;
  for (std::thread& thread : threads) thread.join();
  CHECK(!Recorder::recording());
}

TEST_CASE("threads come and go") {
  Window window;
  for (int round = 0; round < 50; ++round) {
    run_threads(4, [](int) { leave(enter("short")); });
  }
  const Snapshot snapshot = window.close();
  check_whole(snapshot);
  CHECK_EQ(snapshot.records.size(), 200U);
}

// They have recorded all they will, and give up what they own while the window closes.
TEST_CASE("threads may end while a window closes") {
  constexpr int kThreads = 8;
  for (int round = 0; round < 200; ++round) {
    Window window;
    std::atomic<int> recorded{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < kThreads; ++i) {
      threads.emplace_back([&recorded] {
        leave(enter("last words"));
        ++recorded;
      });
    }
    while (recorded < kThreads) std::this_thread::yield();
    const Snapshot snapshot = window.close();
    CHECK_EQ(snapshot.records.size(), size_t{kThreads});
    for (std::thread& thread : threads) thread.join();
  }
}

TEST_CASE("a slice may end on another thread") {
  Window window;
  OpenSlice* const slice = enter("handed over");
  std::thread([slice] { leave(slice); }).join();
  const Snapshot snapshot = window.close();
  CHECK_EQ(snapshot.records.size(), 1U);
  CHECK_EQ(int{snapshot.records[0]->flags}, int{kAsync});
}

TEST_CASE("a threads open slice outlives it") {
  Window window;
  OpenSlice* slice = nullptr;
  std::thread([&slice] { slice = enter("left open"); }).join();
  const Snapshot snapshot = window.close();
  CHECK_EQ(snapshot.records.size(), 1U);
  CHECK_EQ(int{snapshot.records[0]->flags}, int{kUnfinished});
  leave(slice);
}

// The last thread-local to go still records: its destructor runs when the recorder's is gone.
struct RecordsAtExit {
  ~RecordsAtExit() { leave(enter("late")); }
};

TEST_CASE("a thread may record while it ends") {
  Window window;
  run_threads(4, [](int) {
    thread_local RecordsAtExit at_exit;
    static_cast<void>(&at_exit);
    leave(enter("early"));
  });
  check_whole(window.close());
}

// What a forked child checks: it has no part in the parent's test run, and exits with the number of
// its failures.
class ChildChecks {
 public:
  void check(bool holds, int line = __builtin_LINE()) {
    if (holds) return;
    ++failures;
    std::fprintf(stderr, "%s:%d: failed in the child\n", __FILE__, line);
  }
  int failures = 0;
};

int in_a_fork(const std::function<void(ChildChecks&)>& work) {
  const pid_t child = fork();
  if (child == 0) {
    ChildChecks checks;
    work(checks);
    _exit(checks.failures);
  }
  int status = -1;
  waitpid(child, &status, 0);
  return status;
}

TEST_CASE("a forked child is clean and records for itself") {
  Window window;
  OpenSlice* const around = enter("around");
  const int status = in_a_fork([around](ChildChecks& child) {
    child.check(!Recorder::recording());
    leave(around);
    Window own;
    leave(enter("child's"));
    std::thread([] { leave(enter("child's thread's")); }).join();
    child.check(own.close().records.size() == 2);
  });
  CHECK_EQ(status, 0);
  leave(around);
  const Snapshot snapshot = window.close();
  CHECK_EQ(snapshot.records.size(), 1U);
  CHECK_EQ(int{snapshot.records[0]->flags}, 0);
}

TEST_CASE("forks while a thread names types") {
  Window window;
  std::atomic<bool> finished{false};
  std::thread naming([&finished] {
    while (!finished.load(std::memory_order_relaxed)) Recorder::core_api().name_type(200, "named");
  });
  for (int round = 0; round < 20; ++round) {
    const int status = in_a_fork([](ChildChecks& child) {
      alarm(60);  // it would wait for good
      child.check(Recorder::type_names().size() == 256);
    });
    CHECK_EQ(status, 0);
  }
  finished = true;
  naming.join();
  Recorder::core_api().name_type(200, "");
}

TEST_CASE("forks while threads record") {
  Window window;
  std::atomic<bool> finished{false};
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&finished] {
      while (!finished.load(std::memory_order_relaxed)) leave(enter_operator("busy"));
    });
  }
  for (int round = 0; round < 20; ++round) {
    const int status = in_a_fork([](ChildChecks& child) {
      Window own;
      leave(enter("child's"));
      child.check(own.close().records.size() == 1);
    });
    CHECK_EQ(status, 0);
  }
  finished = true;
  for (std::thread& thread : threads) thread.join();
  check_whole(window.close());
}

}  // namespace
