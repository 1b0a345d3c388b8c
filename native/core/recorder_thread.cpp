// The part of the recorder that runs on the threads being recorded.
#include <utility>

#include "core/clock.h"
#include "core/recorder.h"
#include "core/stream.h"

namespace stepscope {
namespace {

// Joins the thread's state to the active recording and returns that; null when nothing records.
//
// The recording is only reached through this pointer, which orders the reads on every processor in
// use.
Recording* joined(ThreadState& state) {
  Recording* const active = shared_state.active.load(kHandshake);
  const uint32_t generation = shared_state.generation.load(kObserve);
  if (active && state.generation != generation) [[unlikely]]
    state.join(*active);
  return active;
}

void drop(Recording& recording) {
  recording.dropped.fetch_add(1, std::memory_order_relaxed);
  if (Stream::is_on()) Stream::instance().note_dropped();
}

// These are kept even at the limit: there are few, and the rest cannot be read without them.
bool is_precious(Kind kind) { return kind == Kind::kRange || kind == Kind::kRequest; }

// Makes room for one record. False if the limit leaves none; precious records may use a reserve.
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
  state.close_fast_path();
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

// The slow path to begin a slice: whatever the state of the thread and of the recording. `describe`
// completes its facts, and may refuse.
//
// The stack is read before the thread is Inside. A new stack waits for the GIL, whose holder may be
// waiting for a thread that waits until no thread is inside.
template <typename Describe>
[[gnu::always_inline]] inline OpenSlice* begin_slice(SliceFacts facts, uint64_t start_ticks,
                                                     const Describe& describe) {
  ThreadState* const state = ThreadState::current();
  if (!state) return nullptr;
  OpenSlice* const slice = state->take_slice();
  const Inside inside(*state);
  Recording* const active = joined(*state);
  if (!active || !describe(*state, *active, facts)) {
    state->give(*slice);
    return nullptr;
  }
  state->open(*slice, facts, start_ticks ? start_ticks : Clock::ticks());
  state->look_again();
  return slice;
}

// The slow path to end a slice.
[[gnu::noinline]] void end_slice(OpenSlice* slice, uint8_t flags) {
  const uint64_t now_ticks = Clock::ticks();
  ThreadState* const state = ThreadState::current();
  if (!state) return;  // the thread is going; the slice stays open and is reported as unfinished
  const Inside inside(*state);
  Recording* const active = joined(*state);
  if (active && slice->record.slice.generation == state->generation) {
    Record record;
    slice->write(record, now_ticks);
    record.flags |= flags;
    if (record.thread != state->thread && !(flags & kUnfinished)) record.flags |= kAsync;
    append(*state, *active, record);
  }
  state->give(*slice);
}

// The slow path to append an event.
template <typename Fill>
[[gnu::noinline]] void append_event(Kind kind, const Fill& fill) {
  if (!Recorder::recording()) return;
  ThreadState* const state = ThreadState::current();
  if (!state) return;
  const Inside inside(*state);
  Recording* const active = joined(*state);
  if (!active) return;
  Record record{};
  state->write_event(record, kind, Clock::ticks(), fill);
  append(*state, *active, record);
  state->look_again();
}

template <typename Fill>
void note(Kind kind, const Fill& fill) {
  ThreadState* const state = ThreadState::current();
  if (!state || !state->append(kind, fill)) append_event(kind, fill);
}

}  // namespace

OpenSlice* Recorder::begin(const stepscope_begin& what) {
  if (!recording()) return nullptr;
  const auto describe = [&](ThreadState& state, Recording& active, SliceFacts& facts) {
    if (state.logical_id != what.thread) {
      state.logical_id = what.thread;
      active.set_logical_id(state.thread, what.thread);
    }
    if (what.inputs_size) {
      facts.detail = state.inputs_of({what.inputs, what.inputs_size});
      if (facts.kind != Kind::kOperator) facts.flags |= kHasInputs;
    }
    if (state.in_tasks) facts.context = shared_state.context();
    facts.label = state.label_of(what);
    return facts.label != kIgnoredLabel;
  };
  SliceFacts facts = what.facts;
  facts.stack = shared_state.stack();
  return begin_slice(facts, 0, describe);
}

OpenSlice* Recorder::begin(Kind kind, std::string_view name, std::string_view detail,
                           uint32_t context) {
  if (!recording()) return nullptr;
  const SliceFacts given_facts{.context = context, .stack = shared_state.stack(), .kind = kind};
  const auto name_it = [&](ThreadState& state, SliceFacts& facts) {
    facts = given_facts;
    facts.label = state.text_of(name);
    if (!detail.empty()) facts.detail = state.text_of(detail);
    return true;
  };
  if (!context) [[likely]] {
    ThreadState* const state = ThreadState::current();
    if (!state) return nullptr;
    OpenSlice* const begun =
        state->Lane::begin([&](SliceFacts& facts) { return name_it(*state, facts); });
    if (begun) return begun;
  }
  return begin_slice(given_facts, 0, [&](ThreadState& state, const Recording&, SliceFacts& facts) {
    if (context) {
      state.in_tasks = true;
      state.close_fast_path();
    }
    return name_it(state, facts);
  });
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
  const SliceFacts given_facts{.label = label.id, .kind = kind};
  if (!start_ticks) [[likely]] {
    ThreadState* const state = ThreadState::current();
    if (!state) return nullptr;
    OpenSlice* const begun = state->Lane::begin([&](SliceFacts& facts) {
      facts = given_facts;
      return label.generation == state->generation;
    });
    if (begun) return begun;
  }
  if (!recording()) return nullptr;
  return begin_slice(given_facts, start_ticks,
                     [&](const ThreadState& state, const Recording&, SliceFacts& facts) {
                       if (state.in_tasks) facts.context = shared_state.context();
                       return label.generation == state.generation;
                     });
}

void Recorder::end(OpenSlice* slice) {
  ThreadState* const state = ThreadState::current();
  if (!state || !state->end(*slice)) end_slice(slice, 0);
}

void Recorder::rename(OpenSlice* slice, std::string_view name) {
  ThreadState* const state = ThreadState::current();
  if (!state) return;
  const Inside inside(*state);
  Recording* const active = joined(*state);
  if (!active || slice->record.slice.generation != state->generation) return;
  racing_store(slice->record.slice.label, state->text_of(name));
}

void Recorder::cut_off(OpenSlice* slice) { end_slice(slice, kUnfinished); }

void Recorder::sampled_inputs(std::string_view encoded) {
  ThreadState* const state = ThreadState::current();
  if (!state) return;
  const Inside inside(*state);
  Recording* const active = joined(*state);
  if (!active) return;
  Record record{};
  state->write_event(record, Kind::kInputs, Clock::ticks(),
                     [&](Record& it) { it.sampled = {state->begun, state->inputs_of(encoded)}; });
  append(*state, *active, record);
}

void Recorder::tensor_used(const TensorUse& use, uint64_t ticks) {
  ThreadState* const state = ThreadState::current();
  if (!state) return;
  const Inside inside(*state);
  Recording* const active = joined(*state);
  if (!active) return;
  Record record{};
  state->write_event(record, Kind::kUse, ticks, [&](Record& it) { it.use = use; });
  append(*state, *active, record);
}

void Recorder::allocated(uintptr_t address, int64_t bytes, Device device) {
  if (!bytes) return;
  note(Kind::kBlock, [=](Record& record) { record.block = {address, bytes, device}; });
}

void Recorder::released(uintptr_t address) {
  if (!recording()) return BlocksLeft::instance().released(address);
  note(Kind::kBlock, [=](Record& record) { record.block = {address, 0, kCpuDevice}; });
}

void Recorder::memory_changed(uintptr_t address, int64_t bytes, int64_t allocated, int64_t reserved,
                              Device device) {
  note(Kind::kMemoryChange,
       [=](Record& record) { record.change = {address, bytes, device, allocated, reserved}; });
}

void Recorder::owned(uintptr_t address, int64_t bytes, Device device, uint8_t owner) {
  note(Kind::kOwner, [=](Record& record) { record.owner = {address, bytes, device, owner}; });
}

uint32_t Recorder::thread() {
  ThreadState* const state = ThreadState::current();
  if (!state) return kNoThread;
  const Inside inside(*state);
  const Recording* const active = shared_state.active.load(kHandshake);
  return active && state->generation == active->generation ? state->thread : kNoThread;
}

}  // namespace stepscope
