#include "python/stack_reader.h"

#include <algorithm>

namespace stepscope {
namespace {

constexpr int kRounds = 4;
constexpr size_t kChunkHead = 2 * sizeof(Address);  // the chunk before, and its size
constexpr size_t kMostChunkBytes = size_t{1} << 20;
constexpr size_t kSpareBytes = 1024;  // the stack may have grown
constexpr size_t kMostElsewhere = 48;

// No more than there is: what lies behind a chunk may be nothing.
size_t chunk_bytes_to_read(Address chunk, Address top, Address limit) {
  if (top < chunk || limit < top || limit - chunk > kMostChunkBytes) return kChunkHead;
  return std::min(limit - chunk, top - chunk + kSpareBytes);
}

}  // namespace

StackReader::Outcome StackReader::read(ThreadPlaces& places, ReadStack& stack) {
  for (int round = 0; round < kRounds; ++round) {
    Head head;
    switch (fetch(places, head)) {
      case Fetched::kGone:
        return Outcome::kGone;
      case Fetched::kNothing:
      case Fetched::kAgain:
        continue;
      case Fetched::kAll:
        break;
    }
    if (walk(places, head, stack)) {
      places.elsewhere = single_;
      return Outcome::kRead;
    }
  }
  return Outcome::kTorn;
}

StackReader::Fetched StackReader::fetch(ThreadPlaces& places, Head& head) {
  const Address behind = kLayout.frame_is_behind ? places.behind + kLayout.frame_behind
                                                 : places.thread + kLayout.thread_frame;
  const size_t holder_bytes = kLayout.gil_taken + sizeof(int) - kLayout.gil_holder;
  const bool has_gil = places.gil != 0;
  const bool has_behind = !kLayout.frame_is_behind || places.behind != 0;
  const bool has_chunk = has_behind && places.chunk != 0;

  pieces_.clear();
  regions_.clear();
  size_t size = 0;
  const auto want = [&](Address begin, size_t bytes) {
    pieces_.push_back(piece(begin, bytes));
    size += bytes;
    return size - bytes;
  };
  const size_t at_thread = want(places.thread, kLayout.thread_size);
  const size_t at_gil = has_gil ? want(places.gil + kLayout.gil_holder, holder_bytes) : 0;
  const size_t at_frame = has_behind ? want(behind, sizeof(Address)) : 0;
  const size_t needed = size;
  if (has_chunk) regions_.push_back({places.chunk, places.chunk_used, size});
  if (has_chunk) want(places.chunk, places.chunk_used);
  const size_t at_later = has_chunk ? want(behind, sizeof(Address)) : 0;
  const size_t needed_with_chunk = size;
  single_.clear();
  if (has_chunk) {
    for (const Address frame : places.elsewhere) {
      regions_.push_back({frame, kLayout.frame_size, size});
      want(frame, kLayout.frame_size);
    }
  }
  if (buffer_.size() < size) buffer_.resize(2 * size);
  const size_t copied = memory_.read(pieces_, buffer_.data());
  buffer_used_ = size;
  if (copied < kLayout.thread_size) return Fetched::kGone;

  const char* const thread = buffer_.data() + at_thread;
  if (field<uint64_t>(thread, kLayout.thread_id) != places.id ||
      field<Address>(thread, kLayout.thread_interpreter) != places.interpreter ||
      field<unsigned long>(thread, kLayout.thread_native_id) !=
          static_cast<unsigned long>(places.native_id)) {
    return Fetched::kGone;
  }
  const auto chunk = field<Address>(thread, kLayout.thread_chunk);
  const auto top = field<Address>(thread, kLayout.thread_top);
  const auto pointer = field<Address>(thread, kLayout.thread_frame);
  const auto limit = field<Address>(thread, kLayout.thread_limit);
  const size_t used = chunk_bytes_to_read(chunk, top, limit);
  const bool same_behind = !kLayout.frame_is_behind || pointer == places.behind;
  const bool is_enough = chunk == places.chunk && used <= places.chunk_used + kSpareBytes / 2 &&
                         top - chunk <= places.chunk_used;
  if (kLayout.frame_is_behind) places.behind = pointer;
  places.chunk = chunk;
  places.chunk_used = used;
  if (!same_behind) return Fetched::kAgain;
  if (copied < needed) return Fetched::kNothing;
  if (has_gil) {
    const char* const gil = buffer_.data() + at_gil - kLayout.gil_holder;
    head.holder = field<Address>(gil, kLayout.gil_holder);
    head.taken = field<int>(gil, kLayout.gil_taken);
  }
  head.frame = field<Address>(buffer_.data(), at_frame);
  if (chunk == 0) {  // no function of Python's has run here yet
    regions_.clear();
    outer_chunk_ = 0;
    head.frame_later = head.frame;
    return Fetched::kAll;
  }
  if (!has_chunk || !is_enough) return Fetched::kAgain;
  if (copied < needed_with_chunk) return Fetched::kNothing;
  head.frame_later = field<Address>(buffer_.data(), at_later);
  outer_chunk_ = field<Address>(buffer_.data(), regions_[0].at);
  // Of those that lie elsewhere, some may be gone.
  std::erase_if(regions_, [&](const Region& each) { return each.at + each.size > copied; });
  return Fetched::kAll;
}

bool StackReader::add_region(Address begin, size_t size) {
  if (buffer_.size() < buffer_used_ + size) buffer_.resize(2 * (buffer_used_ + size));
  if (!memory_.read(begin, buffer_.data() + buffer_used_, size)) return false;
  regions_.push_back({begin, size, buffer_used_});
  buffer_used_ += size;
  return true;
}

// A deep stack takes several chunks, each of which begins with the address of the one before.
bool StackReader::add_outer_chunk(Address frame) {
  const Address chunk = outer_chunk_;
  if (!chunk || frame < chunk || frame - chunk > kMostChunkBytes) return false;
  Address head[2];
  if (!memory_.read(chunk, head, sizeof head)) return false;
  const size_t size = head[1];
  if (size > kMostChunkBytes || frame + kLayout.frame_size > chunk + size) return false;
  if (!add_region(chunk, size)) return false;
  outer_chunk_ = head[0];
  return true;
}

const char* StackReader::frame_at(Address frame) {
  // The last one first: a stack is walked outwards, through one piece after the other.
  for (size_t i = regions_.size(); i-- > 0;) {
    const Region& each = regions_[i];
    if (frame < each.begin || frame + kLayout.frame_size > each.begin + each.size) continue;
    if (each.size == kLayout.frame_size && single_.size() < kMostElsewhere)
      single_.push_back(frame);
    return buffer_.data() + each.at + (frame - each.begin);
  }
  if (add_outer_chunk(frame))
    return buffer_.data() + regions_.back().at + (frame - regions_.back().begin);
  if (!add_region(frame, kLayout.frame_size)) return nullptr;
  if (single_.size() < kMostElsewhere) single_.push_back(frame);
  return buffer_.data() + regions_.back().at;
}

bool StackReader::walk(const ThreadPlaces& places, const Head& head, ReadStack& stack) {
  stack.frames.clear();
  stack.is_cut = false;
  stack.at_call = false;
  stack.holds_gil = !places.gil || (head.taken == 1 && head.holder == places.thread);
  size_t steps = 0;
  for (Address frame = head.frame; frame; ++steps) {
    if (stack.frames.size() == kMostFrames || steps > 4 * kMostFrames) {
      stack.is_cut = true;
      break;
    }
    const char* const data = frame_at(frame);
    if (!data) return false;
    const auto owner = field<int8_t>(data, kLayout.frame_owner);
    const auto previous = field<Address>(data, kLayout.frame_previous);
    const Address code = field<Address>(data, kLayout.frame_code) & ~kReferenceTags;
    const auto instruction = field<Address>(data, kLayout.frame_instruction);
    if (owner < 0) return false;
    if (owner < kLayout.first_own) {
      const auto number = codes_.number_of(code);
      if (!number) return false;
      const CodeCopy& copy = codes_[*number];
      const auto at = static_cast<int64_t>(instruction - (code + kLayout.code_size));
      if (at < -2 || at >= copy.bytes || at % 2) return false;
      const bool has_begun = owner == kLayout.owner_generator || at >= copy.first_traceable;
      if (has_begun && !copy.file.empty()) {
        if (stack.frames.empty()) {
          stack.at_call = copy.calls_at(static_cast<int>(at)) && frame == head.frame_later &&
                          frame == head.frame;
        }
        stack.frames.push_back({*number, static_cast<int32_t>(at)});
      }
    }
    if (previous == frame) return false;
    frame = previous;
  }
  return true;
}

}  // namespace stepscope
