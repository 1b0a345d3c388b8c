// What the device did and which calls made it do so: compact records, kept until they are taken.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "cuda/cupti_library.h"

namespace stepscope {

enum class DeviceRecordKind : uint8_t {
  kKernel,
  kMemcpy,
  kMemset,
  kRuntime,
  kDriver,
  // Where asked for.
  kSynchronization,
  kEvent,
  kMemory,
  kMemoryPool,
};
inline constexpr DeviceRecordKind kLastKind = DeviceRecordKind::kMemoryPool;

struct DeviceRecord {
  uint64_t start_ticks;
  uint64_t end_ticks;
  uint64_t bytes;       // of a copy, a fill, memory; of an event and who waits for it: its number
  uint64_t graph_node;  // 0: not of a graph; of memory: the address; of an event: on the device
  uint32_t name;        // a call's: CUPTI's number of the function
  uint32_t correlation;
  uint32_t context;
  uint32_t stream;  // a call's: the thread's id
  uint32_t shape;   // of a kernel's launch; of a synchronisation and an event: the event
  uint32_t graph;   // of a synchronisation: what it returned; of memory: whether from a pool
  uint16_t device;
  DeviceRecordKind kind;
};

inline bool is_call(const DeviceRecord& record) {
  return record.kind == DeviceRecordKind::kRuntime || record.kind == DeviceRecordKind::kDriver;
}

// Whether it says what a thread of the program did: a call, or a wait.
inline bool is_host(const DeviceRecord& record) {
  return is_call(record) || record.kind == DeviceRecordKind::kSynchronization;
}

// How a kernel was launched; many launches share one.
struct LaunchShape {
  int32_t grid[3];
  int32_t block[3];
  uint32_t registers_per_thread;
  int32_t shared_memory;  // bytes, static and dynamic

  auto operator<=>(const LaunchShape&) const = default;
};

struct DeviceColumns {
  std::vector<DeviceRecord> records;
  std::vector<std::string> names;  // demangled
  std::vector<LaunchShape> shapes;
  uint64_t lost = 0;
};

// Filled by CUPTI's thread, taken by the one that stops.
class DeviceRecords {
 public:
  // 0: no limit. At the limit the newest go, or the oldest. What is older than the age goes, too.
  void reset(uint64_t limit_bytes, bool keep_newest, uint64_t age_ticks = 0);
  // `subscriber`: whose buffer it is, of several; null: there is but one.
  void add_buffer(uint8_t* buffer, size_t valid_size, const cupti::Library& library,
                  cupti::Subscriber subscriber = nullptr);
  void add_lost(uint64_t count);
  // Calls that this thread makes from here until end_own_calls() are ours, and are not shown.
  void begin_own_calls();
  void end_own_calls();
  // Host activity from `until_ticks` on is not part of the recording, as in copy().
  void stop_streaming_calls(uint64_t until_ticks);
  // Everything that started at or after `since_ticks`, but no call, and no wait of
  // the host, from `until_ticks` on.
  DeviceColumns copy(uint64_t since_ticks, uint64_t until_ticks) const;

 private:
  void add(const cupti::Activity* activity, const cupti::Library& library);
  bool add_extra(const cupti::Activity* activity, const cupti::Library& library,
                 DeviceRecord* record);
  void append(const DeviceRecord& record);
  bool is_own(const DeviceRecord& record);
  void stream(const cupti::Library& library);
  uint32_t name_id(const char* name);
  uint32_t shape_id(const cupti::KernelActivity& kernel);

  mutable std::mutex mutex_;
  std::deque<DeviceRecord> records_;
  uint64_t most_records_ = 0;
  bool keep_newest_ = false;
  uint64_t age_ticks_ = 0;
  uint64_t lost_ = 0;
  std::vector<std::string> names_;
  std::unordered_map<std::string_view, uint32_t> name_ids_;  // by what CUPTI calls them
  std::deque<std::string> mangled_;                          // what those point to
  std::vector<LaunchShape> shapes_;
  std::map<LaunchShape, uint32_t> shape_ids_;
  struct OwnCalls {
    uint32_t thread;
    uint64_t since_ticks;
    uint64_t until_ticks;
  };
  std::vector<OwnCalls> own_calls_;
  std::set<uint32_t> own_correlations_;
  // What the stream has of it.
  std::vector<DeviceRecord> unstreamed_;
  size_t streamed_names_ = 0;
  size_t streamed_shapes_ = 0;
  uint64_t until_ticks_ = UINT64_MAX;
  std::set<std::pair<uint32_t, uint32_t>> streamed_calls_;
};

}  // namespace stepscope
