// The part of CUPTI's binary interface that is used here, so that no CUDA header is needed to
// build.
//
// The records' first fields have stood at the same place from CUDA 12.1 to 13.4; later versions
// append. Records are walked with CUPTI's own function, which knows their true sizes.
#pragma once

#include <cstddef>
#include <cstdint>

namespace stepscope::cupti {

using Result = int;
inline constexpr Result kSuccess = 0;
inline constexpr Result kMaxLimitReached = 12;
inline constexpr Result kMultipleSubscribers = 39;

enum class ActivityKind : uint32_t {
  kMemcpy = 1,
  kMemset = 2,
  kDriver = 4,
  kRuntime = 5,
  kConcurrentKernel = 10,
  kMemcpyPeer = 22,
  kCudaEvent = 36,
  kSynchronization = 38,
  kMemory = 49,  // the second of that name: with pools, one for each operation
  kMemoryPool = 50,
};

inline constexpr uint32_t kDriverDomain = 1;
inline constexpr uint32_t kRuntimeDomain = 2;
inline constexpr uint32_t kResourceDomain = 3;
inline constexpr uint32_t kGraphNodeCreated = 13;
inline constexpr uint32_t kGraphNodeCloned = 20;
inline constexpr uint32_t kSystemThreadIds = 1;  // as gettid() gives them
inline constexpr uint32_t kFlushForced = 1;

struct Activity {
  ActivityKind kind;
};

struct KernelActivity {
  ActivityKind kind;
  uint8_t cache_config;
  uint8_t shared_memory_config;
  uint16_t registers_per_thread;
  uint32_t global_cache[2];
  uint64_t start;
  uint64_t end;
  uint64_t completed;
  uint32_t device;
  uint32_t context;
  uint32_t stream;
  int32_t grid[3];
  int32_t block[3];
  int32_t static_shared_memory;
  int32_t dynamic_shared_memory;
  uint32_t local_memory[2];
  uint32_t correlation;
  int64_t grid_id;
  const char* name;
  void* reserved;
  uint64_t queued;
  uint64_t submitted;
  uint8_t launch[8];
  uint64_t graph_node;
  uint32_t shared_memory_executed;
  uint32_t graph;
};
static_assert(offsetof(KernelActivity, start) == 16 && offsetof(KernelActivity, device) == 40 &&
              offsetof(KernelActivity, grid) == 52 && offsetof(KernelActivity, correlation) == 92 &&
              offsetof(KernelActivity, name) == 104 &&
              offsetof(KernelActivity, graph_node) == 144 &&
              offsetof(KernelActivity, graph) == 156);

struct MemcpyActivity {
  ActivityKind kind;
  uint8_t copy_kind;
  uint8_t source_kind;
  uint8_t target_kind;
  uint8_t flags;
  uint64_t bytes;
  uint64_t start;
  uint64_t end;
  uint32_t device;
  uint32_t context;
  uint32_t stream;
  uint32_t correlation;
  uint32_t runtime_correlation;
  uint32_t padding;
  void* reserved;
  uint64_t graph_node;
  uint32_t graph;
};
static_assert(offsetof(MemcpyActivity, bytes) == 8 && offsetof(MemcpyActivity, correlation) == 44 &&
              offsetof(MemcpyActivity, graph_node) == 64 && offsetof(MemcpyActivity, graph) == 72);

struct PeerMemcpyActivity {
  ActivityKind kind;
  uint8_t copy_kind;
  uint8_t source_kind;
  uint8_t target_kind;
  uint8_t flags;
  uint64_t bytes;
  uint64_t start;
  uint64_t end;
  uint32_t device;
  uint32_t context;
  uint32_t stream;
  uint32_t source_device;
  uint32_t source_context;
  uint32_t target_device;
  uint32_t target_context;
  uint32_t correlation;
};
static_assert(offsetof(PeerMemcpyActivity, source_device) == 44 &&
              offsetof(PeerMemcpyActivity, correlation) == 60);

struct MemsetActivity {
  ActivityKind kind;
  uint32_t value;
  uint64_t bytes;
  uint64_t start;
  uint64_t end;
  uint32_t device;
  uint32_t context;
  uint32_t stream;
  uint32_t correlation;
  uint16_t flags;
  uint16_t memory_kind;
  uint32_t padding;
  void* reserved;
  uint64_t graph_node;
  uint32_t graph;
};
static_assert(offsetof(MemsetActivity, memory_kind) == 50 &&
              offsetof(MemsetActivity, graph_node) == 64 && offsetof(MemsetActivity, graph) == 72);

// A call of the runtime or the driver.
struct ApiActivity {
  ActivityKind kind;
  uint32_t function;
  uint64_t start;
  uint64_t end;
  uint32_t process;
  uint32_t thread;
  uint32_t correlation;
  uint32_t returned;
};
static_assert(sizeof(ApiActivity) == 40);

// Who waited for what; the fields from `event_record` on came with CUDA 12.8.
struct SynchronizationActivity {
  ActivityKind kind;
  uint32_t type;
  uint64_t start;
  uint64_t end;
  uint32_t correlation;
  uint32_t context;
  uint32_t stream;  // kNoValue: of a context or an event
  uint32_t event;   // kNoValue: of a context or a stream
  uint64_t event_record;
  uint32_t returned;
  uint32_t padding;
};
static_assert(sizeof(SynchronizationActivity) == 56 &&
              offsetof(SynchronizationActivity, event) == 36 &&
              offsetof(SynchronizationActivity, event_record) == 40);
inline constexpr uint32_t kNoValue = 0xFFFFFFFF;

// An event that was recorded into a stream; the fields from `device` on came with CUDA 12.8.
struct CudaEventActivity {
  ActivityKind kind;
  uint32_t correlation;
  uint32_t context;
  uint32_t stream;
  uint32_t event;
  uint32_t padding;
  uint32_t device;
  uint32_t padding2;
  void* reserved;
  uint64_t device_timestamp;
  uint64_t event_record;
};
static_assert(sizeof(CudaEventActivity) == 56 && offsetof(CudaEventActivity, device) == 24 &&
              offsetof(CudaEventActivity, event_record) == 48);

// Memory that was taken or given back; more follows.
struct MemoryActivity {
  ActivityKind kind;
  uint32_t operation;
  uint32_t memory_kind;
  uint32_t correlation;
  uint64_t address;
  uint64_t bytes;
  uint64_t timestamp;
  uint64_t program_counter;
  uint32_t process;
  uint32_t device;
  uint32_t context;
  uint32_t stream;
  const char* name;
  uint32_t is_asynchronous;
  uint32_t padding;
};
static_assert(offsetof(MemoryActivity, bytes) == 24 && offsetof(MemoryActivity, device) == 52 &&
              offsetof(MemoryActivity, is_asynchronous) == 72);
inline constexpr uint32_t kAllocation = 1;  // MemoryActivity::operation

// A pool of memory that was made, trimmed or destroyed; more follows.
struct MemoryPoolActivity {
  ActivityKind kind;
  uint32_t operation;
  uint32_t pool_type;
  uint32_t correlation;
  uint32_t process;
  uint32_t device;
  uint64_t least_bytes;
  uint64_t address;
  uint64_t bytes;
  uint64_t release_threshold;
  uint64_t timestamp;
  uint64_t used_bytes;
};
static_assert(sizeof(MemoryPoolActivity) == 72 && offsetof(MemoryPoolActivity, address) == 32 &&
              offsetof(MemoryPoolActivity, timestamp) == 56);

using BufferRequested = void (*)(uint8_t** buffer, size_t* size, size_t* max_records);
using BufferCompleted = void (*)(void* context, uint32_t stream, uint8_t* buffer, size_t size,
                                 size_t valid_size);
using Timestamp = uint64_t (*)();

// What a callback about a resource is given; of a graph, `descriptor` points to the facts.
struct ResourceData {
  void* context;
  void* handle;
  void* descriptor;
};

struct GraphData {
  void* graph;
  void* original_graph;
  void* node;
  void* original_node;  // of a clone
};

using Subscriber = void*;
using Callback = void (*)(void* user, uint32_t domain, uint32_t what, const void* data);

// How to subscribe beside others (cuptiSubscribe_v2; several at once since CUDA 13.3).
struct SubscriberParams {
  size_t size;
  const char* name;
  char* other_name;  // out: who is subscribed already
  size_t other_name_bytes;
  uint8_t allow_several;
  uint8_t padding[7];
};
static_assert(sizeof(SubscriberParams) == 40 && offsetof(SubscriberParams, allow_several) == 32);
inline constexpr size_t kOtherNameBytes = 64;

inline constexpr uint32_t kEventTimestampsAttribute = 17;  // one subscriber's, as those below
inline constexpr uint32_t kThreadIdTypeAttribute = 21;
inline constexpr uint32_t kTimestampAttribute = 22;

using BufferRequestedOfOne = void (*)(uint8_t** buffer, size_t* size, size_t* max_records,
                                      void* about);
using BufferCompletedOfOne = void (*)(uint8_t* buffer, size_t size, size_t valid_size, void* about);

}  // namespace stepscope::cupti
