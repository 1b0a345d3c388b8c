#include "cuda/device_collector.h"

#include <dlfcn.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string_view>

#include "core/clock.h"
#include "cuda/graph_watch.h"
#include "stream/stream.h"

namespace stepscope {
namespace {

using cupti::ActivityKind;

constexpr size_t kBufferBytes = size_t{2} << 20;
constexpr size_t kBufferAlignment = 64;
constexpr uint32_t kMostFunctions = 2'000;
constexpr std::array kKinds = {ActivityKind::kRuntime, ActivityKind::kDriver,
                               ActivityKind::kMemcpy,  ActivityKind::kMemcpyPeer,
                               ActivityKind::kMemset,  ActivityKind::kConcurrentKernel};

// What each of the extras asks CUPTI for. Who waited for an event wants to know whose that was.
struct ExtraKind {
  uint32_t extra;
  ActivityKind kind;
};
constexpr ExtraKind kExtraKinds[] = {{kSynchronizations, ActivityKind::kSynchronization},
                                     {kSynchronizations | kCudaEvents, ActivityKind::kCudaEvent},
                                     {kMemoryOperations, ActivityKind::kMemory},
                                     {kMemoryOperations, ActivityKind::kMemoryPool}};

// The calls that matter, by how their names begin: what makes the device work, waits for it, or
// takes its memory.
constexpr std::string_view kRuntimeCalls[] = {"cudaLaunch",
                                              "cudaGraphLaunch",
                                              "cudaMemcpy",
                                              "cudaMemset",
                                              "cudaDeviceSynchronize",
                                              "cudaStreamSynchronize",
                                              "cudaEventSynchronize",
                                              "cudaStreamWaitEvent",
                                              "cudaMalloc",
                                              "cudaFree",
                                              "cudaHostAlloc",
                                              "cudaHostRegister",
                                              "cudaHostUnregister"};
constexpr std::string_view kDriverCalls[] = {
    "cuLaunch",         "cuGraphLaunch",       "cuMemcpy",           "cuMemset",
    "cuCtxSynchronize", "cuStreamSynchronize", "cuEventSynchronize", "cuStreamWaitEvent",
    "cuMemAlloc",       "cuMemFree",           "cuMemHostAlloc",     "cuMemCreate",
    "cuMemMap",         "cuMemUnmap",          "cuMemRelease"};

// Buffers are used again: making a new one costs page faults on the thread that launches.
class BufferPool {
 public:
  uint8_t* take() {
    {
      const std::lock_guard lock(mutex_);
      if (!free_.empty()) {
        uint8_t* const buffer = free_.back();
        free_.pop_back();
        return buffer;
      }
    }
    return static_cast<uint8_t*>(std::aligned_alloc(kBufferAlignment, kBufferBytes));
  }

  void give_back(uint8_t* buffer) {
    const std::lock_guard lock(mutex_);
    free_.push_back(buffer);
  }

