// What a process leaves in the files of its stream, as another process reads it after its death.
//
// Two kinds of files. Those in memory (a tmpfs) are made of regions, and those of blocks; both say
// at which address they were mapped, so that a pointer in one can be followed. Those on disk are
// made of frames, each with a checksum: a file that was cut anywhere gives back all whole frames.
#pragma once

#include <cstddef>
#include <cstdint>

namespace stepscope {

inline constexpr uint32_t kRegionMagic = 0x52505353;  // "SSPR"
inline constexpr uint32_t kBlockMagic = 0x42505353;   // "SSPB"
inline constexpr uint32_t kFrameMagic = 0x46505353;   // "SSPF"
// Files of another version are not read: what they hold is laid out as the recorder has it.
inline constexpr uint32_t kLastingVersion = 3;

struct RegionHeader {
  uint32_t magic;
  uint32_t version;
  uint64_t bytes;  // with this
  uint64_t address;
  uint64_t unused[5];
};
static_assert(sizeof(RegionHeader) == 64);

enum class BlockKind : uint32_t { kFree = 0, kLane, kSlices, kChunk, kJournal, kPulse };

// In front of each block; the next one begins where it ends.
struct BlockHeader {
  uint32_t magic;
  BlockKind kind;
  uint64_t bytes;    // with this
  uint64_t address;  // of what follows
  // A number that no other block of the file has had: one whose number has changed is another.
  uint64_t serial;
  // Of a chunk, whose cursor tells how full it is.
  uint64_t cursor;
  uint32_t generation;
  uint32_t capacity;
  uint32_t size;  // of a chunk: kStillFilled, or its records; of a journal: the bytes in it
  uint32_t unused;
  uint64_t unused_too;

  template <typename T>
  T* payload() {
    return reinterpret_cast<T*>(this + 1);
  }
};
static_assert(sizeof(BlockHeader) == 64);

inline constexpr uint32_t kStillFilled = UINT32_MAX;

// Written now and then by the stream's own thread.
struct Pulse {
  uint64_t ticks;
  int64_t now_ns;
  uint64_t lost;               // records that found no room, or had to make room
  uint64_t whole_since_ticks;  // of what began from then on, no record had to make room
};

// Each frame on disk: this, then the bytes.
struct FrameHeader {
  uint32_t magic;
  uint32_t kind;
  uint64_t bytes;
  uint64_t checksum;  // of the bytes
};

enum class FrameKind : uint32_t { kJournal = 1, kRecords = 2, kOpenSlices = 3, kPulse = 4 };

// What the bytes of kRecords begin with.
struct RecordsHeader {
  uint64_t serial;  // of the chunk
  uint32_t generation;
  uint32_t first;  // the place of the first one in the chunk
  uint32_t count;
  uint32_t unused;
};

// The journal: entries of 8 bytes and what follows them, up to a multiple of 8.
struct EntryHeader {
  uint32_t kind;
  uint32_t bytes;  // of what follows, without the rest of the last 8
};

enum class Entry : uint32_t {
  kText = 1,            // TextEntry; the text
  kThread = 2,          // ThreadEntry; its name
  kLogicalId = 3,       // LogicalIdEntry
  kSyncPoint = 4,       // SyncPoint
  kWindow = 5,          // WindowEntry
  kStack = 6,           // StackEntry; the file's name, what the frame is called
  kCode = 7,            // CodeEntry; file, function, line table, operations
  kNodes = 8,           // NodesEntry; NodeEntry, any number of them
  kSamples = 9,         // i64 when they were written; PlacedSample, any number of them
  kSampled = 10,        // SampledThreadEntry; its name
  kResident = 11,       // ResidentMemory, any number of them
  kDeviceName = 12,     // u32 number, u32 0; the name
  kDeviceShapes = 13,   // u32 number of the first, u32 0; LaunchShape, any number of them
  kDeviceRecords = 14,  // DeviceRecord, any number of them
  kDeviceCall = 15,     // u32 kind, u32 number; the name
  kPause = 16,          // of Python's garbage collector
  kMeta = 17,           // MetaEntry; a name, JSON
  kClosed = 18,         // the stream was closed in order
  kHeldBlock = 19,      // HeldBlockEntry
  kReleased = 20,       // ReleasedEntry
  kGraphNodes = 21,     // GraphNodeEntry, any number of them
  kGraphCopies = 22,    // GraphCopyEntry, any number of them
  kGraphOperator = 23,  // u32 number, u32 0; its name
  kPower = 24,          // PowerReading
  kCounters = 25,       // CounterReading
  kCounterDevice = 26,  // CounterDeviceEntry; chip, obstacle, bounds, metrics with zeros between
};

// Whose numbers a text has.
enum class TextSpace : uint32_t { kLabels = 0, kInputs = 1, kTypes = 2 };

// What entries begin with; texts follow.
struct TextEntry {
  uint32_t generation, space, id, unused;
};
struct ThreadEntry {
  uint32_t generation, number;
  int64_t os_id;
};
struct LogicalIdEntry {
  uint32_t generation, number, logical_id, unused;
};
struct WindowEntry {
  uint32_t generation;
  uint32_t keep;  // a Keep
  uint64_t window, start_ticks, limit_bytes, age_ticks;
};
struct StackEntry {
  uint32_t number, parent, file_bytes, unused;
};
// Codes and nodes have numbers by whose stacks they are of: 0 is the sampler.
struct CodeEntry {
  uint32_t owner, number;
  int32_t first_line;
  uint32_t file_bytes, function_bytes, lines_bytes, operations_bytes, unused;
};
struct NodesEntry {
  uint32_t owner, unused;
};
struct NodeEntry {
  uint32_t number, parent, code;
  int32_t instruction;
};
struct SampledThreadEntry {
  uint32_t number, unused;
  int64_t os_id;
};
struct HeldBlockEntry {
  uint64_t address;
  int64_t time_ns, bytes, thread;
  uint32_t owner, stack, device, unused;
};
struct ReleasedEntry {
  uint64_t address;  // 0: what is held then is held at the end
  int64_t time_ns;
};
struct GraphNodeEntry {
  uint64_t ticks;
  int64_t thread;
  uint32_t number, owner, stack, operator_name;
};
struct GraphCopyEntry {
  uint64_t id;
  uint32_t number, unused;  // of the node
};
struct CounterDeviceEntry {
  uint32_t number, overflowed, chip_bytes, obstacle_bytes, bounds, unused;
};
struct MetaEntry {
  uint32_t name_bytes, unused;
};

inline constexpr size_t padded(size_t bytes) { return (bytes + 7) & ~size_t{7}; }

}  // namespace stepscope
