// What a thread records into, and the short way to record there: for the core and for the bridges,
// inline in both.
//
// An operator of a real program finds little of this in the cache, and each line of code or data
// that has to be fetched costs it tens of ns. So what it touches stands together, one number tells
// whether the short way may be gone, and whatever is out of the ordinary goes through the core.
//
// Plain layouts only: the two sides may be built by different compilers and C++ libraries.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "stepscope/core_api.h"

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

namespace stepscope {

class Recording;

// As in stepscope.trace.model.SliceKind; only what the recorder itself can produce.
enum class Kind : uint8_t {
  kOther = 0,
  kOperator = 1,
  kRange = 2,
  kStep = 3,
  kPython = 4,
  kModule = 11,
  // These are no slices: see Record.
  kMemory = 14,
  kOwner = 15,
  kBlock = 16,
};

// As in stepscope.trace.model.SliceFlags.
enum Flag : uint8_t { kUnfinished = 1, kAsync = 2, kBackward = 4 };

// The fixed-size record that recording writes. Without initial values: a chunk of them costs
// nothing to make.
//
// A kMemory record is an allocation or a release: `end_ticks` holds its bytes (signed), `sequence`
// the address, `order` what is in use on the device after it, `detail` the device, `label` and
// `forward_thread` the two halves of what the allocator has reserved there. A kOwner record
// says what the block at `sequence` holds: `flags` is a MemoryOwner, the rest as in kMemory. A
// kBlock record is an allocation or (of 0 bytes) a release as it came; who reads makes a kMemory of
// it.
struct alignas(64) Record {
  uint64_t end_ticks;
  uint64_t start_ticks;     // of Clock
  int64_t sequence;         // -1: none
  uint64_t order;           // counts the begins of one thread
  uint32_t label;           // interned name and overload
  uint32_t thread;          // the recording's number of it
  uint32_t context;         // the asyncio context, 0 outside of any
  uint32_t forward_thread;  // the framework's number of it, 0: none
  uint32_t detail;          // an operator's encoded inputs, else a text that goes with it; 0: none
  uint32_t stack;           // as the stack source numbers it, 0: none
  uint32_t generation;      // of the recording
  Kind kind;
  uint8_t flags;
};
static_assert(sizeof(Record) == 64, "one cache line; the documentation says so");

// A slice that has begun and not ended, laid out as the record that it becomes. They are pooled and
// never freed.
struct alignas(64) OpenSlice : stepscope_open_slice {  // which stands where the end will
  uint64_t start_ticks = 0;
  union {
    int64_t sequence = -1;
    OpenSlice* next_free;  // while it is in a pool
  };
  std::atomic<uint64_t> order{0};  // 0 while it is not open
  uint32_t label = 0;
  uint32_t thread = 0;
  uint32_t context = 0;
  uint32_t forward_thread = 0;
  uint32_t detail = 0;
  uint32_t stack = 0;
  uint32_t generation = 0;
  Kind kind = Kind::kOther;
  uint8_t flags = 0;

  void write(Record& record, uint64_t end_ticks) const {
    static_assert(sizeof(OpenSlice) == sizeof(Record) && sizeof(order) == sizeof(record.order));
    std::memcpy(&record, static_cast<const void*>(this), sizeof(record));
    record.end_ticks = end_ticks;
  }
};

enum class ClockSource : uint8_t { kCounter, kMonotonic, kManual };

// What an operator reads of the process-wide state, all on one cache line.
struct alignas(64) SharedState {
  // The one being recorded, null when nothing records. A thread may use it only while Inside.
  std::atomic<Recording*> active{nullptr};
  std::atomic<uint32_t> generation{0};  // always read with it
  // Changes whenever a lane may have to look again whether it may go the short way.
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

