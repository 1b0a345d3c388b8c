// The blocks of memory that are in use, so that a release tells how much it gives back. Worked out
// from what was recorded: recording a block looks at no other.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "stepscope/record.h"

namespace stepscope {

class MemoryBlocks {
 public:
  struct Change {
    int64_t bytes = 0;   // negative for a release; 0: a block that is not known
    int64_t in_use = 0;  // on the device, after it
    Device device = kCpuDevice;
  };

  Change add(uintptr_t address, int64_t bytes, Device device);
  Change remove(uintptr_t address);

 private:
  // Open addressing; a block is in the first free place at or after its own.
  struct Block {
    uintptr_t address = 0;  // 0: free
    int64_t bytes = 0;
    Device device = kCpuDevice;
  };

  size_t place_of(uintptr_t address) const;
  size_t find(uintptr_t address) const;
  void grow();
  int64_t& in_use(Device device);

  std::vector<Block> blocks_;
  size_t used_ = 0;
  std::vector<std::pair<uint32_t, int64_t>> in_use_;  // by device
};

// What remains of kBlock records that were evicted: the last event of every address, whatever order
// they come in.
class ForgottenBlocks {
 public:
  void note(const Record& event);
  void note_all(const ForgottenBlocks& others);
  void drop_released();
  bool empty() const { return last_.empty(); }
  MemoryBlocks in_use() const;

 private:
  struct LastEvent {
    uint64_t ticks = 0;
    int64_t bytes = 0;  // 0: released
    Device device = kCpuDevice;
  };
  void note(uintptr_t address, const LastEvent& event);

  std::unordered_map<uintptr_t, LastEvent> last_;
  size_t room_ = 4096;  // how many are kept before the released ones go
};

// The blocks that were in use when recordings ended. A later recording counts them as in use and
// sees their releases; releases between recordings are noted here.
class BlocksLeft {
 public:
  static BlocksLeft& instance();

  // Note releases from now on: a recording with blocks is about to end.
  void expect() { is_on_.store(true); }
  // Add what a recording has seen; after expect().
  void take(const ForgottenBlocks& seen);
  void released(uintptr_t address);
  ForgottenBlocks copy() const;
  bool is_on() const { return is_on_.load(std::memory_order_relaxed); }

  std::mutex& mutex_for_fork() { return mutex_; }

 private:
  mutable std::mutex mutex_;
  std::atomic<bool> is_on_{false};
  ForgottenBlocks blocks_;
};

}  // namespace stepscope
