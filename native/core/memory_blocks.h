// The blocks of memory that are in use, so that a release tells how much it gives back. Told from
// what was recorded: who records a block looks at no other.
#pragma once

#include <array>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "stepscope/lane.h"

namespace stepscope {

// The kind of a device and its number, in one word.
struct Device {
  uint8_t type = 0;  // as the framework numbers it; 0 is the CPU
  int8_t index = -1;

  uint32_t word() const { return uint32_t{type} << 8 | static_cast<uint8_t>(index); }
  static Device of(uint32_t word) {
    return {static_cast<uint8_t>(word >> 8), static_cast<int8_t>(word & 0xFF)};
  }
};

class MemoryBlocks {
 public:
  struct Change {
    int64_t bytes = 0;   // negative for a release; 0: a block that is not known
    int64_t in_use = 0;  // on the device, after it
    Device device;
  };

  Change add(uintptr_t address, int64_t bytes, Device device);
  Change remove(uintptr_t address);

 private:
  // Open addressing; a block is in the first free place at or after its own.
  struct Block {
    uintptr_t address = 0;  // 0: free
    int64_t bytes = 0;
    Device device;
  };

  size_t place_of(uintptr_t address) const;
  size_t find(uintptr_t address) const;
  void grow();
  int64_t& in_use(Device device);

  std::vector<Block> blocks_;
  size_t used_ = 0;
  std::vector<std::pair<uint32_t, int64_t>> in_use_;  // by device
};

// What is left of kBlock records that are gone: the last word on every address, whatever order they
// come in.
class ForgottenBlocks {
 public:
  void note(const Record& event);
  MemoryBlocks in_use() const;

 private:
  struct LastEvent {
    uint64_t ticks = 0;
    int64_t bytes = 0;  // 0: released
    Device device;
  };
  std::unordered_map<uintptr_t, LastEvent> last_;
  size_t room_ = 4096;  // how many are kept before the released ones go
};

}  // namespace stepscope
