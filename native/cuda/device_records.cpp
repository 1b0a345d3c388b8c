#include "cuda/device_records.h"

#include <unistd.h>

#include <algorithm>
#include <array>

#include "core/clock.h"
#include "core/demangled.h"
#include "core/stream.h"

namespace stepscope {
namespace {

// Every call is compared with these, and CUPTI delivers calls soon after they were made.
constexpr size_t kOwnCallsKept = 8;

// Named in the order of CUPTI's numbers.
constexpr const char* kMemoryKinds[] = {"Unknown", "Pageable", "Pinned",        "Device",
                                        "Array",   "Managed",  "Device Static", "Managed Static"};
constexpr const char* kCopyKinds[] = {"Unknown", "HtoD", "DtoH", "HtoA", "AtoH", "AtoA",
                                      "AtoD",    "DtoA", "DtoD", "HtoH", "PtoP"};

// As Kineto calls them.
constexpr const char* kSynchronizationNames[] = {"Unknown Sync", "Event Sync", "Stream Wait Event",
                                                 "Stream Sync", "Context Sync"};
constexpr const char* kPoolOperations[] = {"Memory pool", "Memory pool created",
                                           "Memory pool destroyed", "Memory pool trimmed"};

template <size_t size>
const char* word(const char* const (&words)[size], unsigned number) {
  return number < size ? words[number] : words[0];
}

std::string copy_name(unsigned copy, unsigned source, unsigned target) {
  return std::string("Memcpy ") + word(kCopyKinds, copy) + " (" + word(kMemoryKinds, source) +
         " -> " + word(kMemoryKinds, target) + ")";
}

std::string fill_name(unsigned memory) {
  return std::string("Memset (") + word(kMemoryKinds, memory) + ")";
}

std::string memory_name(unsigned operation, unsigned memory) {
  return std::string(operation == cupti::kAllocation ? "Allocate (" : "Release (") +
         word(kMemoryKinds, memory) + ")";
}

}  // namespace

void DeviceRecords::reset(uint64_t limit_bytes, bool keep_newest, uint64_t age_ticks) {
  const std::lock_guard lock(mutex_);
  records_.clear();
  records_.shrink_to_fit();
  most_records_ = limit_bytes / sizeof(DeviceRecord);
  keep_newest_ = keep_newest;
  age_ticks_ = age_ticks;
  lost_ = 0;
  until_ticks_ = UINT64_MAX;
  own_calls_.clear();
  own_correlations_.clear();
}

void DeviceRecords::add_buffer(uint8_t* buffer, size_t valid_size, const cupti::Library& library,
                               cupti::Subscriber subscriber) {
  const std::lock_guard lock(mutex_);
  cupti::Activity* activity = nullptr;
  const auto next = [&] {
    return subscriber ? library.next_record_of(subscriber, buffer, valid_size, &activity)
                      : library.next_record(buffer, valid_size, &activity);
  };
  while (next() == cupti::kSuccess) add(activity, library);
  if (Stream::is_on()) stream(library);
}

// Writes what is new to the stream, with the names that it refers to.
void DeviceRecords::stream(const cupti::Library& library) {
  Stream& to = Stream::instance();
  std::erase_if(unstreamed_, [&](const DeviceRecord& record) {
    return is_host(record) && record.start_ticks >= until_ticks_;
  });
  for (; streamed_names_ < names_.size(); ++streamed_names_) {
    const std::array<uint32_t, 2> entry{static_cast<uint32_t>(streamed_names_), 0};
    to.note(Entry::kDeviceName, entry, names_[streamed_names_]);
  }
  if (streamed_shapes_ < shapes_.size()) {
    const std::vector<LaunchShape> shapes(
        shapes_.begin() + static_cast<ptrdiff_t>(streamed_shapes_), shapes_.end());
    const std::array<uint32_t, 2> first{static_cast<uint32_t>(streamed_shapes_), 0};
    to.note(Entry::kDeviceShapes, first, bytes_of(shapes));
    streamed_shapes_ = shapes_.size();
  }
  for (const DeviceRecord& record : unstreamed_) {
    if (!is_call(record)) continue;
    const std::array<uint32_t, 2> entry{static_cast<uint32_t>(record.kind), record.name};
    if (!streamed_calls_.insert({entry[0], entry[1]}).second) continue;
    const uint32_t domain =
        record.kind == DeviceRecordKind::kRuntime ? cupti::kRuntimeDomain : cupti::kDriverDomain;
    const char* name = nullptr;
    if (library.get_callback_name(domain, record.name, &name) == cupti::kSuccess && name) {
      to.note(Entry::kDeviceCall, entry, name);
    }
  }
  if (!unstreamed_.empty()) to.append(Entry::kDeviceRecords, bytes_of(unstreamed_), {}, {});
  unstreamed_.clear();
}

void DeviceRecords::stop_streaming_calls(uint64_t until_ticks) {
  const std::lock_guard lock(mutex_);
  until_ticks_ = until_ticks;
}

void DeviceRecords::add_lost(uint64_t count) {
  const std::lock_guard lock(mutex_);
  lost_ += count;
}

void DeviceRecords::begin_own_calls() {
  const std::lock_guard lock(mutex_);
  if (own_calls_.size() == kOwnCallsKept) own_calls_.erase(own_calls_.begin());
  own_calls_.push_back({static_cast<uint32_t>(gettid()), Clock::ticks(), UINT64_MAX});
}

void DeviceRecords::end_own_calls() {
  const std::lock_guard lock(mutex_);
  own_calls_.back().until_ticks = Clock::ticks();
}

// A wait does not tell its thread; its call does, and has the same correlation.
bool DeviceRecords::is_own(const DeviceRecord& record) {
  const auto has_it = [&](const OwnCalls& own) {
    return record.stream == own.thread && record.start_ticks >= own.since_ticks &&
           record.start_ticks < own.until_ticks;
  };
  if (!is_call(record) || std::none_of(own_calls_.begin(), own_calls_.end(), has_it)) return false;
  own_correlations_.insert(record.correlation);
  return true;
}

DeviceColumns DeviceRecords::copy(uint64_t since_ticks, uint64_t until_ticks) const {
  const std::lock_guard lock(mutex_);
  DeviceColumns columns{{}, names_, shapes_, lost_};
  columns.records.reserve(records_.size());
  for (const DeviceRecord& record : records_) {
    if (record.start_ticks < since_ticks) continue;
    if (is_host(record) && record.start_ticks >= until_ticks) continue;
    if (is_host(record) && own_correlations_.contains(record.correlation)) continue;
    columns.records.push_back(record);
  }
  return columns;
}

void DeviceRecords::add(const cupti::Activity* activity, const cupti::Library& library) {
  DeviceRecord record{};
  const auto take = [&record](const auto& from, DeviceRecordKind kind) {
    record.start_ticks = from.start;
    record.end_ticks = from.end;
    record.correlation = from.correlation;
    record.kind = kind;
  };
  const auto place = [&record](const auto& from) {
    record.device = static_cast<uint16_t>(from.device);
    record.context = from.context;
    record.stream = from.stream;
  };
  const auto take_copy = [&](const auto& copy) {
    take(copy, DeviceRecordKind::kMemcpy);
    place(copy);
    record.name = name_id(copy_name(copy.copy_kind, copy.source_kind, copy.target_kind).c_str());
    record.bytes = copy.bytes;
  };
  switch (activity->kind) {
    case cupti::ActivityKind::kConcurrentKernel: {
      const auto& kernel = *reinterpret_cast<const cupti::KernelActivity*>(activity);
      take(kernel, DeviceRecordKind::kKernel);
      place(kernel);
      record.name = name_id(kernel.name ? kernel.name : "");
      record.shape = shape_id(kernel);
      record.graph = kernel.graph;
      record.graph_node = kernel.graph_node;
      break;
    }
    case cupti::ActivityKind::kMemcpy: {
      const auto& copy = *reinterpret_cast<const cupti::MemcpyActivity*>(activity);
      take_copy(copy);
      record.graph = copy.graph;
      record.graph_node = copy.graph_node;
      break;
    }
    case cupti::ActivityKind::kMemcpyPeer:
      take_copy(*reinterpret_cast<const cupti::PeerMemcpyActivity*>(activity));
      break;
    case cupti::ActivityKind::kMemset: {
      const auto& fill = *reinterpret_cast<const cupti::MemsetActivity*>(activity);
      take(fill, DeviceRecordKind::kMemset);
      place(fill);
      record.name = name_id(fill_name(fill.memory_kind).c_str());
      record.bytes = fill.bytes;
      record.graph = fill.graph;
      record.graph_node = fill.graph_node;
      break;
    }
    case cupti::ActivityKind::kRuntime:
    case cupti::ActivityKind::kDriver: {
      const auto& call = *reinterpret_cast<const cupti::ApiActivity*>(activity);
      take(call, activity->kind == cupti::ActivityKind::kRuntime ? DeviceRecordKind::kRuntime
                                                                 : DeviceRecordKind::kDriver);
      record.name = call.function;
      record.stream = call.thread;
      break;
    }
    default:
      if (!add_extra(activity, library, &record)) return;
  }
  append(record);
}

// Adds what is recorded on request only; false if the kind is unknown.
bool DeviceRecords::add_extra(const cupti::Activity* activity, const cupti::Library& library,
                              DeviceRecord* record) {
  const bool numbers_records = library.enable_all_sync_records != nullptr;
  switch (activity->kind) {
    case cupti::ActivityKind::kSynchronization: {
      const auto& wait = *reinterpret_cast<const cupti::SynchronizationActivity*>(activity);
      record->kind = DeviceRecordKind::kSynchronization;
      record->start_ticks = wait.start;
      record->end_ticks = wait.end;
      record->name = name_id(word(kSynchronizationNames, wait.type));
      record->correlation = wait.correlation;
      record->context = wait.context;
      record->stream = wait.stream;
      record->shape = wait.event;
      if (numbers_records) {
        record->bytes = wait.event == cupti::kNoValue ? 0 : wait.event_record;
        record->graph = wait.returned;
      }
      return true;
    }
    case cupti::ActivityKind::kCudaEvent: {
      const auto& event = *reinterpret_cast<const cupti::CudaEventActivity*>(activity);
      record->kind = DeviceRecordKind::kEvent;
      // When it was recorded is known by its call.
      record->start_ticks = record->end_ticks = Clock::ticks();
      record->name = name_id("CUDA event");
      record->correlation = event.correlation;
      record->context = event.context;
      record->stream = event.stream;
      record->shape = event.event;
      if (numbers_records) {
        record->device = static_cast<uint16_t>(event.device);
        record->bytes = event.event_record;
        record->graph_node = event.device_timestamp;
      }
      return true;
    }
    case cupti::ActivityKind::kMemory: {
      const auto& memory = *reinterpret_cast<const cupti::MemoryActivity*>(activity);
      record->kind = DeviceRecordKind::kMemory;
      record->start_ticks = record->end_ticks = memory.timestamp;
      record->name = name_id(memory_name(memory.operation, memory.memory_kind).c_str());
      record->correlation = memory.correlation;
      record->device = static_cast<uint16_t>(memory.device);
      record->context = memory.context;
      record->stream = memory.stream;
      record->bytes = memory.bytes;
      record->graph_node = memory.address;
      record->graph = memory.is_asynchronous;
      return true;
    }
    case cupti::ActivityKind::kMemoryPool: {
      const auto& pool = *reinterpret_cast<const cupti::MemoryPoolActivity*>(activity);
      record->kind = DeviceRecordKind::kMemoryPool;
      record->start_ticks = record->end_ticks = pool.timestamp;
      record->name = name_id(word(kPoolOperations, pool.operation));
      record->correlation = pool.correlation;
      record->device = static_cast<uint16_t>(pool.device);
      record->stream = cupti::kNoValue;
      record->bytes = pool.bytes;
      record->graph_node = pool.address;
      return true;
    }
    default:
      return false;
  }
}

void DeviceRecords::append(const DeviceRecord& record) {
  if (is_own(record)) return;
  while (age_ticks_ && !records_.empty() &&
         records_.front().end_ticks + age_ticks_ < record.end_ticks) {
    records_.pop_front();
    ++lost_;
  }
  if (most_records_ && records_.size() >= most_records_) {
    ++lost_;
    if (!keep_newest_) return;
    records_.pop_front();
  }
  records_.push_back(record);
  if (Stream::is_on()) unstreamed_.push_back(record);
}

uint32_t DeviceRecords::name_id(const char* name) {
  if (const auto entry = name_ids_.find(name); entry != name_ids_.end()) return entry->second;
  const std::string& mangled_name = mangled_.emplace_back(name);
  const auto id = static_cast<uint32_t>(names_.size());
  names_.push_back(demangled(name));
  name_ids_.emplace(mangled_name, id);
  return id;
}

uint32_t DeviceRecords::shape_id(const cupti::KernelActivity& kernel) {
  const LaunchShape shape{{kernel.grid[0], kernel.grid[1], kernel.grid[2]},
                          {kernel.block[0], kernel.block[1], kernel.block[2]},
                          kernel.registers_per_thread,
                          kernel.static_shared_memory + kernel.dynamic_shared_memory};
  const auto [entry, is_new] = shape_ids_.try_emplace(shape, static_cast<uint32_t>(shapes_.size()));
  if (is_new) shapes_.push_back(shape);
  return entry->second;
}

}  // namespace stepscope
