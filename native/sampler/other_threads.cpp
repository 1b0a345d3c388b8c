#include "sampler/other_threads.h"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "sampler/kernel_view.h"

namespace stepscope {
namespace {

std::string first_bytes_of(const char* path) {
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return {};
  char text[128];
  const ssize_t size = read(file, text, sizeof text);
  close(file);
  return {text, size > 0 ? static_cast<size_t>(size) : 0};
}

}  // namespace

void for_each_thread(const std::function<void(pid_t)>& visit) {
  DIR* const folder = opendir("/proc/self/task");
  if (!folder) return;
  while (const dirent* const entry = readdir(folder)) {
    const int thread = std::atoi(entry->d_name);
    if (thread > 0) visit(static_cast<pid_t>(thread));
  }
  closedir(folder);
}

std::string kernel_name_of(pid_t thread) {
  char path[64];
  std::snprintf(path, sizeof path, "/proc/self/task/%d/comm", static_cast<int>(thread));
  std::string name = first_bytes_of(path);
  while (!name.empty() && name.back() == '\n') name.pop_back();
  return name;
}

int64_t ready_ns_of(pid_t thread) {
  char path[64];
  std::snprintf(path, sizeof path, "/proc/self/task/%d/schedstat", static_cast<int>(thread));
  const std::string text = first_bytes_of(path);  // it ran for, it was ready for, how often
  const size_t space = text.find(' ');
  return space == std::string::npos ? 0 : std::atoll(text.c_str() + space + 1);
}

int64_t resident_bytes() {
  static const int64_t page_bytes = sysconf(_SC_PAGESIZE);
  const std::string text = first_bytes_of("/proc/self/statm");
  const size_t space = text.find(' ');
  if (space == std::string::npos) return 0;
  return std::atoll(text.c_str() + space + 1) * page_bytes;
}

void OtherThreads::look(const std::function<bool(pid_t)>& is_known,
                        const std::function<void(pid_t, int64_t, int64_t)>& tell) {
  ++round_;
  for_each_thread([&](pid_t thread) {
    const auto cpu_ns = cpu_ns_of(thread);
    if (!cpu_ns) return;
    const auto [entry, is_new] = seen_.try_emplace(thread);
    Seen& seen = entry->second;
    // One that is new began after the last look.
    const bool is_old = is_new && round_ == 1;
    const int64_t used_ns = is_old ? 0 : *cpu_ns - seen.cpu_ns;
    seen.cpu_ns = *cpu_ns;
    seen.round = round_;
    if ((used_ns <= 0 && !is_old) || is_known(thread)) return;
    const int64_t before_ns = std::exchange(seen.ready_ns, ready_ns_of(thread));
    if (used_ns > 0) tell(thread, used_ns, std::max<int64_t>(seen.ready_ns - before_ns, 0));
  });
  std::erase_if(seen_, [&](const auto& entry) { return entry.second.round != round_; });
}

}  // namespace stepscope
