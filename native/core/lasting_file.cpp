#include "core/lasting_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "core/own_pages.h"

namespace stepscope {
namespace {

constexpr size_t kPage = 4096;
constexpr size_t kLargestRegion = size_t{16} << 20;
// By a thread that records and cannot wait for one made ready.
constexpr size_t kRegionInPassing = size_t{1} << 20;
// Others use the same tmpfs, workers of a DataLoader above all, and fail where it is full.
constexpr uint64_t kShareOfWhole = 4;
constexpr uint64_t kShareOfFree = 2;

size_t whole_pages(size_t bytes) { return (bytes + kPage - 1) & ~(kPage - 1); }
size_t whole_lines(size_t bytes) { return (bytes + 63) & ~size_t{63}; }

}  // namespace

bool LastingFile::open(const std::string& path, size_t first_region_bytes, uint64_t most_bytes,
                       InChild in_child) {
  file_.take(::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!is_open()) return false;
  regions_.clear();
  ahead_is_ = Ahead::kNone;
  is_filling_ = false;
  bytes_ = 0;
  in_child_ = in_child;
  most_bytes_ = most_bytes;
  next_region_bytes_ = first_region_bytes;
  if (grow(0)) return true;
  close();
  unlink(path.c_str());
  return false;
}

uint64_t LastingFile::room_left() const {
  struct statvfs all;
  if (fstatvfs(file_.number(), &all) != 0) return 0;
  const uint64_t free = uint64_t{all.f_bavail} * all.f_frsize;
  const uint64_t whole = uint64_t{all.f_blocks} * all.f_frsize;
  const uint64_t most = std::min(most_bytes_, whole / kShareOfWhole);
  return bytes_ < most ? std::min(free / kShareOfFree, most - bytes_) : 0;
}

bool LastingFile::is_short_of(size_t bytes) const {
  if (!is_open()) return true;
  const size_t ready = ahead_is_ == Ahead::kReady ? ahead_.bytes : 0;
  const size_t here = free_bytes_ + ready + (regions_.back().bytes - used_);
  return here < bytes && here + room_left() < bytes;
}

// A region of the file, with its header, and without the rest of its pages: they are reserved
// before they are used, as touching one that the tmpfs has not would end the program. Empty when it
// cannot be had.
LastingFile::Region LastingFile::new_region(size_t bytes) {
  const uint64_t offset = bytes_;
  const int file = file_.number();
  if (file < 0 || fallocate(file, 0, static_cast<off_t>(offset), kPage) != 0) return {};
  if (ftruncate(file, static_cast<off_t>(offset + bytes)) != 0) return {};
  void* const at =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, static_cast<off_t>(offset));
  if (at == MAP_FAILED) return {};
  if (in_child_ == InChild::kNothing) madvise(at, bytes, MADV_DONTFORK);
  madvise(at, bytes, MADV_DONTDUMP);
  bytes_ += bytes;
  auto* const header = static_cast<RegionHeader*>(at);
  header->version = kLastingVersion;
  header->bytes = bytes;
  header->address = reinterpret_cast<uint64_t>(at);
  header->magic = kRegionMagic;
  return {static_cast<std::byte*>(at), bytes, offset};
}

bool LastingFile::reserve(const Region& region) const {
  const int file = file_.number();
  return file >= 0 && fallocate(file, 0, static_cast<off_t>(region.offset),
                                static_cast<off_t>(region.bytes)) == 0;
}

void LastingFile::use(const Region& region) {
  regions_.push_back(region);
  used_ = sizeof(RegionHeader);
  next_region_bytes_ = std::min(2 * next_region_bytes_, kLargestRegion);
}

