#include "sampler/kernel_view.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <charconv>
#include <cstdio>
#include <ctime>

#include "core/read_clock.h"

namespace stepscope {
namespace {

// As pthread_getcpuclockid() makes it, for any thread of this process.
clockid_t cpu_clock_of(pid_t thread) {
  constexpr int kPerThread = 4;
  constexpr int kScheduler = 2;
  return static_cast<clockid_t>(~static_cast<unsigned>(thread) << 3 | kPerThread | kScheduler);
}

bool next_number(std::string_view& text, uint64_t* value) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  const bool is_hex = text.starts_with("0x");
  if (is_hex) text.remove_prefix(2);
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), *value, is_hex ? 16 : 10);
  if (error != std::errc()) return false;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  return true;
}

// Looks the file up by its name: our own thread has no table of the program's files.
WaitReason reason_by_file(int file) {
  char path[64];
  std::snprintf(path, sizeof path, "/proc/self/fd/%d", file);
  struct stat about;
  if (stat(path, &about) != 0) return WaitReason::kUnknown;
  switch (about.st_mode & S_IFMT) {
    case S_IFIFO:
      return WaitReason::kPipe;
    case S_IFSOCK:
      return WaitReason::kSocket;
    case S_IFREG:
    case S_IFDIR:
    case S_IFBLK:
    case S_IFCHR:
      return WaitReason::kFile;
    default:  // an eventfd, a timer, ...
      return WaitReason::kUnknown;
  }
}

// A single file that is waited for tells more than that it is polled.
WaitReason reason_by_poll(const WaitingCall& call, const MemoryReader& memory) {
  if (call.args[1] == 0) return WaitReason::kSleep;
  pollfd only{};
  if (call.args[1] > 1 || !memory.read(call.args[0], &only)) return WaitReason::kPoll;
  const WaitReason reason = reason_by_file(only.fd);
  return reason == WaitReason::kUnknown ? WaitReason::kPoll : reason;
}

}  // namespace

std::optional<int64_t> cpu_ns_of(pid_t thread) {
  timespec used;
  if (clock_gettime(cpu_clock_of(thread), &used) != 0) return std::nullopt;
  return in_ns(used);
}

bool cpu_clock_is_fine() {
  constexpr int64_t kFineNs = 20'000;
  constexpr int64_t kPatienceNs = 200'000;
  const int64_t end_ns = monotonic_ns() + kPatienceNs;
  const int64_t before_ns = own_cpu_ns();
  do {
    const int64_t advance_ns = own_cpu_ns() - before_ns;
    if (advance_ns > 0) return advance_ns < kFineNs;
  } while (monotonic_ns() < end_ns);
  return false;
}

KernelView parse_syscall(std::string_view text) {
  KernelView view;
  if (text.starts_with("running")) {
    view.is = KernelView::Is::kRunnable;
    return view;
  }
  if (text.starts_with("-1")) {  // a page fault, for one
    view.is = KernelView::Is::kWaiting;
    view.call.number = -1;
    return view;
  }
  uint64_t number = 0;
  if (!next_number(text, &number)) return view;
  view.call.number = static_cast<long>(number);
  for (uint64_t& arg : view.call.args) {
    if (!next_number(text, &arg)) return view;
  }
  view.is = KernelView::Is::kWaiting;
  return view;
}

KernelView SyscallFile::read(pid_t thread, bool may_keep) {
  if (file_ < 0) {
    char path[64];
    std::snprintf(path, sizeof path, "/proc/self/task/%d/syscall", static_cast<int>(thread));
    file_ = open(path, O_RDONLY | O_CLOEXEC);
    if (file_ < 0) return {};
  }
  char text[256];
  const ssize_t size = pread(file_, text, sizeof text, 0);
  if (!may_keep) close();
  return size > 0 ? parse_syscall({text, static_cast<size_t>(size)}) : KernelView{};
}

void SyscallFile::close() {
  if (file_ >= 0) ::close(std::exchange(file_, -1));
}

bool syscalls_are_shown() {
  const auto own = static_cast<pid_t>(syscall(SYS_gettid));
  return SyscallFile().read(own, false).is != KernelView::Is::kUnknown;
}

bool leave_shared_files() {
#if defined(SYS_close_range)
  constexpr unsigned kUnshare = 2;  // CLOSE_RANGE_UNSHARE
  return syscall(SYS_close_range, 0U, ~0U, kUnshare) == 0;
#else
  return false;
#endif
}

Address futex_of(const WaitingCall& call) { return call.number == SYS_futex ? call.args[0] : 0; }

WaitReason wait_reason(const WaitingCall& call, const MemoryReader& memory) {
  const auto file = static_cast<int>(call.args[0]);
  switch (call.number) {
    case SYS_nanosleep:
    case SYS_clock_nanosleep:
      return WaitReason::kSleep;
    case SYS_futex:
#ifdef SYS_futex_waitv
    case SYS_futex_waitv:
#endif
    case SYS_flock:
    case SYS_fcntl:
    case SYS_semop:
    case SYS_semtimedop:
      return WaitReason::kLock;
#ifdef SYS_poll
    case SYS_poll:
#endif
    case SYS_ppoll:
      return reason_by_poll(call, memory);
#ifdef SYS_select
    case SYS_select:
#endif
    case SYS_pselect6:
      return call.args[0] == 0 ? WaitReason::kSleep : WaitReason::kPoll;
#ifdef SYS_epoll_wait
    case SYS_epoll_wait:
#endif
    case SYS_epoll_pwait:
#ifdef SYS_epoll_pwait2
    case SYS_epoll_pwait2:
#endif
      return WaitReason::kPoll;
    case SYS_read:
    case SYS_readv:
    case SYS_pread64:
    case SYS_preadv:
    case SYS_write:
    case SYS_writev:
    case SYS_pwrite64:
    case SYS_pwritev:
    case SYS_sendfile:
    case SYS_splice:
      return reason_by_file(file);
    case SYS_recvfrom:
    case SYS_recvmsg:
    case SYS_recvmmsg:
    case SYS_sendto:
    case SYS_sendmsg:
    case SYS_sendmmsg:
    case SYS_connect:
    case SYS_accept:
    case SYS_accept4:
    case SYS_shutdown:
      return WaitReason::kSocket;
    case SYS_wait4:
    case SYS_waitid:
    case SYS_clone:  // as vfork() does: until the child has become another program
#ifdef SYS_clone3
    case SYS_clone3:
#endif
#ifdef SYS_vfork
    case SYS_vfork:
#endif
      return WaitReason::kProcess;
    case SYS_fsync:
    case SYS_fdatasync:
    case SYS_sync:
    case SYS_syncfs:
    case SYS_sync_file_range:
    case SYS_msync:
    case SYS_openat:
    case SYS_close:
    case SYS_ftruncate:
    case SYS_fallocate:
    case SYS_getdents64:
    case SYS_newfstatat:
    case SYS_fstat:
    case SYS_statx:
    case SYS_unlinkat:
    case SYS_renameat2:
    case SYS_mkdirat:
    case SYS_copy_file_range:
    case SYS_io_getevents:
#ifdef SYS_open
    case SYS_open:
    case SYS_stat:
    case SYS_rename:
    case SYS_unlink:
#endif
      return WaitReason::kFile;
    default:
      return WaitReason::kUnknown;
  }
}

}  // namespace stepscope
