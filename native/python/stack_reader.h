// Reads the Python frames of another thread, without the GIL and while it runs.
//
// Nearly all that a stack needs is fetched in one call: the thread's structure, its GIL, the
// innermost frame's address, and the piece of memory in which the frames lie one behind the other.
// Where these are is taken from the last time, and checked with what was read; when it has changed,
// they are read again. Frames of generators lie elsewhere, as do the interpreter's own between a
// C function and the Python function it calls: those of the last time are fetched along.
//
// The innermost frame's address is read before the frames: what it points to was a frame then.
// Frames that come and go in between are met with values that do not fit; then nothing is returned.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <vector>

#include "python/code_copies.h"
#include "python/sampler_layout.h"
#include "sampler/memory_reader.h"

namespace stepscope {

struct FrameAt {
  uint32_t code = 0;
  int32_t instruction = 0;
  bool operator==(const FrameAt&) const = default;
};

// A thread as the interpreter lists it, and what was found the last time.
struct ThreadPlaces {
  Address thread = 0;
  Address interpreter = 0;
  Address gil = 0;
  uint64_t id = 0;
  pid_t native_id = 0;

  Address behind = 0;  // what points to the innermost frame
  Address chunk = 0;
  size_t chunk_used = 0;
  std::vector<Address> elsewhere;  // frames that are not in the chunk
};

struct ReadStack {
  std::vector<FrameAt> frames;  // the innermost first
  bool is_cut = false;          // there are more than are kept
  bool at_call = false;  // the innermost stands at a call, of a function that is not Python's
  bool holds_gil = false;
};

class StackReader {
 public:
  enum class Outcome : uint8_t { kRead, kTorn, kGone };

  StackReader(const MemoryReader& memory, CodeCopies& codes) : memory_(memory), codes_(codes) {}

  // kGone: the thread is no longer one of Python's.
  Outcome read(ThreadPlaces& places, ReadStack& stack);

  static constexpr size_t kMostFrames = 1024;

 private:
  struct Region {
    Address begin = 0;
    size_t size = 0;
    size_t at = 0;  // in buffer_
  };

  // What came with the first call.
  struct Head {
    Address holder = 0;
    int taken = 0;
    Address frame = 0;        // the innermost
    Address frame_later = 0;  // and after the frames were read
  };

  enum class Fetched : uint8_t { kAll, kAgain, kNothing, kGone };
  Fetched fetch(ThreadPlaces& places, Head& head);
  bool walk(const ThreadPlaces& places, const Head& head, ReadStack& stack);
  const char* frame_at(Address frame);
  bool add_region(Address begin, size_t size);
  bool add_outer_chunk(Address frame);

  const MemoryReader& memory_;
  CodeCopies& codes_;
  std::vector<char> buffer_;
  size_t buffer_used_ = 0;
  std::vector<iovec> pieces_;
  std::vector<Region> regions_;
  Address outer_chunk_ = 0;      // the next further out, not read yet
  std::vector<Address> single_;  // frames that were fetched one by one
};

}  // namespace stepscope
