// The threads of the process that Python knows nothing of: pools of OpenMP, autograd's workers.
// They are looked at now and then, for the CPU time they use and for what they wait for a core.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <string>
#include <unordered_map>

namespace stepscope {

// All threads of this process, by the system's number.
void for_each_thread(const std::function<void(pid_t)>& visit);

// The name that the kernel shows, empty when the thread has ended.
std::string kernel_name_of(pid_t thread);

// How long a thread of this process was ready to run and had no core, 0 where the kernel does not
// count it.
int64_t ready_ns_of(pid_t thread);

// Memory of this process that is in RAM, 0 when the kernel does not say.
int64_t resident_bytes();

class OtherThreads {
 public:
  // Calls `tell` for each unknown thread that has run since the last call, with the CPU time that
  // it used and how long it was ready but had no core. The first call reports nothing: earlier time
  // is not part of this recording.
  void look(const std::function<bool(pid_t)>& is_known,
            const std::function<void(pid_t, int64_t used_ns, int64_t ready_ns)>& tell);

 private:
  struct Seen {
    int64_t cpu_ns = 0;
    int64_t ready_ns = 0;
    uint32_t round = 0;
  };
  std::unordered_map<pid_t, Seen> seen_;
  uint32_t round_ = 0;
};

}  // namespace stepscope
