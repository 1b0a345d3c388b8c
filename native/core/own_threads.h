// Our own threads, which are left out of what is shown of the program's threads.
#pragma once

#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <cstddef>
#include <utility>

namespace stepscope {

// While it lives, the thread that made it is one of ours.
class OwnThread {
 public:
  OwnThread() {
    const auto id = static_cast<pid_t>(syscall(SYS_gettid));
    for (std::atomic<pid_t>& place : places_) {
      pid_t free = 0;
      if (place.compare_exchange_strong(free, id)) {
        place_ = &place;
        return;
      }
    }
  }
  ~OwnThread() {
    if (place_) place_->store(0);
  }
  OwnThread(const OwnThread&) = delete;
  OwnThread& operator=(const OwnThread&) = delete;

  static bool is(pid_t thread) {
    for (const std::atomic<pid_t>& place : places_) {
      if (place.load(std::memory_order_relaxed) == thread) return true;
    }
    return false;
  }

 private:
  static inline std::array<std::atomic<pid_t>, 16> places_{};
  std::atomic<pid_t>* place_ = nullptr;  // null: there are more of us than anybody expects
};

// A thread for work of ours. It gets no signals: they are for the program's threads.
class Worker {
 public:
  // Runs `(self->*loop)()` on a new thread; false if the system gives none. 0: the usual stack.
  template <auto loop, typename Self>
  bool start(Self* self, size_t stack_bytes = 0) {
    const auto run = [](void* object) -> void* {
      pthread_setname_np(pthread_self(), "stepscope");
      (static_cast<Self*>(object)->*loop)();
      return nullptr;
    };
    return begin(run, self, stack_bytes);
  }

  // Wait for its end. A forked child has no such thread.
  void join();

 private:
  bool begin(void* (*run)(void*), void* self, size_t stack_bytes);

  pthread_t thread_{};
  pid_t started_in_ = 0;  // the process; 0: not started
};

inline bool Worker::begin(void* (*run)(void*), void* self, size_t stack_bytes) {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  for (const int own : {SIGSEGV, SIGBUS, SIGFPE, SIGILL}) sigdelset(&all, own);  // our own faults
  pthread_attr_t about;
  pthread_attr_init(&about);
  if (stack_bytes) pthread_attr_setstacksize(&about, stack_bytes);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  const bool is_started = pthread_create(&thread_, &about, run, self) == 0;
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  pthread_attr_destroy(&about);
  if (is_started) started_in_ = getpid();
  return is_started;
}

inline void Worker::join() {
  if (std::exchange(started_in_, 0) == getpid()) pthread_join(thread_, nullptr);
}

}  // namespace stepscope
