#include "core/watcher.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>

#include "core/own_file.h"

namespace stepscope {
namespace {

// Everything below start_watcher() runs in a fork of a process that may have threads: it calls
// nothing that takes a lock or memory.

constexpr int kStandardError = 2;
constexpr char kDismissal = 'd';
constexpr int kPatienceMs = 5'000;  // to learn how it ended
constexpr unsigned kExiting = 0x4;  // PF_EXITING of the kernel

// Since Linux 6.15; the headers of the machine that builds may be older.
struct PidfdInfo {
  uint64_t mask;
  uint64_t cgroup;
  uint32_t ids[11];
  int32_t exit_code;
};
constexpr uint64_t kInfoExit = 1 << 3;

OwnFile to_watcher;
OwnFile from_watcher;

void sleep_ms(int ms) {
  const timespec time{ms / 1000, ms % 1000 * 1'000'000L};
  nanosleep(&time, nullptr);
}

struct ProcessState {
  bool is_there = false;
  char state = 0;
  unsigned flags = 0;
  unsigned long long image = 0;  // where its stack began: another after an exec
  int exit_code = 0;
};

// From /proc/PID/stat, whose second word may have spaces and parentheses in it.
ProcessState state_of(const char* path) {
  ProcessState state;
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return state;
  char text[2048];
  const ssize_t size = read(file, text, sizeof(text) - 1);
  close(file);
  if (size <= 0) return state;
  text[size] = 0;
  char* at = std::strrchr(text, ')');
  if (!at) return state;
  state.is_there = true;
  int field = 2;
  char* rest = nullptr;
  for (char* word = strtok_r(at + 1, " ", &rest); word; word = strtok_r(nullptr, " ", &rest)) {
    ++field;
    if (field == 3) state.state = *word;
    if (field == 9) state.flags = static_cast<unsigned>(std::strtoul(word, nullptr, 10));
    if (field == 28) state.image = std::strtoull(word, nullptr, 10);
    if (field == 52) state.exit_code = static_cast<int>(std::strtol(word, nullptr, 10));
  }
  return state;
}

bool has_ended(const ProcessState& now) {
  return now.state == 'Z' || now.state == 'X' || (now.flags & kExiting);
}

// The exit status as wait() returns it; false if it cannot be found out.
bool status_of(int pidfd, const char* path, int* status) {
  for (int waited = 0; waited < kPatienceMs; waited += 10) {
    PidfdInfo info{};
    info.mask = kInfoExit;
    if (ioctl(pidfd, _IOWR(0xFF, 11, PidfdInfo), &info) == 0 && (info.mask & kInfoExit)) {
      *status = info.exit_code;
      return true;
    }
    const ProcessState now = state_of(path);
    if (now.state == 'Z') {
      *status = now.exit_code;
      return true;
    }
    if (!now.is_there && waited > 100) return false;
    sleep_ms(10);
  }
  return false;
}

// What the process runs now, from the file beside its stat.
void tell_what_runs(const char* stat_path, char* program_name, size_t name_size) {
  char path[64];
  const size_t folder = std::strlen(stat_path) - std::strlen("stat");
  std::snprintf(path, sizeof(path), "%.*scmdline", static_cast<int>(folder), stat_path);
  const int begin = std::snprintf(program_name, name_size, "exec:");
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return;
  const ssize_t size = read(file, program_name + begin, name_size - static_cast<size_t>(begin) - 1);
  close(file);
  for (ssize_t i = 0; i < size; ++i) {
    if (!program_name[begin + i]) program_name[begin + i] = ' ';
  }
  program_name[begin + (size > 0 ? size : 0)] = 0;
}

void wait_for_end(int pidfd) {
  pollfd one{pidfd, POLLIN, 0};
  while (poll(&one, 1, -1) < 0 && errno == EINTR) {
  }
}

// How the program ended, once it has; false when it said that there is nothing to do.
bool watch(int pipe, int pidfd, const char* path, char* program_name, size_t name_size) {
  const ProcessState first = state_of(path);
  char word = 0;
  ssize_t count = 0;
  while ((count = read(pipe, &word, 1)) < 0 && errno == EINTR) {
  }
  if (count == 1 && word == kDismissal) return false;
  ProcessState now = state_of(path);
  if (now.is_there && !has_ended(now)) {
    sleep_ms(20);
    now = state_of(path);
    if (now.is_there && !has_ended(now)) {
      if (now.image != first.image) {
        tell_what_runs(path, program_name, name_size);
        return true;
      }
      wait_for_end(pidfd);  // it closed all its files, and goes on
    }
  }
  int status = 0;
  if (status_of(pidfd, path, &status)) {
    std::snprintf(program_name, name_size, "status:%d", status);
  } else {
    std::snprintf(program_name, name_size, "unknown");
  }
  return true;
}

void close_all_but(int first, int second, int third) {
  // In order, so that the gaps between them can be closed.
  int keep[3] = {first, second, third};
  for (int i = 0; i < 3; ++i) {
    for (int j = i + 1; j < 3; ++j) {
      if (keep[j] < keep[i]) {
        const int smaller = keep[j];
        keep[j] = keep[i];
        keep[i] = smaller;
      }
    }
  }
  int from = kStandardError + 1;
  for (const int fd : keep) {
    if (fd >= from) {
      if (fd > from)
        syscall(SYS_close_range, static_cast<unsigned>(from), static_cast<unsigned>(fd - 1), 0U);
      from = fd + 1;
    }
  }
  syscall(SYS_close_range, static_cast<unsigned>(from), ~0U, 0U);
}

[[noreturn]] void run_watcher(int pipe, int reply, int pidfd, const char* path, char** command,
                              char* program_name, size_t name_size) {
  prctl(PR_SET_NAME, "stepscope-watch");
  for (const int number : {SIGINT, SIGQUIT, SIGHUP, SIGPIPE}) signal(number, SIG_IGN);
  for (const int number : {SIGTERM, SIGSEGV, SIGABRT}) signal(number, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  const int nothing = open("/dev/null", O_RDWR);
  if (nothing >= 0) {
    dup2(nothing, 0);
    dup2(nothing, 1);
  }
  close_all_but(pipe, reply, pidfd);
  if (!watch(pipe, pidfd, path, program_name, name_size)) {
    close(kStandardError);
    _exit(0);  // which closes the reply
  }
  signal(SIGPIPE, SIG_DFL);
  execv(command[0], command);
  _exit(127);
}

void close_line() {
  to_watcher.close();
  from_watcher.close();
}

}  // namespace

bool start_watcher(const std::vector<std::string>& command) {
  [[maybe_unused]] static const int registered = pthread_atfork(nullptr, nullptr, &close_line);
  if (to_watcher.was_opened() || command.empty()) return false;
  int to[2];
  int from[2];
  if (pipe2(to, O_CLOEXEC) != 0) return false;
  if (pipe2(from, O_CLOEXEC) != 0) {
    close(to[0]);
    close(to[1]);
    return false;
  }
  const pid_t me = getpid();
  const auto pidfd = static_cast<int>(syscall(SYS_pidfd_open, me, 0));
  char path[64];
  std::snprintf(path, sizeof(path), "/proc/%d/stat", static_cast<int>(me));
  std::vector<char*> words;
  for (const std::string& word : command) words.push_back(const_cast<char*>(word.c_str()));
  char program_name[128] = "unknown";
  words.push_back(program_name);
  words.push_back(nullptr);
  const pid_t child = pidfd < 0 ? -1 : fork();
  if (child == 0) {
    setsid();
    const pid_t watcher = fork();
    if (watcher != 0) _exit(watcher < 0);
    run_watcher(to[0], from[1], pidfd, path, words.data(), program_name, sizeof(program_name));
  }
  close(to[0]);
  close(from[1]);
  if (pidfd >= 0) close(pidfd);
  int status = 1;
  if (child > 0) {
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
  }
  if (status != 0) {
    close(to[1]);
    close(from[0]);
    return false;
  }
  to_watcher.take(to[1]);
  from_watcher.take(from[0]);
  return true;
}

void dismiss_watcher() {
  if (!to_watcher.was_opened()) return;
  const ssize_t sent = write(to_watcher.number(), &kDismissal, 1);
  if (sent == 1) {
    pollfd gone{from_watcher.number(), 0, 0};
    while (poll(&gone, 1, 1'000) < 0 && errno == EINTR) {
    }
  }
  close_line();
}

}  // namespace stepscope
