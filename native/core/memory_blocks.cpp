#include "core/memory_blocks.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "core/clock.h"

namespace stepscope {

size_t MemoryBlocks::place_of(uintptr_t address) const {
  const int bits = std::countr_zero(blocks_.size());
  return static_cast<size_t>((address * 0x9E3779B97F4A7C15ULL) >> (64 - bits));
}

// Where the block is, or where it would be put.
size_t MemoryBlocks::find(uintptr_t address) const {
  size_t place = place_of(address);
  while (blocks_[place].address && blocks_[place].address != address) {
    place = (place + 1) % blocks_.size();
  }
  return place;
}

void MemoryBlocks::grow() {
  constexpr size_t kFirstPlaces = 1024;
  const std::vector<Block> old = std::exchange(
      blocks_, std::vector<Block>(blocks_.empty() ? kFirstPlaces : 2 * blocks_.size()));
  for (const Block& block : old) {
    if (block.address) blocks_[find(block.address)] = block;
  }
}

int64_t& MemoryBlocks::in_use(Device device) {
  for (auto& [word, bytes] : in_use_) {
    if (word == device.word()) return bytes;
  }
  return in_use_.emplace_back(device.word(), 0).second;
}

// An address that is known already was released unseen: the new block takes its place.
MemoryBlocks::Change MemoryBlocks::add(uintptr_t address, int64_t bytes, Device device) {
  if (2 * (used_ + 1) > blocks_.size()) grow();
  Block& block = blocks_[find(address)];
  if (block.address) {
    in_use(block.device) -= block.bytes;
  } else {
    ++used_;
  }
  block = {address, bytes, device};
  return {bytes, in_use(device) += bytes, device};
}

MemoryBlocks::Change MemoryBlocks::remove(uintptr_t address) {
  if (blocks_.empty()) return {};
  size_t hole = find(address);
  if (!blocks_[hole].address) return {};
  const Block gone = blocks_[hole];
  // Those behind that could not have their own place move up into the hole.
  for (size_t next = (hole + 1) % blocks_.size(); blocks_[next].address;
       next = (next + 1) % blocks_.size()) {
    const size_t wanted = place_of(blocks_[next].address);
    const size_t reach = (next + blocks_.size() - wanted) % blocks_.size();
    const size_t distance = (next + blocks_.size() - hole) % blocks_.size();
    if (reach < distance) continue;
    blocks_[hole] = blocks_[next];
    hole = next;
  }
  blocks_[hole] = {};
  --used_;
  return {-gone.bytes, in_use(gone.device) -= gone.bytes, gone.device};
}

// If another thread allocated a block, its release may come first. It is kept, so that the older
// allocation is ignored when it comes.
void ForgottenBlocks::note(const Record& event) {
  note(event.block.address, {event.start_ticks, event.block.bytes, event.block.device});
}

void ForgottenBlocks::note(uintptr_t address, const LastEvent& event) {
  LastEvent& last = last_[address];
  if (event.ticks < last.ticks) return;
  last = event;
  if (last_.size() <= room_) return;
  drop_released();
  room_ = std::max(room_, 2 * last_.size());
}

void ForgottenBlocks::note_all(const ForgottenBlocks& others) {
  for (const auto& [address, last] : others.last_) note(address, last);
}

void ForgottenBlocks::drop_released() {
  std::erase_if(last_, [](const auto& entry) { return entry.second.bytes == 0; });
}

MemoryBlocks ForgottenBlocks::in_use() const {
  MemoryBlocks blocks;
  for (const auto& [address, last] : last_) {
    if (last.bytes) blocks.add(address, last.bytes, last.device);
  }
  return blocks;
}

BlocksLeft& BlocksLeft::instance() {
  static auto* const only = new BlocksLeft;  // threads may outlive static destructors
  return *only;
}

void BlocksLeft::take(const ForgottenBlocks& seen) {
  const std::lock_guard lock(mutex_);
  blocks_.note_all(seen);
  blocks_.drop_released();
  is_on_.store(!blocks_.empty());
}

void BlocksLeft::released(uintptr_t address) {
  if (!is_on()) return;
  Record event{};
  event.start_ticks = Clock::ticks();
  event.block = {address, 0, kCpuDevice};
  const std::lock_guard lock(mutex_);
  blocks_.note(event);
}

ForgottenBlocks BlocksLeft::copy() const {
  const std::lock_guard lock(mutex_);
  return blocks_;
}

}  // namespace stepscope
