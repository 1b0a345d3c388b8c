// The Python stack of the calling thread as a small number, found without the GIL: for threads that
// may hold a lock of a framework or a driver.
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <sys/types.h>

#include <optional>
#include <vector>

#include "python/code_copies.h"
#include "python/stack_journal.h"
#include "python/stack_reader.h"
#include "python/stack_rows.h"
#include "sampler/stack_nodes.h"

namespace stepscope {

// One thread at a time: its owner has a lock.
class OwnStacks {
 public:
  // Needs the GIL, as its end does.
  OwnStacks() : memory_(MemoryReader::Way::kDirect), codes_(memory_), reader_(memory_, codes_) {}

  static bool works() { return kLayout.is_known; }

  // The number of the calling thread's stack; 0 if Python does not know the thread.
  uint32_t current() {
    const PyThreadState* const mine = PyGILState_GetThisThreadState();
    thread_ = reinterpret_cast<Address>(mine);
    if (!mine) return 0;
    if (StackReader::read_own(thread_, frames_)) {
      if (const auto number = number_of(frames_)) return *number;
    }
    return read_deep(*mine) ? number_of(stack_.frames) : 0;
  }

  // Whether the calling thread was the last to ask for its stack, and is still in the same call.
  bool stays() const {
    const PyThreadState* const mine = PyGILState_GetThisThreadState();
    if (!mine || reinterpret_cast<Address>(mine) != thread_ || frames_.empty()) return false;
    return StackReader::innermost(thread_) == frames_.front();
  }

  // Add all stacks to a table; returns the row of each number.
  std::vector<uint32_t> rows(StackRows& rows) const {
    return add_rows(rows, nodes_.nodes(),
                    [&](uint32_t code) -> const SampledCode& { return codes_[code]; });
  }

  // Writes the stacks that are new to the stream.
  void write() { journal_.write(codes_, nodes_); }
  uint32_t owner() const { return journal_.owner(); }
  // To be called in a forked child, whose stream has none of the stacks.
  void forget_after_fork() { journal_ = StackJournal(StackJournal::new_owner()); }

 private:
  struct Known {
    Address code = 0;
    Address instruction = 0;
    uint32_t node = 0;

    bool is(const StackReader::Frame& frame) const {
      return code == frame.code && instruction == frame.instruction;
    }
  };

  // Reads the inner and the outer end of a stack with very many frames.
  bool read_deep(const PyThreadState& mine) {
    ThreadPlaces places;  // found anew each time: what the thread used before may be gone
    places.thread = reinterpret_cast<Address>(&mine);
    places.interpreter = reinterpret_cast<Address>(mine.interp);
    places.id = mine.id;
    places.native_id = static_cast<pid_t>(mine.native_thread_id);
    return reader_.read(places, stack_) == StackReader::Outcome::kRead;
  }

  // From one call to the next, most of a stack stays: only what is new at the inner end is looked
  // up. Returns nothing if a frame is at no instruction of its code.
  std::optional<uint32_t> number_of(const std::vector<StackReader::Frame>& frames) {
    const uint32_t destroyed = CodeCopies::destroyed();
    if (destroyed != destroyed_) last_.clear();  // an address may be another function's
    destroyed_ = destroyed;
    const size_t count = frames.size();
    size_t same = 0;
    while (same < last_.size() && same < count && last_[same].is(frames[count - 1 - same])) ++same;
    last_.resize(same);
    uint32_t node = same ? last_.back().node : 0;
    for (size_t i = count - same; i-- > 0;) {
      const StackReader::Frame& frame = frames[i];
      stack_.frames.clear();
      const StackReader::Added added = reader_.add(frame, stack_.frames);
      if (added == StackReader::Added::kTorn) return std::nullopt;
      if (added == StackReader::Added::kShown) node = child(node, stack_.frames.front());
      last_.push_back({frame.code, frame.instruction, node});
    }
    return node;
  }

  uint32_t number_of(const std::vector<FrameAt>& frames) {
    uint32_t node = 0;
    for (size_t i = frames.size(); i-- > 0;) node = child(node, frames[i]);
    return node;
  }

  uint32_t child(uint32_t node, const FrameAt& frame) {
    return nodes_.child(node, frame.code, frame.instruction);
  }

  MemoryReader memory_;
  CodeCopies codes_;
  StackReader reader_;
  StackNodes nodes_;
  StackJournal journal_{StackJournal::new_owner()};
  ReadStack stack_;
  Address thread_ = 0;  // that asked last
  std::vector<StackReader::Frame> frames_;
  std::vector<Known> last_;  // the stack of the last call, the outermost first
  uint32_t destroyed_ = 0;   // code objects, when it was read
};

}  // namespace stepscope
