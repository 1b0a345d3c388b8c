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
  if (active && state.generation != active->generation) [[unlikely]]
    state.join(*active);
  return active;
}

void append(ThreadState& state, Recording& recording, const Record& record) {
  const bool is_operator = record.kind == Kind::kOperator;
  if (state.full && is_operator) [[unlikely]] {
    recording.dropped.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  Chunk* chunk = state.chunk;
  size_t size = chunk ? chunk->size.load(std::memory_order_relaxed) : 0;
  if (!chunk || size == chunk->capacity) [[unlikely]] {
    Chunk* const next = recording.next_chunk(chunk, state.full && !is_operator);
    if (!next) {
      const bool first_refusal = !std::exchange(state.full, true);
      if (first_refusal && !is_operator) return append(state, recording, record);
      recording.dropped.fetch_add(1, std::memory_order_relaxed);
      return;
    }
    state.chunk = chunk = next;
    size = 0;
  }
  chunk->records[size] = record;
  chunk->size.store(size + 1, std::memory_order_relaxed);
}

void open(ThreadState& state, const Recording& recording, OpenSlice& slice) {
  slice.generation = recording.generation;
  slice.record.thread = state.thread;
  slice.record.order = ++state.begun;
  slice.record.start_ticks = Clock::ticks();
  const uint64_t stamp = (uint64_t{state.thread + 1} << 40) ^ state.begun;
  slice.stamp.store(stamp, std::memory_order_relaxed);
}

stepscope_open_slice* api_begin(const stepscope_begin* what) { return Recorder::begin(*what); }

void api_end(stepscope_open_slice* slice) { Recorder::end(static_cast<OpenSlice*>(slice)); }

void api_release(stepscope_open_slice* slice) { Recorder::release(static_cast<OpenSlice*>(slice)); }

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
    Recording::active.store(current_.get(), std::memory_order_release);
  }
  const uint64_t id = ++last_window_;
  windows_[id] = {Clock::ticks(), current_->lost()};
  return id;
}

void Recorder::restart_window(uint64_t window) {
  const std::lock_guard lock(mutex_);
  if (const auto found = windows_.find(window); found != windows_.end()) {
    found->second = {Clock::ticks(), current_->lost()};
  }
}

Snapshot Recorder::close_window(uint64_t window) {
  const uint64_t end_ticks = Clock::ticks();
  const std::lock_guard lock(mutex_);
  const auto found = windows_.find(window);
  if (found == windows_.end()) return {};
  const Window closed = found->second;
  windows_.erase(found);
  const std::shared_ptr<Recording> recording = current_;
  if (windows_.empty()) {
    Recording::active.store(nullptr, std::memory_order_seq_cst);
    ThreadState::wait_until_none_is_inside();
    current_.reset();
  }
  return take_snapshot(*recording, closed.start_ticks, end_ticks, closed.lost_before);
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
  Record& record = slice->record;
  record.kind = static_cast<Kind>(what.kind);
  record.flags = what.flags;
  record.sequence = what.sequence;
  record.forward_thread = what.forward_thread;
  record.detail = 0;
  record.context = state->in_tasks ? context_source.load(std::memory_order_relaxed)() : 0;
  record.label = state->names.find(active->interner, what.name,
                                   [&] { return what.overload_of(what.function); });
  open(*state, *active, *slice);
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
  Record& record = slice->record;
  record.kind = kind;
  record.flags = 0;
  record.sequence = -1;
  record.forward_thread = 0;
  record.context = context;
  record.label = state->names.find_text(active->interner, name);
  record.detail = detail.empty() ? 0 : state->names.find_text(active->interner, detail);
  open(*state, *active, *slice);
  return slice;
}

void Recorder::end(OpenSlice* slice) {
  const uint64_t now_ticks = Clock::ticks();
  ThreadState* const state = ThreadState::current();
  if (!state) return;  // the thread is going; the slice stays open and is reported as unfinished
  const Inside inside(*state);
  Recording* const active = joined(*state);
  if (active && slice->generation == active->generation) {
    Record& record = slice->record;
    record.end_ticks = now_ticks;
    if (record.thread != state->thread) record.flags |= kAsync;
    append(*state, *active, record);
  }
  slice->stamp.store(0, std::memory_order_relaxed);
}

void Recorder::release(OpenSlice* slice) {
  if (ThreadState* const state = ThreadState::current()) state->give_slice(slice);
}

const stepscope_core_api& Recorder::core_api() {
  static const stepscope_core_api api{STEPSCOPE_CORE_API_VERSION, &api_begin, &api_end,
                                      &api_release};
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
