#include "cuda/device_collector.h"

#include <array>
#include <atomic>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string_view>

#include "core/clock.h"
#include "core/stream.h"
#include "cuda/driver.h"
#include "cuda/graph_watch.h"

namespace stepscope {
namespace {

using cupti::ActivityKind;

constexpr size_t kBufferBytes = size_t{2} << 20;
constexpr size_t kBufferAlignment = 64;
constexpr uint32_t kMostFunctions = 2'000;
constexpr std::array kKinds = {ActivityKind::kRuntime, ActivityKind::kDriver,
                               ActivityKind::kMemcpy,  ActivityKind::kMemcpyPeer,
                               ActivityKind::kMemset,  ActivityKind::kConcurrentKernel};

// What each of the extras asks CUPTI for. A wait for an event is of no use without the event.
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
  int users = 0;
  std::vector<uint32_t> silenced_runtime;
  std::vector<uint32_t> silenced_driver;
  uint32_t thread_id_type = 0;
  uint32_t extras = kNoExtras;
  cupti::Subscriber beside = nullptr;  // ours, of several; null: we are alone
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

void on_own_buffer_requested(uint8_t** buffer, size_t* size, size_t* max_records, void*) {
  on_buffer_requested(buffer, size, max_records);
}

void on_own_buffer_completed(uint8_t* buffer, size_t, size_t valid_size, void*) {
  State& s = state();
  const cupti::Subscriber own = s.beside;
  if (valid_size && own) s.records.add_buffer(buffer, valid_size, *s.library, own);
  size_t dropped = 0;
  if (own && s.library->dropped_records_of(own, nullptr, 0, &dropped) == cupti::kSuccess) {
    s.records.add_lost(dropped);
  }
  s.buffers.give_back(buffer);
}

uint64_t timestamp() { return Clock::ticks(); }

// The next functions serve a single subscriber, and ours among several.
cupti::Result enable(const State& s, ActivityKind kind) {
  return s.beside ? s.library->enable_of(s.beside, kind, nullptr) : s.library->enable(kind);
}

cupti::Result disable(const State& s, ActivityKind kind) {
  return s.beside ? s.library->disable_of(s.beside, kind, nullptr) : s.library->disable(kind);
}

cupti::Result enable_function(const State& s, uint32_t domain, uint32_t function, uint8_t on) {
  const cupti::Library& library = *s.library;
  const bool is_runtime = domain == cupti::kRuntimeDomain;
  if (s.beside) {
    const auto set =
        is_runtime ? library.enable_runtime_function_of : library.enable_driver_function_of;
    return set(s.beside, function, on);
  }
  const auto set = is_runtime ? library.enable_runtime_function : library.enable_driver_function;
  return set ? set(function, on) : cupti::kMaxLimitReached;
}

template <typename Value>
cupti::Result set_attribute(const State& s, uint32_t attribute, Value value) {
  size_t bytes = sizeof(value);
  return s.library->set_attribute_of(s.beside, attribute, &bytes, &value);
}

// Turn off the functions that do not matter; returns them, so that they can be turned on again.
template <size_t size>
std::vector<uint32_t> silence(const State& s, uint32_t domain,
                              const std::string_view (&prefixes)[size], uint32_t extras) {
  std::vector<uint32_t> silenced;
  for (uint32_t function = 1; function < kMostFunctions; ++function) {
    const char* name = nullptr;
    if (s.library->get_callback_name(domain, function, &name) != cupti::kSuccess || !name) break;
    if (matters(name, prefixes) || matters_with(extras, name)) continue;
    if (enable_function(s, domain, function, 0) == cupti::kSuccess) silenced.push_back(function);
  }
  return silenced;
}

void turn_off(State& s) {
  const cupti::Library& library = *s.library;
  for (const ActivityKind kind : kKinds) disable(s, kind);
  for (const ExtraKind& extra_kind : kExtraKinds) {
    if (extra_kind.extra & s.extras) disable(s, extra_kind.kind);
  }
  s.extras = kNoExtras;
  for (const uint32_t function : s.silenced_runtime) {
    enable_function(s, cupti::kRuntimeDomain, function, 1);
  }
  for (const uint32_t function : s.silenced_driver) {
    enable_function(s, cupti::kDriverDomain, function, 1);
  }
  s.silenced_runtime.clear();
  s.silenced_driver.clear();
  // Turning functions on may have turned the kind on.
  disable(s, ActivityKind::kRuntime);
  disable(s, ActivityKind::kDriver);
  if (s.beside) return;
  if (library.set_thread_id_type && library.get_thread_id_type) {
    library.set_thread_id_type(s.thread_id_type);
  }
}

// Ask for what is not asked for yet. A kind that this CUPTI or device does not have is left out.
void turn_on_extras(State& s, uint32_t extras) {
  const cupti::Library& library = *s.library;
  for (const ExtraKind& extra_kind : kExtraKinds) {
    if ((extra_kind.extra & extras) && !(extra_kind.extra & s.extras)) enable(s, extra_kind.kind);
  }
  if (s.beside) {
    if (extras & kCudaEvents) set_attribute(s, cupti::kEventTimestampsAttribute, uint8_t{1});
    s.extras |= extras;
    return;
  }
  // Queries that find the work not done would be records without end.
  if ((extras & kSynchronizations) && library.enable_all_sync_records) {
    library.enable_all_sync_records(0);
  }
  if ((extras & kCudaEvents) && library.enable_event_timestamps) library.enable_event_timestamps(1);
  s.extras |= extras;
}

void ask_alone(State& s) {
  const cupti::Library& library = *s.library;
  if (library.get_thread_id_type) library.get_thread_id_type(&s.thread_id_type);
  if (library.set_thread_id_type) library.set_thread_id_type(cupti::kSystemThreadIds);
  library.check(library.register_timestamp(&timestamp), "cuptiActivityRegisterTimestampCallback");
  library.check(library.register_callbacks(&on_buffer_requested, &on_buffer_completed),
                "cuptiActivityRegisterCallbacks");
}

void on_nothing(void*, uint32_t, uint32_t, const void*) {}

// Subscribe beside another tool, with a clock, thread ids and buffers of our own.
void ask_beside(State& s) {
  const cupti::Library& library = *s.library;
  if (!library.allows_several()) throw std::runtime_error("this CUPTI has one subscriber");
  char other[cupti::kOtherNameBytes] = "";
  cupti::SubscriberParams params{sizeof(params), "Stepscope", other, sizeof(other), 1, {}};
  cupti::Subscriber own = nullptr;
  const cupti::Result result = library.subscribe_beside(&own, &on_nothing, nullptr, &params);
  if (result == cupti::kMultipleSubscribers) {
    throw std::runtime_error(other[0] ? std::string(other) + " allows no other subscriber"
                                      : "the other tool, or the driver, allows no other one");
  }
  library.check(result, "cuptiSubscribe_v2");
  s.beside = own;
  try {
    library.check(set_attribute(s, cupti::kTimestampAttribute, &timestamp),
                  "the clock of a subscriber");
    library.check(set_attribute(s, cupti::kThreadIdTypeAttribute, cupti::kSystemThreadIds),
                  "the thread ids of a subscriber");
    library.check(
        library.register_callbacks_of(own, &on_own_buffer_requested, &on_own_buffer_completed),
        "cuptiActivityRegisterCallbacks_v2");
  } catch (...) {
    s.beside = nullptr;
    library.unsubscribe(own);
    throw;
  }
}

void turn_on(State& s, uint32_t extras) {
  const cupti::Library& library = *s.library;
  try {
    for (const ActivityKind kind : kKinds) library.check(enable(s, kind), "cuptiActivityEnable");
    turn_on_extras(s, extras);
  } catch (...) {
    turn_off(s);
    throw;
  }
  s.silenced_runtime = silence(s, cupti::kRuntimeDomain, kRuntimeCalls, extras);
  s.silenced_driver = silence(s, cupti::kDriverDomain, kDriverCalls, extras);
}

// Has CUPTI hand over what is done, for the stream. Does not wait for a start or a stop.
void deliver() {
  State& s = state();
  const std::unique_lock lock(s.mutex, std::try_to_lock);
  if (!lock || s.users == 0) return;
  s.library->flush_all(0);
  GraphWatch::deliver();
}

// End being one of several subscribers.
void leave_others(State& s) {
  if (!s.beside) return;
  s.library->unsubscribe(s.beside);
  s.beside = nullptr;
}

}  // namespace

uint32_t DeviceCollector::load(const std::string& path) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  if (!s.library) s.library = cupti::Library::open(path);
  uint32_t version = 0;
  s.library->check(s.library->get_version(&version), "cuptiGetVersion");
  return version;
}