  uint32_t stack() const {
    uint32_t (*const ask)() = stack_source.load(std::memory_order_relaxed);
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

// What is a thread's own. Loads and stores are relaxed, on purpose: acquire and release make an ARM
// core wait for its stores to drain, hundreds of ns an operator. Whoever reads what another thread
// wrote orders it from that side (see Inside).
struct alignas(64) Lane {
  explicit Lane(const SharedState& its_shared) : shared(its_shared) {}

  // What every operator needs stands first, on one cache line.
  std::atomic<uint32_t> inside{0};
  uint32_t epoch = 0;       // as of when the short way was found open; 0: it is closed
  uint32_t generation = 0;  // of the recording that the fields below belong to
  uint32_t thread = 0;
  Cursor cursor;
  uint64_t begun = 0;
  OpenSlice* free_slices = nullptr;
  const SharedState& shared;
  uint32_t logical_id = 0;
  alignas(64) std::array<LastingName, 512> names;  // few: one more page to touch costs time, too

  // Whether the thread is part of the recording, and nothing out of the ordinary is asked for.
  bool is_open() const { return epoch == shared.epoch.load(std::memory_order_relaxed); }

  LastingName& name_at(const char* address) {
    constexpr unsigned kBits = 9;
    static_assert(std::tuple_size<decltype(names)>::value == size_t{1} << kBits);
    const uint64_t mixed = reinterpret_cast<uintptr_t>(address) * 0x9E3779B97F4A7C15ULL;
    return names[mixed >> (64 - kBits)];
  }

  // Begin a slice. `fill` says what it is, may use what the recording owns, and may refuse. Null
  // then, and where the core has to be asked.
  template <typename Fill>
  [[gnu::always_inline]] OpenSlice* begin(const Fill& fill) {
    enter();
    OpenSlice* const slice = free_slices;
    OpenSlice* begun_slice = nullptr;
    if (is_open() && slice) {
      OpenSlice* const rest = slice->next_free;
      if (fill(*slice)) {
        free_slices = rest;
        open(*slice, counter_ticks());
        begun_slice = slice;
      } else {
        slice->next_free = rest;
      }
    }
    leave();
    return begun_slice;
  }

  // End a slice of this thread; false where the core has to be asked.
  [[gnu::always_inline]] bool end(OpenSlice& slice) {
    const uint64_t now = counter_ticks();
    enter();
    const bool may =
        is_open() && slice.generation == generation && slice.thread == thread && has_room();
    if (may) {
      slice.write(*cursor.next.load(std::memory_order_relaxed), now);
      advance();
      give(slice);
    }
    leave();
    return may;
  }

  // Append a record that is no slice; false where the core has to be asked.
  [[gnu::always_inline]] bool note(Kind kind, uintptr_t address, uint64_t bytes, uint32_t device,
                                   uint8_t flags) {
    enter();
    const bool may = is_open() && has_room();
    if (may) {
      Record& record = *cursor.next.load(std::memory_order_relaxed);
      record.end_ticks = bytes;
      record.start_ticks = counter_ticks();
      record.sequence = static_cast<int64_t>(address);
      record.thread = thread;
      record.detail = device;
      record.kind = kind;
      record.flags = flags;
      advance();
    }
    leave();
    return may;
  }

  // ---- the steps of it

  void enter() {
    inside.store(1, std::memory_order_relaxed);
    std::atomic_signal_fence(std::memory_order_seq_cst);
  }
  void leave() {
    std::atomic_signal_fence(std::memory_order_seq_cst);
    inside.store(0, std::memory_order_relaxed);
  }

  void open(OpenSlice& slice, uint64_t start_ticks) {
    slice.generation = generation;
    slice.thread = thread;
    slice.start_ticks = start_ticks;
    std::atomic_signal_fence(std::memory_order_release);
    slice.order.store(++begun, std::memory_order_relaxed);
  }

  bool has_room() const { return cursor.next.load(std::memory_order_relaxed) != cursor.end; }

  // The record at the cursor is written.
  void advance() {
    std::atomic_signal_fence(std::memory_order_release);  // the compiler, too, keeps this order
    Record* const written = cursor.next.load(std::memory_order_relaxed);
    cursor.next.store(written + 1, std::memory_order_relaxed);
    __builtin_prefetch(written + 2, 1);  // the next records come in while the program goes on
  }

  void give(OpenSlice& slice) {
    slice.order.store(0, std::memory_order_relaxed);
    slice.next_free = free_slices;
    free_slices = &slice;
  }
};

}  // namespace stepscope
