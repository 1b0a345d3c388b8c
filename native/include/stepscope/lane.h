// What a thread records into, and the fast path to it: for the core and for the bridges, inline in
// both.
//
// An operator of a real program finds little of this in the cache, and each line of code or data
// that has to be fetched costs it tens of ns. So what it touches stands together, one number tells
// whether the fast path is open, and whatever is out of the ordinary goes through the core.
//
// Plain layouts only: the two sides may be built by different compilers and C++ libraries.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "stepscope/core_api.h"
#include "stepscope/ordering.h"
#include "stepscope/record.h"
#include "stepscope/text_cache.h"

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

namespace stepscope {

class Recording;

// A slice that has begun and not ended: the record that it becomes. They are pooled and never
// freed.
//
// Its first word, where the end will stand, is the bridge's own until then.
struct OpenSlice {
  Record record;  // the order is 0 while it is not open

  static OpenSlice* of(stepscope_open_slice* handle) {
    return reinterpret_cast<OpenSlice*>(handle);
  }
  stepscope_open_slice* handle() { return reinterpret_cast<stepscope_open_slice*>(this); }

  // While it is in a pool: the next one, in the place of the sequence.
  OpenSlice* next() const { return reinterpret_cast<OpenSlice*>(record.slice.sequence); }
  void set_next(OpenSlice* slice) {
    racing_store(record.slice.sequence, reinterpret_cast<int64_t>(slice));
  }

  // Fill in all but the end. Others may look at it from here on.
  [[gnu::always_inline]] void open(const SliceFacts& facts, uint64_t order, uint64_t start_ticks,
                                   uint32_t generation, uint32_t thread) {
    Slice& slice = record.slice;
    racing_store(slice.sequence, facts.sequence);
    racing_store(slice.label, facts.label);
    racing_store(slice.context, facts.context);
    racing_store(slice.forward_thread, facts.forward_thread);
    racing_store(slice.detail, facts.detail);
    racing_store(slice.stack, facts.stack);
    racing_store(slice.generation, generation);
    racing_store(record.start_ticks, start_ticks);
    racing_store(record.thread, thread);
    racing_store(record.kind, facts.kind);
    racing_store(record.flags, facts.flags);
    std::atomic_signal_fence(std::memory_order_release);
    relaxed_store(slice.order, order);
  }

  // Its thread's own copy, as ended.
  void write(Record& to, uint64_t end_ticks) const {
    std::memcpy(static_cast<void*>(&to), &record, sizeof(record));
    to.slice.end_ticks = end_ticks;
  }
};
static_assert(offsetof(Record, slice.end_ticks) == 0);

enum class ClockSource : uint8_t { kCounter, kMonotonic, kManual };

// What an operator reads of the process-wide state, all on one cache line.
struct alignas(64) SharedState {
  // The one being recorded, null when nothing records. A thread may use it only while Inside.
  std::atomic<Recording*> active{nullptr};
  std::atomic<uint32_t> generation{0};  // always read with it
  // Changes whenever a lane has to look again whether its fast path is open.
  std::atomic<uint32_t> epoch{1};
  // The asyncio context of the calling thread; asked only where tasks were seen.
  std::atomic<uint32_t (*)()> context_source{nullptr};
  // The calling thread's Python stack; null while nobody wants it.
  std::atomic<uint32_t (*)()> stack_source{nullptr};
  // Counts the times when a name that lasts may have gone after all.
  std::atomic<uint32_t> names_changed{0};
  std::atomic<ClockSource> clock{ClockSource::kMonotonic};
  // Whether each thread has to order its own steps; see Inside.
  std::atomic<bool> needs_fence{true};

  uint32_t context() const { return asked(context_source); }
  uint32_t stack() const { return asked(stack_source); }

 private:
  static uint32_t asked(const std::atomic<uint32_t (*)()>& source) {
    uint32_t (*const ask)() = source.load(std::memory_order_relaxed);
    return ask ? ask() : 0;
  }
};
static_assert(sizeof(SharedState) == 64);

// Where a thread writes its next record. Others read `next` to learn how far a chunk is filled.
struct Cursor {
  std::atomic<Record*> next{nullptr};
  Record* end = nullptr;
};

// The label of a name that lasts at its address.
struct LastingName {
  const char* address = nullptr;
  uint32_t label = 0;
};
inline constexpr uint32_t kIgnoredLabel = UINT32_MAX;

// The processor's own counter, where there is one.
inline uint64_t counter_ticks() {
#if defined(__aarch64__)
  uint64_t value;
  asm volatile("mrs %0, cntvct_el0" : "=r"(value));
  return value;
#elif defined(__x86_64__)
  return __rdtsc();
#else
  return 0;
#endif
}

// What a thread owns of the recorder. Its loads and stores are ordered by whoever reads them on
// another thread (see ordering.h).
struct alignas(64) Lane {
  explicit Lane(const SharedState& its_shared) : shared(its_shared) {}