const cupti::Library* DeviceCollector::library() {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  return s.library ? &*s.library : nullptr;
}

uint64_t DeviceCollector::start(bool beside, uint64_t limit_bytes, bool keep_newest,
                                uint64_t age_ticks, uint32_t extras) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  if (!s.library) throw std::runtime_error("CUPTI is not loaded");
  if (s.users == 0) {
    s.records.reset(limit_bytes, keep_newest, age_ticks);
    beside ? ask_beside(s) : ask_alone(s);
    try {
      turn_on(s, extras);
    } catch (...) {
      leave_others(s);
      throw;
    }
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
  const uint64_t until_ticks = Clock::ticks();
  if (s.users == 1) s.records.stop_streaming_calls(until_ticks);
  s.records.begin_own_calls();
  Driver().wait_for_devices();
  s.records.end_own_calls();
  s.library->flush_all(0);
  if (--s.users == 0) {
    turn_off(s);
    s.library->flush_all(cupti::kFlushForced);
    leave_others(s);
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

void DeviceCollector::forget_after_fork() {
  // The mutexes may be held by threads that no longer exist: leave all of it behind.
  State& s = state();
  new (&s.mutex) std::mutex;
  s.users = 0;
  s.beside = nullptr;
  GraphWatch::forget_after_fork();
}

}  // namespace stepscope
