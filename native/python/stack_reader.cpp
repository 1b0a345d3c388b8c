#include "python/stack_reader.h"

#include <algorithm>

#include "sampler/sampled_code.h"
#include "sampler/stack_nodes.h"

namespace stepscope {
namespace {

constexpr int kRounds = 8;
constexpr size_t kMostChunkBytes = size_t{1} << 20;
constexpr size_t kMostChunks = size_t{1} << 16;
constexpr size_t kFirstChunkBytes = 16384;  // of every thread
constexpr size_t kSpareBytes = 1024;        // the stack may have grown
constexpr size_t kInnerBytes = 2048;
constexpr size_t kMostElsewhere = 48;
constexpr size_t kEnoughFrames = 128;

// Of the calling thread's own memory.
const char* own_memory(Address address) { return reinterpret_cast<const char*>(address); }

}  // namespace

StackReader::Outcome StackReader::read(ThreadPlaces& places, ReadStack& stack) {
  for (int round = 0; round < kRounds; ++round) {
    stack.gil = view_of_gil(places.gil, memory_);
    Head head;
    const Fetched fetched = fetch(places, head);
    if (fetched == Fetched::kGone) return Outcome::kGone;
    if (fetched == Fetched::kTorn) continue;
    const bool has_frames = places.chunk_used > kLayout.chunk_begin;
    outermost_ = has_frames && !outer_chunk_ ? places.chunk + kLayout.chunk_begin : 0;
    // A stack that has become shorter meanwhile is read as it was afterwards.
    if (!walk(head.frame, stack) && !walk(head.frame_later, stack)) continue;
    places.elsewhere = single_;
    if (is_cut_) add_outer_frames(places, stack.frames);
    stack.holds_gil = !places.gil || (stack.gil.is_taken && stack.gil.holder == places.thread);
    stack.moves = head.frame != head.frame_later;
    return Outcome::kRead;
  }
  return Outcome::kTorn;
}

bool StackReader::read_own(Address thread, std::vector<Frame>& frames) {
  frames.clear();
  Address at = innermost_address(thread);
  while (at) {
    if (frames.size() == kMostFrames) return false;
    frames.push_back(frame_in(own_memory(at)));
    if (frames.back().previous == at) return false;
    at = frames.back().previous;
  }
  return true;
}

StackReader::Frame StackReader::innermost(Address thread) {
  const Address at = innermost_address(thread);
  return at ? frame_in(own_memory(at)) : Frame{};
}

Address StackReader::innermost_address(Address thread) {
  const auto at = field<Address>(own_memory(thread), kLayout.thread_frame);
  return kLayout.frame_is_behind && at ? field<Address>(own_memory(at), kLayout.frame_behind) : at;
}

// ---- fetching

size_t StackReader::want(Address begin, size_t bytes) {
  pieces_.push_back(piece(begin, bytes));
  wanted_ += bytes;
  return wanted_ - bytes;
}

// The inner end first: it is what changes most while it is read.
void StackReader::want_chunk(const ThreadPlaces& places) {
  const size_t used = std::min(places.chunk_used, places.chunk_size);
  const size_t end = std::min(places.chunk_size, used + kSpareBytes);
  const size_t inner = used > kInnerBytes ? used - kInnerBytes : 0;
  const size_t at = want(places.chunk + inner, end - inner);
  regions_.push_back({places.chunk + inner, end - inner, at});
  if (inner == 0) return;
  // A frame may lie across both.
  const size_t outer = std::min(end, inner + kLayout.frame_size);
  const size_t at_outer = want(places.chunk, outer);
  regions_.push_back({places.chunk, outer, at_outer});
}

size_t StackReader::copy() {
  if (buffer_.size() < wanted_) buffer_.resize(2 * wanted_);
  return memory_.read(pieces_, buffer_.data());
}

void StackReader::begin_pieces() {
  pieces_.clear();
  regions_.clear();
  wanted_ = 0;
}

StackReader::Fetched StackReader::fetch(ThreadPlaces& places, Head& head) {
  single_.clear();
  outer_chunk_ = 0;
  begin_pieces();
  want(places.thread, kLayout.thread_size);
  const bool has_behind = !kLayout.frame_is_behind || places.behind != 0;
  const size_t at_frame = has_behind ? want(frame_pointer(places), sizeof(Address)) : 0;
  const size_t with_frame = wanted_;
  const bool has_chunk = has_behind && places.chunk != 0;
  if (has_chunk) want_chunk(places);
  const size_t at_later = has_chunk ? want(frame_pointer(places), sizeof(Address)) : 0;
  const size_t with_chunk = wanted_;
  if (has_chunk) want_elsewhere(places);
  const size_t copied = copy();
  if (copied < kLayout.thread_size) return Fetched::kGone;
  const Changed changed = check(places, buffer_.data());
  if (changed == Changed::kThread) return Fetched::kGone;
  if (changed == Changed::kPointer || copied < with_frame) return fetch_frames(places, head);
  head.frame = field<Address>(buffer_.data(), at_frame);
  if (!places.chunk) {
    head.frame_later = head.frame;
    return Fetched::kAll;
  }
  if (changed == Changed::kChunk || copied < with_chunk) return fetch_frames(places, head);
  head.frame_later = field<Address>(buffer_.data(), at_later);
  keep_regions(copied);
  return Fetched::kAll;
}

// The same once more, where it is now.
StackReader::Fetched StackReader::fetch_frames(const ThreadPlaces& places, Head& head) {
  if (!frame_pointer(places)) return Fetched::kTorn;
  begin_pieces();
  const size_t at_frame = want(frame_pointer(places), sizeof(Address));
  if (places.chunk) want_chunk(places);
  const size_t at_later = want(frame_pointer(places), sizeof(Address));
  const size_t needed = wanted_;
  want_elsewhere(places);
  const size_t copied = copy();
  if (copied < needed) return Fetched::kTorn;
  head.frame = field<Address>(buffer_.data(), at_frame);
  head.frame_later = field<Address>(buffer_.data(), at_later);
  keep_regions(copied);
  return Fetched::kAll;
}

// Where the address of the innermost frame is.
Address StackReader::frame_pointer(const ThreadPlaces& places) {
  if (!kLayout.frame_is_behind) return places.thread + kLayout.thread_frame;
  return places.behind ? places.behind + kLayout.frame_behind : 0;
}

void StackReader::want_elsewhere(const ThreadPlaces& places) {
  for (const Address frame : places.elsewhere) {
    const size_t at = want(frame, kLayout.frame_size);
    regions_.push_back({frame, kLayout.frame_size, at});
  }
}

// Of the frames that lie elsewhere, some may be gone.
void StackReader::keep_regions(size_t copied) {
  std::erase_if(regions_, [&](const Region& region) { return region.at + region.size > copied; });
  buffer_used_ = wanted_;
  if (regions_.empty()) return;
  // A chunk begins with the address of the one before.
  const Region& chunk =
      regions_.size() > 1 && regions_[1].size > kLayout.frame_size ? regions_[1] : regions_[0];
  outer_chunk_ = field<Address>(buffer_.data(), chunk.at);
}

// What is no longer where it was the last time; places then says where it is.
StackReader::Changed StackReader::check(ThreadPlaces& places, const char* thread) {
  if (field<uint64_t>(thread, kLayout.thread_id) != places.id ||
      field<Address>(thread, kLayout.thread_interpreter) != places.interpreter ||
      field<unsigned long>(thread, kLayout.thread_native_id) !=
          static_cast<unsigned long>(places.native_id)) {
    return Changed::kThread;
  }
  const auto chunk = field<Address>(thread, kLayout.thread_chunk);
  const auto top = field<Address>(thread, kLayout.thread_top);
  const auto limit = field<Address>(thread, kLayout.thread_limit);
  const auto pointer = field<Address>(thread, kLayout.thread_frame);
  const size_t read = std::min(places.chunk_size, places.chunk_used + kSpareBytes);
  const bool same_chunk = chunk == places.chunk && (!chunk || top - chunk <= read);
  const bool same_pointer = !kLayout.frame_is_behind || pointer == places.behind;
  const bool fits = chunk && chunk <= top && top <= limit && limit - chunk <= kMostChunkBytes;
  if (kLayout.frame_is_behind) places.behind = pointer;
  places.chunk = fits ? chunk : 0;
  places.chunk_used = fits ? top - chunk : 0;
  places.chunk_size = fits ? limit - chunk : 0;
  if (!same_pointer) return Changed::kPointer;
  return same_chunk ? Changed::kNothing : Changed::kChunk;
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
  if (size > kMostChunkBytes || size < kLayout.frame_size) return false;
  if (frame - chunk > size - kLayout.frame_size) return false;
  if (!add_region(chunk, size)) return false;
  outer_chunk_ = head[0];
  return true;
}

// ---- walking

StackReader::Frame StackReader::frame_in(const char* data) {
  return {field<Address>(data, kLayout.frame_code) & ~kReferenceTags,
          field<Address>(data, kLayout.frame_previous),
          field<Address>(data, kLayout.frame_instruction),
          field<int8_t>(data, kLayout.frame_owner)};
}

const char* StackReader::frame_at(Address frame) {
  // The last piece first: a stack is walked outwards, through one after the other.
  for (size_t i = regions_.size(); i-- > 0;) {
    const Region& region = regions_[i];
    // A torn read gives any address: sums may overflow, differences of what is in order cannot.
    if (frame < region.begin || region.size < kLayout.frame_size) continue;
    if (frame - region.begin > region.size - kLayout.frame_size) continue;
    if (region.size == kLayout.frame_size && single_.size() < kMostElsewhere)
      single_.push_back(frame);
    return buffer_.data() + region.at + (frame - region.begin);
  }
  if (!add_outer_chunk(frame)) {
    if (!add_region(frame, kLayout.frame_size)) return nullptr;
    if (single_.size() < kMostElsewhere) single_.push_back(frame);
  }
  return buffer_.data() + regions_.back().at + (frame - regions_.back().begin);
}

// The interpreter's own frames, and those of functions that have not begun, are not shown.
StackReader::Added StackReader::add(const Frame& frame, std::vector<FrameAt>& frames) {
  if (frame.owner < 0) return Added::kTorn;
  if (frame.owner >= kLayout.first_own) return Added::kHidden;
  const auto number = codes_.number_of(frame.code);
  if (!number) return Added::kTorn;
  const CodeCopy& code = codes_[*number];
  const auto at = static_cast<int64_t>(frame.instruction - (frame.code + kLayout.code_size));
  if (at < -kUnitBytes || at >= code.bytes || at % kUnitBytes) return Added::kTorn;
  const bool has_begun = frame.owner == kLayout.owner_generator || at >= code.first_traceable;
  if (!has_begun || code.file.empty()) return Added::kHidden;
  frames.push_back({*number, static_cast<int32_t>(at)});
  return Added::kShown;
}

// False when the stack changed too much while it was read. Of a deep one, the outer part may be
// gone by the time it is read: then it is left out, like that of one which is too deep.
//
// Frames that do not lead to the outermost one were no stack: a generator that has yielded
// meanwhile has no callers, and the memory of the innermost frame may have been reused.
bool StackReader::walk(Address innermost, ReadStack& stack) {
  stack.frames.clear();
  stack.operation = 0;
  is_cut_ = false;
  size_t steps = 0;
  bool is_whole = !outermost_;
  for (Address at = innermost; at; ++steps) {
    is_cut_ = stack.frames.size() == kMostFrames || steps > 4 * kMostFrames;
    if (is_cut_) break;
    const char* const data = frame_at(at);
    const Frame frame = data ? frame_in(data) : Frame{};
    const Added added = data ? add(frame, stack.frames) : Added::kTorn;
    if (added == Added::kTorn || frame.previous == at) {
      is_cut_ = stack.frames.size() >= kEnoughFrames;
      return is_cut_;
    }
    if (at == outermost_) is_whole = true;
    if (at == innermost && added == Added::kShown) {
      const FrameAt& shown = stack.frames.back();
      stack.operation = codes_[shown.code].operation_at(shown.instruction);
    }
    at = frame.previous;
  }
  return is_whole || is_cut_;
}

// ---- the outer end of a deep stack

// A thread's first chunk stays where it is. It is found by going through all others, once.
Address StackReader::find_first_chunk(ThreadPlaces& places) {
  if (outer_chunk_ == places.left_out_from) return places.first_chunk;
  Address chunk = outer_chunk_;
  for (size_t steps = 0; steps < kMostChunks; ++steps) {
    Address before = 0;
    if (!memory_.read(chunk, &before)) return 0;
    if (!before) break;
    chunk = before;
  }
  places.left_out_from = outer_chunk_;
  places.first_chunk = chunk;
  return chunk;
}

// Frames are linked outwards only; but from the begin of a chunk on, each is as long as its code
// says.
void StackReader::add_outer_frames(ThreadPlaces& places, std::vector<FrameAt>& frames) {
  frames.push_back({StackNodes::kLeftOut, 0});
  const Address chunk = outer_chunk_ ? find_first_chunk(places) : 0;
  if (!chunk || !add_region(chunk, kFirstChunkBytes)) return;
  const Region region = regions_.back();
  std::vector<FrameAt> outer;
  Address at = chunk + kLayout.chunk_begin;
  while (outer.size() < kMostOuterFrames && at - chunk <= region.size - kLayout.frame_size) {
    const Frame frame = frame_in(buffer_.data() + region.at + (at - chunk));
    if (frame.owner >= kLayout.first_own || add(frame, outer) == Added::kTorn) break;
    const auto number = codes_.number_of(frame.code);
    const int bytes = number ? codes_[*number].frame_bytes : 0;
    if (bytes <= 0) break;
    at += static_cast<Address>(bytes);
  }
  frames.insert(frames.end(), outer.rbegin(), outer.rend());
}

}  // namespace stepscope
