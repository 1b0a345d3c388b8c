// The fixed-size record that recording writes: one cache line, typed by its kind.
//
// Plain layouts only: core and bridge may be built by different compilers and C++ libraries.
#pragma once

#include <cstdint>

namespace stepscope {

// As SliceKind in stepscope/trace/kinds.py, as far as the recorder itself produces them; from
// kRequest on they are the recorder's own.
enum class Kind : uint8_t {
  kOther = 0,
  kOperator = 1,
  kRange = 2,
  kPython = 4,
  kModule = 11,
  kRequest = 12,  // a range of a category of its own, as is a task
  kTask = 13,
  // These are not slices.
  kMemoryChange = 14,
  kOwner = 15,
  kBlock = 16,
  kInputs = 17,
  kUse = 18,
};

// As SliceFlags there.
enum Flag : uint8_t { kUnfinished = 1, kAsync = 2, kBackward = 4 };

// Not for Python: the detail of a slice that is no operator is encoded inputs, too.
inline constexpr uint8_t kHasInputs = 128;

struct Device {
  uint8_t type;  // as the framework numbers it; 0 is the CPU
  int8_t index;  // -1: the only one of its type

  // Both in one number, as Python reads it.
  uint32_t word() const { return uint32_t{type} << 8 | static_cast<uint8_t>(index); }
  static Device of(uint32_t word) {
    return {static_cast<uint8_t>(word >> 8), static_cast<int8_t>(word & 0xFF)};
  }
};

inline constexpr Device kCpuDevice{0, -1};

// What is known of a slice when it begins.
struct SliceFacts {
  int64_t sequence = -1;        // ties a backward function to its forward operator; -1: none
  uint32_t label = 0;           // interned name and overload
  uint32_t context = 0;         // the asyncio context, 0 outside of any
  uint32_t forward_thread = 0;  // the framework's number of it, 0: none
  uint32_t detail = 0;  // an operator's encoded inputs, else a text (but see kHasInputs); 0: none
  uint32_t stack = 0;   // as the stack source numbers it, 0: none
  Kind kind = Kind::kOther;
  uint8_t flags = 0;
};

// ---- what a record holds, by its kind. Without initial values: a chunk of records costs nothing
// to make.

struct Slice {
  uint64_t end_ticks;
  int64_t sequence;  // from here on as in SliceFacts, but for `order` and `generation`
  uint64_t order;    // counts the slices that one thread begins, from 1
  uint32_t label;
  uint32_t context;
  uint32_t forward_thread;
  uint32_t detail;
  uint32_t stack;
  uint32_t generation;  // of the recording
};

// The next three begin alike, so that what they share can be read through any of them.

// kBlock: an allocation, or a release (of 0 bytes), as it came. Whoever reads it works out the
// MemoryChange.
struct BlockEvent {
  uint64_t address;
  int64_t bytes;
  Device device;
};

// kMemoryChange: what an allocator handed out or took back, and its totals after that.
struct MemoryChange {
  uint64_t address;
  int64_t bytes;  // negative for a release
  Device device;
  int64_t allocated;
  int64_t reserved;
};

// kOwner: what the block at an address holds.
struct OwnerStatement {
  uint64_t address;
  int64_t bytes;
  Device device;
  uint8_t owner;  // a MemoryOwner
};

// kInputs: the encoded inputs of an operator, one of many, that was begun before.
struct SampledInputs {
  uint64_t order;  // of its slice, on the same thread
  uint32_t inputs;
};

// kUse: an operator read, made or changed the data of a tensor. Its time is that of the operator.
struct TensorUse {
  uint64_t value;     // equal for equal data, as far as it is known where the data comes from
  uint64_t storage;   // counts storages: one that takes another's memory has another number
  uint64_t bytes;     // how much of the storage the tensor refers to
  uint16_t position;  // among the operator's inputs or outputs
  uint8_t role;       // a UseRole
};

struct alignas(64) Record {
  union {
    Slice slice;
    BlockEvent block;
    MemoryChange change;
    OwnerStatement owner;
    SampledInputs sampled;
    TensorUse use;
  };
  uint64_t start_ticks;  // of Clock; of an event, when it happened
  uint32_t thread;       // the recording's number of it
  Kind kind;
  uint8_t flags;  // of a slice
};
static_assert(sizeof(Record) == 64, "one cache line; the documentation says so");

}  // namespace stepscope