  // What every operator needs stands first, on one cache line.
  std::atomic<uint32_t> inside{0};
  uint32_t epoch = 0;       // as of when the fast path was found open; 0: it is closed
  uint32_t generation = 0;  // of the recording that the fields below belong to
  uint32_t thread = 0;
  Cursor cursor;
  uint64_t begun = 0;
  OpenSlice* free_slices = nullptr;
  const SharedState& shared;
  uint32_t logical_id = 0;
  alignas(64) std::array<LastingName, 512> names;  // few: one more page to touch costs time, too
  TextCache<7> texts;                              // names that do not last
  TextCache<9> inputs;                             // a small model has hundreds of them

  // Whether the thread is part of the recording, and nothing out of the ordinary is asked for.
  bool is_open() const { return epoch == shared.epoch.load(kHandshake); }

  LastingName& name_at(const char* address) {
    constexpr unsigned kBits = 9;
    static_assert(std::tuple_size<decltype(names)>::value == size_t{1} << kBits);
    const uint64_t mixed = reinterpret_cast<uintptr_t>(address) * 0x9E3779B97F4A7C15ULL;
    return names[mixed >> (64 - kBits)];
  }

  // Begin a slice. `describe` completes its facts, may use what the recording owns, and may refuse.
  // Null then, and where the core has to be asked.
  template <typename Describe>
  [[gnu::always_inline]] OpenSlice* begin(const Describe& describe) {
    enter();
    OpenSlice* const slice = free_slices;
    OpenSlice* begun_slice = nullptr;
    SliceFacts facts;
    if (is_open() && slice && describe(facts)) {
      free_slices = slice->next();
      open(*slice, facts, counter_ticks());
      begun_slice = slice;
    }
    leave();
    return begun_slice;
  }

  // End a slice of this thread; false where the core has to be asked.
  [[gnu::always_inline]] bool end(OpenSlice& slice) {
    const uint64_t now = counter_ticks();
    enter();
    const bool may = is_open() && slice.record.slice.generation == generation &&
                     slice.record.thread == thread && has_room();
    if (may) {
      slice.write(*cursor.next.load(std::memory_order_relaxed), now);
      advance();
      give(slice);
    }
    leave();
    return may;
  }

  // Append an event, a record that is not a slice: `fill` writes what its kind holds. False where
  // the core has to be asked.
  template <typename Fill>
  [[gnu::always_inline]] bool append(Kind kind, const Fill& fill) {
    enter();
    const bool may = is_open() && has_room();
    if (may) {
      write_event(*cursor.next.load(std::memory_order_relaxed), kind, counter_ticks(), fill);
      advance();
    }
    leave();
    return may;
  }

  // ---- the steps of it

  void enter() {
    inside.store(1, kHandshake);
    std::atomic_signal_fence(std::memory_order_seq_cst);
  }
  void leave() {
    std::atomic_signal_fence(std::memory_order_seq_cst);
    inside.store(0, kPublish);
  }

  [[gnu::always_inline]] void open(OpenSlice& slice, const SliceFacts& facts,
                                   uint64_t start_ticks) {
    slice.open(facts, ++begun, start_ticks, generation, thread);
  }

  template <typename Fill>
  [[gnu::always_inline]] void write_event(Record& record, Kind kind, uint64_t ticks,
                                          const Fill& fill) const {
    fill(record);
    record.start_ticks = ticks;
    record.thread = thread;
    record.kind = kind;
  }

  bool has_room() const { return cursor.next.load(std::memory_order_relaxed) != cursor.end; }

  // The record at the cursor is written.
  void advance() {
    std::atomic_signal_fence(std::memory_order_release);  // the compiler, too, keeps this order
    Record* const written = cursor.next.load(std::memory_order_relaxed);
    cursor.next.store(written + 1, kPublish);
    __builtin_prefetch(written + 2, 1);  // the next records come in while the program goes on
  }

  void give(OpenSlice& slice) {
    relaxed_store(slice.record.slice.order, 0);
    slice.set_next(free_slices);
    free_slices = &slice;
  }
};

}  // namespace stepscope
