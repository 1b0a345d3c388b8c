#include "core/recorder.h"

#include <pthread.h>

#include <atomic>
#include <utility>

#include "core/clock.h"

namespace stepscope {
namespace {

uint32_t no_context() { return 0; }
std::atomic<uint32_t (*)()> context_source{&no_context};

// The thread's state as a member of the active recording; null when nothing records.
//
// Loads and stores of the hot path are relaxed, on purpose: acquire and release make an ARM core
// wait for its stores to drain, hundreds of ns an operator. Whoever reads what another thread wrote
// orders it from that side (see Inside). What this pointer points to is reached through it only,
// which orders the reads on every processor in use.
Recording* joined(ThreadState& state) {
  Recording* const active = Recording::active.load(std::memory_order_relaxed);
  const uint32_t generation = Recording::active_generation.load(std::memory_order_relaxed);
  if (active && state.generation != generation) [[unlikely]]
    state.join(*active);
  return active;
}

void drop(Recording& recording) { recording.dropped.fetch_add(1, std::memory_order_relaxed); }

// Room for a record where there is none, or where the limit was met; false when it leaves none.
bool make_room(ThreadState& state, Recording& recording, bool is_operator) {
  Cursor& cursor = state.cursor;
  if (state.full) state.full = state.limits_seen == recording.limits_set();
  if (state.full && is_operator) return false;
  if (cursor.next.load(std::memory_order_relaxed) != cursor.end) return true;
  if (recording.next_chunk(cursor, state.full)) return true;
  state.limits_seen = recording.limits_set();
  const bool first_refusal = !std::exchange(state.full, true);
  return first_refusal && !is_operator && recording.next_chunk(cursor, true);
}

void append(ThreadState& state, Recording& recording, const Record& record) {
  Cursor& cursor = state.cursor;
  if (state.full || cursor.next.load(std::memory_order_relaxed) == cursor.end) [[unlikely]] {
    if (!make_room(state, recording, record.kind == Kind::kOperator)) return drop(recording);
  }
  Record* const place = cursor.next.load(std::memory_order_relaxed);
  *place = record;
  std::atomic_signal_fence(std::memory_order_release);  // the compiler, too, keeps this order
  cursor.next.store(place + 1, std::memory_order_relaxed);
  __builtin_prefetch(place + 2, 1);  // the next records come in while the program goes on
}

uint32_t label_of(ThreadState& state, Recording& recording, const stepscope_begin& what) {
  const uint32_t names_changed = Recording::names_changed.load(std::memory_order_relaxed);
  if (state.names_changed != names_changed) [[unlikely]] {
    state.names.clear();
    state.names_changed = names_changed;
  }
  if (!what.name_kind) return state.names.find_text(recording.interner, what.name);
  if (const uint32_t* known = state.names.find_at(what.name)) [[likely]]
    return *known;
  const uint8_t kind = what.name_kind(what.function);
  if (kind == STEPSCOPE_NAME_PASSES) return state.names.find_text(recording.interner, what.name);
  const uint32_t label =
      state.names.find_with_overload(recording.interner, what.name, what.overload(what.function));
  if (kind == STEPSCOPE_NAME_LASTS) state.names.keep_at(what.name, label);
  return label;
}

void open(ThreadState& state, OpenSlice& slice) {
  slice.generation = state.generation;
  slice.thread = state.thread;
  slice.start_ticks = Clock::ticks();
  std::atomic_signal_fence(std::memory_order_release);
  slice.order.store(++state.begun, std::memory_order_relaxed);
}

// Kept together, away from the rest: an operator needs both.
[[gnu::hot]] stepscope_open_slice* api_begin(const stepscope_begin* what) {
  return Recorder::begin(*what);
}

[[gnu::hot]] void api_end(stepscope_open_slice* slice) {
  Recorder::end(static_cast<OpenSlice*>(slice));
}

void api_names_changed() { Recording::names_changed.fetch_add(1, std::memory_order_relaxed); }

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
    Recording::active_generation.store(last_generation_, std::memory_order_relaxed);
    Recording::active.store(current_.get(), std::memory_order_release);
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
    Recording::active.store(nullptr, std::memory_order_seq_cst);
    ThreadState::wait_until_none_is_inside();
    current_.reset();
  }
  return take_snapshot(*recording, recording->unwatch(window), end_ticks);
}

OpenSlice* Recorder::begin(const stepscope_begin& what) {
  if (!recording()) return nullptr;
  ThreadState* const state = ThreadState::current();
  if (!state) return nullptr;
  OpenSlice* const slice = state->take_slice();
  const Inside inside(*state);
  Recording* const active = joined(*state);
  if (!active) {
    state->give_slice(slice);
    return nullptr;
  }
  if (state->logical_id != what.thread) [[unlikely]] {
    state->logical_id = what.thread;
    active->set_logical_id(state->thread, what.thread);
  }
  slice->kind = static_cast<Kind>(what.kind);
  slice->flags = what.flags;
  slice->sequence = what.sequence;
  slice->forward_thread = what.forward_thread;
  slice->detail = 0;
  slice->context = state->in_tasks ? context_source.load(std::memory_order_relaxed)() : 0;
  slice->label = label_of(*state, *active, what);
  if (slice->label == NameCache::kIgnored) [[unlikely]] {
    state->give_slice(slice);
    return nullptr;
  }
  open(*state, *slice);
  return slice;
}

OpenSlice* Recorder::begin(Kind kind, std::string_view name, std::string_view detail,
                           uint32_t context) {
  if (!recording()) return nullptr;
  ThreadState* const state = ThreadState::current();
  if (!state) return nullptr;
  OpenSlice* const slice = state->take_slice();
  const Inside inside(*state);
  Recording* const active = joined(*state);
  if (!active) {
    state->give_slice(slice);
    return nullptr;
  }
  if (context) state->in_tasks = true;
  slice->kind = kind;
  slice->flags = 0;
  slice->sequence = -1;
  slice->forward_thread = 0;
  slice->context = context;
  slice->label = state->names.find_text(active->interner, name);
  slice->detail = detail.empty() ? 0 : state->names.find_text(active->interner, detail);
  open(*state, *slice);
  return slice;
}

void Recorder::end(OpenSlice* slice) {
  const uint64_t now_ticks = Clock::ticks();
  ThreadState* const state = ThreadState::current();
  if (!state) return;  // the thread is going; the slice stays open and is reported as unfinished
  const Inside inside(*state);
  Recording* const active = joined(*state);
  if (active && slice->generation == state->generation) {
    if (slice->thread != state->thread) slice->flags |= kAsync;
    append(*state, *active, slice->ended(now_ticks));
  }
  slice->order.store(0, std::memory_order_relaxed);
  state->give_slice(slice);
}

uint32_t Recorder::thread() {
  ThreadState* const state = ThreadState::current();
  if (!state) return kNoThread;
  const Inside inside(*state);
  const Recording* const active = Recording::active.load(std::memory_order_relaxed);
  return active && state->generation == active->generation ? state->thread : kNoThread;
}

const stepscope_core_api& Recorder::core_api() {
  static const stepscope_core_api api{STEPSCOPE_CORE_API_VERSION, &api_begin, &api_end,
                                      &api_names_changed};
  return api;
}

void Recorder::set_context_source(uint32_t (*current_context)()) {
  context_source.store(current_context);
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
  Recording::active.store(nullptr);
  new std::shared_ptr<Recording>(std::move(self.current_));
  self.windows_.clear();
  ThreadState::forget_others_after_fork();
  self.mutex_.unlock();
}

}  // namespace stepscope
