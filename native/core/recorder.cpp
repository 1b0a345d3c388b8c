#include "core/recorder.h"

#include <pthread.h>

#include <array>
#include <atomic>
#include <string>
#include <utility>

#include "core/clock.h"

namespace stepscope {
namespace {

// The thread's state as a member of the active recording; null when nothing records.
//
// What this pointer points to is reached through it only, which orders the reads on every processor
// in use.
Recording* joined(ThreadState& state) {
  Recording* const active = shared_state.active.load(std::memory_order_relaxed);
  const uint32_t generation = shared_state.generation.load(std::memory_order_relaxed);
  if (active && state.generation != generation) [[unlikely]]
    state.join(*active);
  return active;
}

void drop(Recording& recording) { recording.dropped.fetch_add(1, std::memory_order_relaxed); }

// What is kept even when the limit is met: few, and without them the rest cannot be read.
bool is_precious(Kind kind) { return kind == Kind::kRange || kind == Kind::kStep; }

// Room for a record where there is none, or where the limit was met; false when it leaves none.
bool make_room(ThreadState& state, Recording& recording, bool is_precious) {
  Cursor& cursor = state.cursor;
  if (state.full && state.limits_seen != recording.limits_set()) {
    state.full = false;
    state.looked = 0;
  }
  if (state.full && !is_precious) return false;
  if (cursor.next.load(std::memory_order_relaxed) != cursor.end) return true;
  if (recording.next_chunk(cursor, state.full)) return true;
  state.limits_seen = recording.limits_set();
  const bool first_refusal = !std::exchange(state.full, true);
  state.close_short_way();
  return first_refusal && is_precious && recording.next_chunk(cursor, true);
}

void append(ThreadState& state, Recording& recording, const Record& record) {
  Cursor& cursor = state.cursor;
  if (state.full || cursor.next.load(std::memory_order_relaxed) == cursor.end) [[unlikely]] {
    if (!make_room(state, recording, is_precious(record.kind))) return drop(recording);
  }
  *cursor.next.load(std::memory_order_relaxed) = record;
  state.advance();
}

std::string with_overload(const char* name, const char* overload) {
  return *overload ? std::string(name).append(1, kOverloadMark).append(overload) : name;
}

uint32_t label_of(ThreadState& state, Recording& recording, const stepscope_begin& what) {
  const uint32_t names_changed = shared_state.names_changed.load(std::memory_order_relaxed);
  if (state.names_changed != names_changed) [[unlikely]] {
    state.names.fill({});
    state.names_changed = names_changed;
  }
  if (!what.name_kind) return state.texts.find(recording.interner, what.name);
  LastingName& lasting = state.name_at(what.name);
  if (lasting.address == what.name) return lasting.label;
  const uint8_t kind = what.name_kind(what.function);
  if (kind == STEPSCOPE_NAME_PASSES) return state.texts.find(recording.interner, what.name);
  const char* const overload = what.overload(what.function);
  const uint32_t label = overload
                             ? recording.interner.intern(with_overload(what.name, overload)).first
                             : kIgnoredLabel;
  if (kind == STEPSCOPE_NAME_LASTS) lasting = {what.name, label};
  return label;
}

uint32_t asked(const std::atomic<uint32_t (*)()>& source) {
  uint32_t (*const ask)() = source.load(std::memory_order_relaxed);
  return ask ? ask() : 0;
}

// The long way to begin a slice: whatever the state of the thread and of the recording. `fill` says
// what it is, and may refuse.
//
// The stack is asked for before the thread is Inside: for a new one it waits for the GIL, and who
// has that may wait for somebody who waits until nobody is inside.
template <typename Fill>
OpenSlice* begin_slice(uint32_t stack, uint64_t start_ticks, const Fill& fill) {
  ThreadState* const state = ThreadState::current();
  if (!state) return nullptr;
  OpenSlice* const slice = state->take_slice();
  const Inside inside(*state);
  Recording* const active = joined(*state);
  slice->stack = stack;
  if (!active || !fill(*state, *active, *slice)) {
    state->give(*slice);
    return nullptr;
  }
  state->open(*slice, start_ticks ? start_ticks : Clock::ticks());
  state->look_again();
  return slice;
}

// The long way to end it.
[[gnu::noinline]] void end_slice(OpenSlice* slice, uint8_t flags) {
  const uint64_t now_ticks = Clock::ticks();
  ThreadState* const state = ThreadState::current();
  if (!state) return;  // the thread is going; the slice stays open and is reported as unfinished
  const Inside inside(*state);
  Recording* const active = joined(*state);
  if (active && slice->generation == state->generation) {
    slice->flags |= flags;
    if (slice->thread != state->thread && !(flags & kUnfinished)) slice->flags |= kAsync;
    Record record;
    slice->write(record, now_ticks);
    append(*state, *active, record);
  }
  state->give(*slice);
}

// Append a record that is no slice, the long way.
template <typename Fill>
[[gnu::noinline]] void note(Kind kind, const Fill& fill) {
  if (!Recorder::recording()) return;
  ThreadState* const state = ThreadState::current();
  if (!state) return;
  const Inside inside(*state);
  Recording* const active = joined(*state);
  if (!active) return;
  Record record{};
  record.kind = kind;
  record.thread = state->thread;
  fill(record);
  record.start_ticks = Clock::ticks();
  append(*state, *active, record);
  state->look_again();
}

void note_block(Kind kind, uintptr_t address, int64_t bytes, Device device, uint8_t flags) {
  const auto size = static_cast<uint64_t>(bytes);
  ThreadState* const state = ThreadState::current();
  if (state && state->note(kind, address, size, device.word(), flags)) return;
  note(kind, [&](Record& record) {
    record.end_ticks = size;
    record.sequence = static_cast<int64_t>(address);
    record.detail = device.word();
    record.flags = flags;
  });
}

stepscope_open_slice* api_begin(const stepscope_begin* what) { return Recorder::begin(*what); }

void api_end(stepscope_open_slice* slice) { end_slice(static_cast<OpenSlice*>(slice), 0); }

Lane* api_lane(Lane** slot) {
  ThreadState* const state = ThreadState::current();
  if (state) state->bridge_slot = slot;
  return state;
}

// These are asked while the lane is inside and open: its recording lasts as long as it is inside.
uint32_t api_label(Lane* lane, const stepscope_begin* what) {
  ThreadState& state = *static_cast<ThreadState*>(lane);
  return label_of(state, *state.recording, *what);
}

uint32_t api_inputs(Lane* lane, const char* encoded, size_t size) {
  ThreadState& state = *static_cast<ThreadState*>(lane);
  return state.inputs.find(state.recording->inputs, {encoded, size});
}

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

std::mutex type_names_mutex;
std::array<std::string, 256> type_names;

void api_name_type(uint8_t type, const char* name) {
  const std::lock_guard lock(type_names_mutex);
  type_names[type] = name;
}

}  // namespace

Recorder& Recorder::instance() {
  static auto* const only = new Recorder;  // threads may outlive static destructors
  return *only;
}

Recorder::Recorder() { pthread_atfork(&before_fork, &after_fork_in_parent, &after_fork_in_child); }

uint64_t Recorder::open_window(Limit limit) {
  const std::lock_guard lock(mutex_);
  if (current_) {
    current_->widen(limit);
  } else {
    current_ = std::make_shared<Recording>(++last_generation_, limit);
    shared_state.generation.store(last_generation_, std::memory_order_relaxed);
    shared_state.active.store(current_.get(), std::memory_order_release);
    change_epoch();
  }
  const uint64_t id = ++last_window_;
  windows_[id] = limit;
  current_->watch(id, limit, Clock::ticks());
  return id;
}

void Recorder::restart_window(uint64_t window) {
  const std::lock_guard lock(mutex_);
  if (const auto found = windows_.find(window); found != windows_.end()) {
    current_->watch(window, found->second, Clock::ticks());
  }
}

Snapshot Recorder::close_window(uint64_t window) {
  const uint64_t end_ticks = Clock::ticks();
  const std::lock_guard lock(mutex_);
  if (!windows_.erase(window)) return {};
  const std::shared_ptr<Recording> recording = current_;
  if (windows_.empty()) {
    ThreadState::end_recording(*recording);
    current_.reset();
  }
  return take_snapshot(*recording, recording->unwatch(window), end_ticks);
}

OpenSlice* Recorder::begin(const stepscope_begin& what) {
  if (!recording()) return nullptr;
  const auto fill = [&](ThreadState& state, Recording& active, OpenSlice& slice) {
    if (state.logical_id != what.thread) {
      state.logical_id = what.thread;
      active.set_logical_id(state.thread, what.thread);
    }
    slice.kind = static_cast<Kind>(what.kind);
    slice.flags = what.flags;
    slice.sequence = what.sequence;
    slice.forward_thread = what.forward_thread;
    slice.detail = 0;
    if (what.inputs_size && what.kind == STEPSCOPE_OPERATOR) {
      slice.detail = state.inputs.find(active.inputs, {what.inputs, what.inputs_size});
    }
    slice.context = state.in_tasks ? asked(shared_state.context_source) : 0;
    slice.label = label_of(state, active, what);
    return slice.label != kIgnoredLabel;
  };
  return begin_slice(shared_state.stack(), 0, fill);
}

OpenSlice* Recorder::begin(Kind kind, std::string_view name, std::string_view detail,
                           uint32_t context) {
  if (!recording()) return nullptr;
  const auto fill = [&](ThreadState& state, Recording& active, OpenSlice& slice) {
    if (context) {
      state.in_tasks = true;
      state.close_short_way();
    }
    slice.kind = kind;
    slice.flags = 0;
    slice.sequence = -1;
    slice.forward_thread = 0;
    slice.context = context;
    slice.label = state.texts.find(active.interner, name);
    slice.detail = detail.empty() ? 0 : state.texts.find(active.interner, detail);
    return true;
  };
  return begin_slice(shared_state.stack(), 0, fill);
}

Recorder::Label Recorder::label(std::string_view name) {
  ThreadState* const state = recording() ? ThreadState::current() : nullptr;
  if (!state) return {};
  const Inside inside(*state);
  Recording* const active = joined(*state);
  if (!active) return {};
  return {state->generation, active->interner.intern(name).first};
}

OpenSlice* Recorder::begin(Kind kind, Label label, uint64_t start_ticks) {
  const auto fill = [&](const Lane& lane, OpenSlice& slice) {
    slice.kind = kind;
    slice.flags = 0;
    slice.sequence = -1;
    slice.forward_thread = 0;
    slice.context = 0;
    slice.label = label.id;
    slice.detail = 0;
    slice.stack = 0;
    return label.generation == lane.generation;
  };
  if (!start_ticks) [[likely]] {
    ThreadState* const state = ThreadState::current();
    if (!state) return nullptr;
    OpenSlice* const begun =
        state->Lane::begin([&](OpenSlice& slice) { return fill(*state, slice); });
    if (begun) return begun;
  }
  if (!recording()) return nullptr;
  return begin_slice(0, start_ticks, [&](const ThreadState& state, const Recording&, OpenSlice& s) {
    return fill(state, s);
  });
}

void Recorder::allocated(uintptr_t address, int64_t bytes, Device device) {
  if (bytes) note_block(Kind::kBlock, address, bytes, device, 0);
}

void Recorder::released(uintptr_t address) { note_block(Kind::kBlock, address, 0, {}, 0); }

void Recorder::memory_changed(uintptr_t address, int64_t bytes, int64_t allocated, int64_t reserved,
                              Device device) {
  note(Kind::kMemory, [&](Record& record) {
    record.end_ticks = static_cast<uint64_t>(bytes);
    record.sequence = static_cast<int64_t>(address);
    record.order = static_cast<uint64_t>(allocated);
    record.label = static_cast<uint32_t>(reserved);
    record.forward_thread = static_cast<uint32_t>(reserved >> 32);
    record.detail = device.word();
  });
}

void Recorder::owned(uintptr_t address, int64_t bytes, Device device, uint8_t owner) {
  note_block(Kind::kOwner, address, bytes, device, owner);
}

std::vector<std::string> Recorder::type_names() {
  const std::lock_guard lock(type_names_mutex);
  return {stepscope::type_names.begin(), stepscope::type_names.end()};
}

void Recorder::end(OpenSlice* slice) {
  ThreadState* const state = ThreadState::current();
  if (!state || !state->end(*slice)) end_slice(slice, 0);
}

void Recorder::cut_off(OpenSlice* slice) { end_slice(slice, kUnfinished); }

uint32_t Recorder::thread() {
  ThreadState* const state = ThreadState::current();
  if (!state) return kNoThread;
  const Inside inside(*state);
  const Recording* const active = shared_state.active.load(std::memory_order_relaxed);
  return active && state->generation == active->generation ? state->thread : kNoThread;
}

const stepscope_core_api& Recorder::core_api() {
  static const stepscope_core_api api{
      .version = STEPSCOPE_CORE_API_VERSION,
      .lane = &api_lane,
      .label = &api_label,
      .inputs = &api_inputs,
      .begin = &api_begin,
      .end = &api_end,
      .names_changed = &api_names_changed,
      .allocated = &api_allocated,
      .released = &api_released,
      .memory_changed = &api_memory_changed,
      .name_type = &api_name_type,
  };
  return api;
}

void Recorder::set_context_source(uint32_t (*current_context)()) {
  shared_state.context_source.store(current_context);
}

void Recorder::set_stack_source(uint32_t (*current_stack)()) {
  shared_state.stack_source.store(current_stack);
}

void Recorder::before_fork() {
  instance().mutex_.lock();
  ThreadState::hold_all_for_fork();
}

void Recorder::after_fork_in_parent() {
  ThreadState::release_all_after_fork();
  instance().mutex_.unlock();
}

// The child records nothing of its parent's. The parent's recording is leaked: one of its locks may
// have been held by a thread that does not exist here.
void Recorder::after_fork_in_child() {
  Recorder& self = instance();
  shared_state.active.store(nullptr);
  change_epoch();
  new std::shared_ptr<Recording>(std::move(self.current_));
  self.windows_.clear();
  ThreadState::forget_others_after_fork();
  self.mutex_.unlock();
}

}  // namespace stepscope
