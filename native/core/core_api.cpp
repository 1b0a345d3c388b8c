// The functions that a bridge calls.
#include "stepscope/core_api.h"

#include <array>
#include <atomic>
#include <mutex>
#include <string>

#include "core/recorder.h"
#include "core/stream.h"

namespace stepscope {
namespace {

std::atomic<const BlockListener*> block_listener{nullptr};

stepscope_open_slice* api_begin(const stepscope_begin* what) {
  OpenSlice* const slice = Recorder::begin(*what);
  return slice ? slice->handle() : nullptr;
}

void api_end(stepscope_open_slice* slice) { Recorder::end(OpenSlice::of(slice)); }

Lane* api_lane(Lane** slot) {
  ThreadState* const state = ThreadState::current();
  if (state) state->bridge_slot = slot;
  return state;
}

// These are asked while the lane is inside and open: its recording lasts as long as it is inside.
uint32_t api_label(Lane* lane, const stepscope_begin* what) {
  return static_cast<ThreadState*>(lane)->label_of(*what);
}

uint32_t api_inputs(Lane* lane, const char* encoded, size_t size) {
  return static_cast<ThreadState*>(lane)->inputs_of({encoded, size});
}

void api_sampled_inputs(const char* encoded, size_t size) {
  Recorder::sampled_inputs({encoded, size});
}

void api_tensor_used(const TensorUse* use, uint64_t ticks) { Recorder::tensor_used(*use, ticks); }

uint64_t api_ticks() { return Clock::ticks(); }

void api_names_changed() {
  shared_state.names_changed.fetch_add(1);
  change_epoch();
}

void api_allocated(const void* address, size_t bytes, uint8_t device_type, int8_t device_index) {
  Recorder::allocated(reinterpret_cast<uintptr_t>(address), static_cast<int64_t>(bytes),
                      {device_type, device_index});
}

void api_memory_changed(const void* address, int64_t bytes, int64_t allocated, int64_t reserved,
                        uint8_t device_type, int8_t device_index) {
  Recorder::memory_changed(reinterpret_cast<uintptr_t>(address), bytes, allocated, reserved,
                           {device_type, device_index});
}

void api_released(const void* address) { Recorder::released(reinterpret_cast<uintptr_t>(address)); }

void api_block_sampled(const void* address, int64_t bytes, uint8_t device_type,
                       int8_t device_index) {
  if (const BlockListener* const listener = block_listener.load(std::memory_order_acquire)) {
    listener->sampled(reinterpret_cast<uintptr_t>(address), bytes, {device_type, device_index});
  }
}

void api_sampled_block_released(const void* address) {
  if (const BlockListener* const listener = block_listener.load(std::memory_order_acquire)) {
    listener->released(reinterpret_cast<uintptr_t>(address));
  }
}

std::mutex type_names_mutex;
std::array<std::string, 256> type_names;

void api_name_type(uint8_t type, const char* name) {
  const std::lock_guard lock(type_names_mutex);
  type_names[type] = name;
  if (Stream::is_on()) {
    const TextEntry entry{0, static_cast<uint32_t>(TextSpace::kTypes), type, 0};
    Stream::instance().note(Entry::kText, entry, name);
  }
}

}  // namespace

std::vector<std::string> Recorder::type_names() {
  const std::lock_guard lock(type_names_mutex);
  return {stepscope::type_names.begin(), stepscope::type_names.end()};
}

void Recorder::hold_type_names() { type_names_mutex.lock(); }

void Recorder::release_type_names() { type_names_mutex.unlock(); }

void Recorder::set_block_listener(const BlockListener* listener) { block_listener = listener; }

const stepscope_core_api& Recorder::core_api() {
  static const stepscope_core_api api{
      .version = STEPSCOPE_CORE_API_VERSION,
      .lane = &api_lane,
      .label = &api_label,
      .inputs = &api_inputs,
      .begin = &api_begin,
      .end = &api_end,
      .sampled_inputs = &api_sampled_inputs,
      .tensor_used = &api_tensor_used,
      .ticks = &api_ticks,
      .names_changed = &api_names_changed,
      .allocated = &api_allocated,
      .released = &api_released,
      .memory_changed = &api_memory_changed,
      .block_sampled = &api_block_sampled,
      .sampled_block_released = &api_sampled_block_released,
      .name_type = &api_name_type,
      .order_with_others = &Inside::order_with_others,
  };
  return api;
}

}  // namespace stepscope
