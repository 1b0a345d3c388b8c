// Of several objects of a kind in a process, the one whose finds are streamed.
#pragma once

#include <unistd.h>

#include <atomic>

#include "stream/stream.h"

namespace stepscope {

template <typename Kind>
class StreamTurn {
 public:
  StreamTurn() = default;
  StreamTurn(const StreamTurn&) = delete;
  StreamTurn& operator=(const StreamTurn&) = delete;
  ~StreamTurn() { end(); }

  // Takes the turn, if there is a stream and nobody has it. A forked child begins anew.
  void take() {
    const pid_t process = getpid();
    pid_t holder = taken_in_.load();
    if (!Stream::is_on() || holder == process) return;
    if (taken_in_.compare_exchange_strong(holder, process)) process_ = process;
  }
  bool is_mine() const { return process_ != 0; }
  void end() {
    if (process_ && process_ == getpid()) taken_in_ = 0;
    process_ = 0;
  }

 private:
  static inline std::atomic<pid_t> taken_in_{0};

  pid_t process_ = 0;
};

}  // namespace stepscope
