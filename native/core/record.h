// The fixed-size record that recording writes, and the words it shares with the Trace.
#pragma once

#include <cstdint>

namespace stepscope {

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
};

// As in stepscope.trace.model.SliceFlags.
enum Flag : uint8_t { kUnfinished = 1, kAsync = 2, kBackward = 4 };

// Without initial values: a chunk of them costs nothing to make.
//
// A kMemory record is an allocation or a release: `end_ticks` holds its bytes (signed), `sequence`
// the address, `order` what is in use on the device after it, `detail` the device, `label` and
// `forward_thread` the two halves of what the allocator has reserved there. A kOwner record
// says what the block at `sequence` holds: `flags` is a MemoryOwner, the rest as in kMemory.
struct alignas(64) Record {
  uint64_t start_ticks;  // of Clock
  uint64_t end_ticks;
  int64_t sequence;         // -1: none
  uint64_t order;           // counts the begins of one thread
  uint32_t label;           // interned name and overload
  uint32_t thread;          // the recording's number of it
  uint32_t context;         // the asyncio context, 0 outside of any
  uint32_t forward_thread;  // the framework's number of it, 0: none
  uint32_t detail;          // an operator's encoded inputs, else a text that goes with it; 0: none
  uint32_t stack;           // as the stack source numbers it, 0: none
  Kind kind;
  uint8_t flags;
};
static_assert(sizeof(Record) == 64, "one cache line; the documentation says so");

}  // namespace stepscope
