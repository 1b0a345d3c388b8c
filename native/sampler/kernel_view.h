// What the kernel says of a thread: its CPU time, and what it waits for.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

#include "sampler/memory_reader.h"
#include "sampler/sample.h"

namespace stepscope {

// The CPU time that a thread of this process has used; nothing when it has ended.
std::optional<int64_t> cpu_ns_of(pid_t thread);

// Whether CPU time is counted as it passes, and not in ticks of milliseconds: then a thread whose
// clock stands has not run.
bool cpu_clock_is_fine();

// A system call in which a thread waits.
struct WaitingCall {
  long number = 0;
  uint64_t args[6] = {};
};

struct KernelView {
  enum class Is : uint8_t { kUnknown, kRunnable, kWaiting };
  Is is = Is::kUnknown;
  WaitingCall call;  // of a waiting one; number -1 outside of a system call
};

// From the text of /proc/self/task/ID/syscall.
KernelView parse_syscall(std::string_view text);

// That file of a thread. Once open, it is read again for a fifth of what opening it takes.
class SyscallFile {
 public:
  SyscallFile() = default;
  ~SyscallFile() { close(); }
  SyscallFile(SyscallFile&& other) noexcept : file_(std::exchange(other.file_, -1)) {}
  SyscallFile& operator=(SyscallFile&& other) noexcept {
    std::swap(file_, other.file_);
    return *this;
  }

  // `may_keep`: it stays open; else it is opened and closed.
  KernelView read(pid_t thread, bool may_keep);

 private:
  void close();

  int file_ = -1;
};

// Whether the kernel shows us system calls at all.
bool syscalls_are_shown();

// Give the calling thread a table of files of its own, with none in it: what it opens is not seen
// by the program, which may count its files, close them all, or pass them on to a child. False when
// the kernel cannot.
bool leave_shared_files();

WaitReason wait_reason(const WaitingCall& call, const MemoryReader& memory);

// The address that a thread waits on in futex(2); 0 in any other call.
Address futex_of(const WaitingCall& call);

}  // namespace stepscope