bool LastingFile::grow(size_t at_least) {
  const size_t least = whole_pages(at_least + sizeof(RegionHeader));
  if (ahead_is_ == Ahead::kReady && ahead_.bytes >= least) {
    use(ahead_);
    ahead_is_ = Ahead::kNone;
    return true;
  }
  const uint64_t room = room_left();
  size_t bytes = std::max(std::min(whole_pages(next_region_bytes_), kRegionInPassing), least);
  if (bytes > room) bytes = least;
  if (bytes > room) return false;
  const Region region = new_region(bytes);
  if (!region.begin || !reserve(region)) return false;
  use(region);
  return true;
}

bool LastingFile::wants_ahead() const {
  if (!is_open() || is_filling_ || ahead_is_ == Ahead::kReady) return false;
  const size_t bytes_free = regions_.back().bytes - used_ + free_bytes_;
  return bytes_free < next_region_bytes_ / 2 || regions_.back().bytes == kLargestRegion;
}

bool LastingFile::begin_ahead() {
  if (!wants_ahead()) return false;
  if (ahead_is_ == Ahead::kNone) {
    const size_t bytes = whole_pages(next_region_bytes_);
    if (bytes > room_left()) return false;
    ahead_ = new_region(bytes);
    if (!ahead_.begin) return false;
    ahead_is_ = Ahead::kBegun;
  }
  is_filling_ = true;
  return true;
}

bool LastingFile::fill_ahead() const {
  if (!reserve(ahead_)) return false;
  if (madvise(ahead_.begin, ahead_.bytes, kPopulateWrite) == 0) return true;
  for (size_t at = kPage; at < ahead_.bytes; at += kPage) {  // as nobody else uses it yet
    *reinterpret_cast<volatile char*>(ahead_.begin + at) = 0;
  }
  return true;
}

void LastingFile::end_ahead(bool is_filled) {
  is_filling_ = false;
  if (is_filled) ahead_is_ = Ahead::kReady;
}

BlockHeader* LastingFile::take(BlockKind kind, size_t bytes) {
  if (!is_open()) return nullptr;
  const size_t wanted = whole_lines(sizeof(BlockHeader) + bytes);
  BlockHeader* block = nullptr;
  if (const auto entry = free_.find(wanted); entry != free_.end()) {
    block = entry->second;
    free_.erase(entry);
    free_bytes_ -= wanted;
  } else {
    if (regions_.back().bytes - used_ < wanted && !grow(wanted)) return nullptr;
    block = reinterpret_cast<BlockHeader*>(regions_.back().begin + used_);
    used_ += wanted;
    block->bytes = wanted;
    block->address = reinterpret_cast<uint64_t>(block + 1);
  }
  block->serial = block->cursor = 0;
  block->generation = block->capacity = block->size = 0;
  block->kind = kind;
  __atomic_store_n(&block->magic, kBlockMagic, __ATOMIC_RELEASE);
  return block;
}

bool LastingFile::has(const BlockHeader* block) const {
  const auto* const at = reinterpret_cast<const std::byte*>(block);
  return std::any_of(regions_.begin(), regions_.end(), [&](const Region& region) {
    return at >= region.begin && at < region.begin + region.bytes;
  });
}

void LastingFile::give_back(BlockHeader* block) {
  if (!has(block)) return;
  block->kind = BlockKind::kFree;
  if (!is_open()) return;
  free_.emplace(block->bytes, block);
  free_bytes_ += block->bytes;
}

void LastingFile::close() {
  file_.close();
  free_.clear();
  free_bytes_ = 0;
}

// The child gets copies at the same addresses, for Python objects that still end slices there.
void LastingFile::leave_after_fork() {
  if (in_child_ == InChild::kCopy) {
    for (const Region& region : regions_) {
      void* const copy =
          mmap(nullptr, region.bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      if (copy == MAP_FAILED) continue;
      std::memcpy(copy, region.begin, region.bytes);
      mremap(copy, region.bytes, region.bytes, MREMAP_MAYMOVE | MREMAP_FIXED, region.begin);
    }
  }
  regions_.clear();
  close();
}

}  // namespace stepscope
