// The threads that are ours: whoever tells what the program's threads do leaves them out.
#pragma once

#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>

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

}  // namespace stepscope
