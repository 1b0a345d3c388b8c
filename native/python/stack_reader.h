// Reads the Python frames of another thread, without the GIL and while it runs.
//
// Nearly all that a stack needs is fetched in one call: the thread's structure, the
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
  size_t chunk_size = 0;
  std::vector<Address> elsewhere;  // frames that are not in the chunk

  // Of a deep stack: the first chunk of all, found from the first that was not read.
  Address left_out_from = 0;
  Address first_chunk = 0;
};

struct ReadStack {
  std::vector<FrameAt> frames;  // the innermost first
  uint8_t operation = 0;        // at which the innermost stands
  GilView gil;
  bool holds_gil = false;
  bool moves = false;  // another frame was the innermost after the others were read
};

class StackReader {
 public:
  enum class Outcome : uint8_t { kRead, kTorn, kGone };

  // Of a deeper stack, so many inner frames are kept, and so many outer ones.
  static constexpr size_t kMostFrames = 1024;
  static constexpr size_t kMostOuterFrames = 96;

  StackReader(const MemoryReader& memory, CodeCopies& codes) : memory_(memory), codes_(codes) {}

  // kGone: the thread is no longer one of Python's.
  Outcome read(ThreadPlaces& places, ReadStack& stack);

  // As the interpreter has it.
  struct Frame {
    Address code = 0;
    Address previous = 0;
    Address instruction = 0;
    int owner = 0;
    bool operator==(const Frame&) const = default;
  };
  enum class Added : uint8_t { kShown, kHidden, kTorn };

  // The frames of the calling thread itself, the innermost first: they stay while it asks, and are
  // read where they are. False for a stack that is too deep for that.
  static bool read_own(Address thread, std::vector<Frame>& frames);

  // The innermost of them; one without code for a thread that runs no Python.
  static Frame innermost(Address thread);

  // Add what a frame is at, unless it is the interpreter's own or has not begun.
  Added add(const Frame& frame, std::vector<FrameAt>& frames);

 private:
  struct Region {
    Address begin = 0;
    size_t size = 0;
    size_t at = 0;  // in buffer_
  };

  // The innermost frame, and what it was after the frames were read.
  struct Head {
    Address frame = 0;
    Address frame_later = 0;
  };

  enum class Fetched : uint8_t { kAll, kTorn, kGone };
  enum class Changed : uint8_t { kNothing, kChunk, kPointer, kThread };

  Fetched fetch(ThreadPlaces& places, Head& head);
  Fetched fetch_frames(const ThreadPlaces& places, Head& head);
  void begin_pieces();
  size_t want(Address begin, size_t bytes);
  void want_chunk(const ThreadPlaces& places);
  void want_elsewhere(const ThreadPlaces& places);
  size_t copy();
  void keep_regions(size_t copied);
  bool walk(Address innermost, ReadStack& stack);
  const char* frame_at(Address frame);
  bool add_region(Address begin, size_t size);
  bool add_outer_chunk(Address frame);
  void add_outer_frames(ThreadPlaces& places, std::vector<FrameAt>& frames);
  Address find_first_chunk(ThreadPlaces& places);

  static Address innermost_address(Address thread);
  static Frame frame_in(const char* data);
  static Address frame_pointer(const ThreadPlaces& places);
  static Changed check(ThreadPlaces& places, const char* thread);

  const MemoryReader& memory_;
  CodeCopies& codes_;
  std::vector<char> buffer_;
  size_t buffer_used_ = 0;
  size_t wanted_ = 0;  // bytes of all pieces
  std::vector<iovec> pieces_;
  std::vector<Region> regions_;
  std::vector<Address> single_;  // frames that are not in a chunk
  Address outer_chunk_ = 0;      // the next further out, not read yet
  Address outermost_ = 0;        // the thread's outermost frame, where it is known
  bool is_cut_ = false;          // the last walk ended before the stack did
};

}  // namespace stepscope