 private:
  std::mutex mutex_;
  std::vector<uint8_t*> free_;
};

struct State {
  std::mutex mutex;  // of starting and stopping
  std::optional<cupti::Library> library;
  std::string path;
  int users = 0;
  std::vector<uint32_t> silenced_runtime;
  std::vector<uint32_t> silenced_driver;
  uint32_t thread_id_type = 0;
  uint32_t extras = kNoExtras;
  int watchers = 0;
  cupti::Subscriber subscriber = nullptr;
  const GraphNodeListener* listener = nullptr;
  BufferPool buffers;
  DeviceRecords records;
};

// Never destroyed: CUPTI's thread may outlive the exit of the program.
State& state() {
  static State* const instance = new State;
  return *instance;
}

void on_buffer_requested(uint8_t** buffer, size_t* size, size_t* max_records) {
  *buffer = state().buffers.take();
  *size = *buffer ? kBufferBytes : 0;
  *max_records = 0;
}

void on_buffer_completed(void* context, uint32_t stream, uint8_t* buffer, size_t,
                         size_t valid_size) {
  State& s = state();
  if (valid_size) s.records.add_buffer(buffer, valid_size, *s.library);
  size_t dropped = 0;
  if (s.library->dropped_records(context, stream, &dropped) == cupti::kSuccess && dropped) {
    s.records.add_lost(dropped);
  }
  s.buffers.give_back(buffer);
}

uint64_t timestamp() { return Clock::ticks(); }

// Calls that matter with some of the extras.
struct ExtraCall {
  uint32_t extra;
  std::string_view name;
};
constexpr ExtraCall kExtraCalls[] = {{kSynchronizations | kCudaEvents, "cudaEventRecord"},
                                     {kSynchronizations | kCudaEvents, "cuEventRecord"},
                                     {kMemoryOperations, "cudaMemPool"},
                                     {kMemoryOperations, "cuMemPool"}};

bool matters_with(uint32_t extras, std::string_view name) {
  for (const ExtraCall& call : kExtraCalls) {
    if ((call.extra & extras) && name.starts_with(call.name)) return true;
  }
  return false;
}

template <size_t size>
bool matters(std::string_view name, const std::string_view (&prefixes)[size]) {
  for (const std::string_view prefix : prefixes) {
    if (name.starts_with(prefix)) return true;
  }
  return false;
}

// Turn off the functions that do not matter; returns them, so that they can be turned on again.
template <size_t size>
std::vector<uint32_t> silence(const cupti::Library& library, uint32_t domain,
                              cupti::Result (*enable)(uint32_t, uint8_t),
                              const std::string_view (&prefixes)[size], uint32_t extras) {
  std::vector<uint32_t> silenced;
  if (!enable) return silenced;
  for (uint32_t function = 1; function < kMostFunctions; ++function) {
    const char* name = nullptr;
    if (library.get_callback_name(domain, function, &name) != cupti::kSuccess || !name) break;
    if (matters(name, prefixes) || matters_with(extras, name)) continue;
    if (enable(function, 0) == cupti::kSuccess) silenced.push_back(function);
  }
  return silenced;
}

void turn_off(State& s) {
  const cupti::Library& library = *s.library;
  for (const ActivityKind kind : kKinds) library.disable(kind);
  for (const ExtraKind& each : kExtraKinds) {
    if (each.extra & s.extras) library.disable(each.kind);
  }
  s.extras = kNoExtras;
  for (const uint32_t function : s.silenced_runtime) library.enable_runtime_function(function, 1);
  for (const uint32_t function : s.silenced_driver) library.enable_driver_function(function, 1);
  s.silenced_runtime.clear();
  s.silenced_driver.clear();
  // Turning functions on may have turned the kind on.
  library.disable(ActivityKind::kRuntime);
  library.disable(ActivityKind::kDriver);
  if (library.set_thread_id_type && library.get_thread_id_type) {
    library.set_thread_id_type(s.thread_id_type);
  }
}

// Ask for what is not asked for yet. A kind that this CUPTI or device does not have is left out.
void turn_on_extras(State& s, uint32_t extras) {
  const cupti::Library& library = *s.library;
  for (const ExtraKind& each : kExtraKinds) {
    if ((each.extra & extras) && !(each.extra & s.extras)) library.enable(each.kind);
  }
  // Queries that find the work not done would be records without end.
  if ((extras & kSynchronizations) && library.enable_all_sync_records) {
    library.enable_all_sync_records(0);
  }
  if ((extras & kCudaEvents) && library.enable_event_timestamps) library.enable_event_timestamps(1);
  s.extras |= extras;
}

void turn_on(State& s, uint32_t extras) {
  const cupti::Library& library = *s.library;
  if (library.get_thread_id_type) library.get_thread_id_type(&s.thread_id_type);
  if (library.set_thread_id_type) library.set_thread_id_type(cupti::kSystemThreadIds);
  library.check(library.register_timestamp(&timestamp), "cuptiActivityRegisterTimestampCallback");
  library.check(library.register_callbacks(&on_buffer_requested, &on_buffer_completed),
                "cuptiActivityRegisterCallbacks");
  try {
    for (const ActivityKind kind : kKinds)
      library.check(library.enable(kind), "cuptiActivityEnable");
    turn_on_extras(s, extras);
  } catch (...) {
    turn_off(s);
    throw;
  }
  s.silenced_runtime = silence(library, cupti::kRuntimeDomain, library.enable_runtime_function,
                               kRuntimeCalls, extras);
  s.silenced_driver =
      silence(library, cupti::kDriverDomain, library.enable_driver_function, kDriverCalls, extras);
}

void on_graph_node(void*, uint32_t domain, uint32_t what, const void* data) {
  if (domain != cupti::kResourceDomain) return;
  const State& s = state();
  const auto* const graph = static_cast<const cupti::GraphData*>(
      static_cast<const cupti::ResourceData*>(data)->descriptor);
  uint64_t node = 0;
  if (!graph || s.library->get_graph_node_id(graph->node, &node) != cupti::kSuccess) return;
  if (what == cupti::kGraphNodeCreated) {
    s.listener->created(node);
    return;
  }
  uint64_t original = 0;
  if (s.library->get_graph_node_id(graph->original_node, &original) == cupti::kSuccess) {
    s.listener->cloned(node, original);
  }
}

// The driver, as far as it is needed to wait for every device that the program uses.
class Driver {
 public:
  Driver() {
    void* const handle = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    if (!handle) return;
    find(handle, "cuDeviceGetCount", &count_);
    find(handle, "cuDevicePrimaryCtxGetState", &state_);
    find(handle, "cuDevicePrimaryCtxRetain", &retain_);
    find(handle, "cuDevicePrimaryCtxRelease_v2", &release_);
    find(handle, "cuCtxPushCurrent_v2", &push_);
    find(handle, "cuCtxPopCurrent_v2", &pop_);
    find(handle, "cuCtxSynchronize", &synchronize_);
  }

