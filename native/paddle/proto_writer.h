// Columns into Paddle's profiler result file: see node_trees.h.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace stepscope::paddle {

using Ids = std::span<const uint32_t>;
using Numbers = std::span<const int64_t>;

// The host nodes of all threads, one thread after the other, its root first, parents before their
// children. Times are Unix time; those of a root are not used.
struct HostNodes {
  Ids name;
  std::span<const uint8_t> type;
  Numbers start_ns, duration_ns;
  Numbers parent;  // the number of the parent among the nodes of the thread, whose root is 0
  Ids supplement;  // a number of Texts::encoded, 0 for none
  Numbers op_id;
  Ids thread;  // a number of Result::threads, ascending
};

// The runtime calls, memory events and device work of all nodes, in the order of their owners.
struct RuntimeNodes {
  Ids owner;  // a host node
  Ids name;
  Numbers start_ns, duration_ns, correlation, callback;
};

struct MemoryNodes {
  Ids owner;  // a host node
  std::span<const uint8_t> type;
  Ids place, thread;
  Numbers time_ns, address, increase, allocated, reserved, peak_allocated, peak_reserved;
};

struct DeviceNodes {
  Ids owner;  // a runtime call
  Ids name;
  std::span<const uint8_t> type;
  Numbers start_ns, duration_ns, device, context, stream, correlation;
  Ids info;  // a number of Texts::encoded: the details that are not integers
  // Of kernels: registers, static and dynamic shared memory, local memory per thread and in all,
  // queued, submitted, completed. Of copies: bytes. Of memory that is set: bytes, value.
  std::vector<Numbers> details;
};

struct Thread {
  uint64_t process = 0;
  uint64_t id = 0;
};

struct Texts {
  std::string_view blob;  // text i is blob[offsets[i] .. offsets[i + 1])
  Numbers offsets;
  std::vector<std::string_view> encoded;  // parts of messages; the first is empty

  std::string_view operator[](uint32_t id) const {
    const auto from = static_cast<size_t>(offsets[id]);
    return blob.substr(from, static_cast<size_t>(offsets[id + 1]) - from);
  }
};

struct Result {
  Texts texts;
  std::vector<Thread> threads;
  HostNodes host;
  RuntimeNodes runtime;
  MemoryNodes memory;
  DeviceNodes device;
};

inline constexpr size_t kDeviceDetails = 10;

// Returns the thread trees of the file, as its fields; the caller adds the rest of the message.
// Throws std::invalid_argument when the columns do not fit each other.
std::string encode_trees(const Result& result);

}  // namespace stepscope::paddle