  void wait_for_devices() const {
    if (!count_ || !state_ || !retain_ || !release_ || !push_ || !pop_ || !synchronize_) return;
    synchronize_();  // a context that is nobody's primary one; an error says there is none
    int devices = 0;
    if (count_(&devices) != 0) return;
    for (int device = 0; device < devices; ++device) {
      unsigned flags = 0;
      int active = 0;
      void* context = nullptr;
      if (state_(device, &flags, &active) != 0 || !active) continue;
      if (retain_(&context, device) != 0) continue;
      if (push_(context) == 0) {
        synchronize_();
        pop_(&context);
      }
      release_(device);
    }
  }

 private:
  template <typename Function>
  static void find(void* library, const char* name, Function* function) {
    *function = reinterpret_cast<Function>(dlsym(library, name));
  }

  int (*count_)(int*) = nullptr;
  int (*state_)(int, unsigned*, int*) = nullptr;
  int (*retain_)(void**, int) = nullptr;
  int (*release_)(int) = nullptr;
  int (*push_)(void*) = nullptr;
  int (*pop_)(void**) = nullptr;
  int (*synchronize_)() = nullptr;
};

// Have CUPTI hand over what is done, for the stream. Who starts or stops is not waited for.
void deliver() {
  State& s = state();
  const std::unique_lock lock(s.mutex, std::try_to_lock);
  if (lock && s.users > 0) s.library->flush_all(0);
}

}  // namespace

uint32_t DeviceCollector::load(const std::string& path) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  if (!s.library) {
    s.library = cupti::Library::open(path);
    s.path = path;
  }
  uint32_t version = 0;
  s.library->check(s.library->get_version(&version), "cuptiGetVersion");
  return version;
}

uint64_t DeviceCollector::start(uint64_t limit_bytes, bool keep_newest, uint64_t age_ticks,
                                uint32_t extras) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  if (!s.library) throw std::runtime_error("CUPTI is not loaded");
  if (s.users == 0) {
    s.records.reset(limit_bytes, keep_newest, age_ticks);
    turn_on(s, extras);
    if (Stream::is_on()) Stream::instance().set_before_flush(&deliver);
  } else if (extras & ~s.extras) {
    turn_on_extras(s, extras);
  }
  ++s.users;
  return Clock::ticks();
}

DeviceColumns DeviceCollector::stop(uint64_t since_ticks) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  if (s.users == 0) return {};
  const uint64_t until_ticks = Clock::ticks();  // what follows is our own waiting
  Driver().wait_for_devices();
  s.library->flush_all(0);
  if (--s.users == 0) {
    turn_off(s);
    s.library->flush_all(cupti::kFlushForced);
  }
  DeviceColumns columns = s.records.copy(since_ticks, until_ticks);
  if (s.users == 0) s.records.reset(0, false);
  return columns;
}

std::string DeviceCollector::function_name(DeviceRecordKind kind, uint32_t function) {
  State& s = state();
  if (!s.library) return "";
  const uint32_t domain =
      kind == DeviceRecordKind::kRuntime ? cupti::kRuntimeDomain : cupti::kDriverDomain;
  const char* name = nullptr;
  if (s.library->get_callback_name(domain, function, &name) != cupti::kSuccess || !name) return "";
  return name;
}

void GraphWatch::start(const GraphNodeListener* listener) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  if (s.watchers++ > 0) return;
  s.watchers = 0;  // until it works
  if (!s.library) throw std::runtime_error("CUPTI is not loaded");
  const cupti::Library& library = *s.library;
  if (!library.subscribe || !library.unsubscribe || !library.enable_callback ||
      !library.get_graph_node_id) {
    throw std::runtime_error("this CUPTI does not tell of graphs");
  }
  s.listener = listener;
  library.check(library.subscribe(&s.subscriber, &on_graph_node, nullptr), "cuptiSubscribe");
  for (const uint32_t what : {cupti::kGraphNodeCreated, cupti::kGraphNodeCloned}) {
    library.enable_callback(1, s.subscriber, cupti::kResourceDomain, what);
  }
  s.watchers = 1;
}

void GraphWatch::stop() {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  if (s.watchers == 0 || --s.watchers > 0) return;
  s.library->unsubscribe(s.subscriber);
  s.subscriber = nullptr;
}

void DeviceCollector::forget_after_fork() {
  // The mutexes may be held by threads that no longer exist: leave all of it behind.
  State& s = state();
  new (&s.mutex) std::mutex;
  s.users = 0;
  s.watchers = 0;
}

}  // namespace stepscope
