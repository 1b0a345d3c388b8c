#include "sampler/memory_reader.h"

#include <fcntl.h>
#include <limits.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace stepscope {

MemoryReader::MemoryReader(Way way) : way_(way) { open(); }

void MemoryReader::open() {
  close();
  pid_ = getpid();
  if (way_ == Way::kProcMemory) file_ = ::open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
}

void MemoryReader::close() {
  if (file_ >= 0) ::close(std::exchange(file_, -1));
}

bool MemoryReader::works(Way way) {
  if (way == Way::kNone) return false;
  const volatile uint64_t pattern = 0x5374657073636F70;
  uint64_t copy = 0;
  return MemoryReader(way).read(reinterpret_cast<Address>(&pattern), &copy) && copy == pattern;
}

MemoryReader::Way MemoryReader::best_way() {
  for (const Way way : {Way::kVmReadv, Way::kProcMemory}) {
    if (works(way)) return way;
  }
  return Way::kNone;
}

size_t MemoryReader::read(std::span<const iovec> pieces, void* into) const {
  char* place = static_cast<char*>(into);
  size_t copied = 0;
  if (way_ == Way::kVmReadv) {
    while (!pieces.empty()) {
      const auto some = pieces.first(std::min<size_t>(pieces.size(), IOV_MAX));
      size_t wanted = 0;
      for (const iovec& piece : some) wanted += piece.iov_len;
      const iovec all{place + copied, wanted};
      const ssize_t size = process_vm_readv(pid_, &all, 1, some.data(), some.size(), 0);
      if (size > 0) copied += static_cast<size_t>(size);
      if (size < 0 || static_cast<size_t>(size) < wanted) break;
      pieces = pieces.subspan(some.size());
    }
    return copied;
  }
  if (way_ == Way::kDirect) {
    for (const iovec& piece : pieces) {
      std::memcpy(place + copied, piece.iov_base, piece.iov_len);
      copied += piece.iov_len;
    }
    return copied;
  }
  for (const iovec& piece : pieces) {
    const auto at = static_cast<off_t>(reinterpret_cast<Address>(piece.iov_base));
    const ssize_t size = pread(file_, place + copied, piece.iov_len, at);
    if (size > 0) copied += static_cast<size_t>(size);
    if (size < 0 || static_cast<size_t>(size) < piece.iov_len) break;
  }
  return copied;
}

}  // namespace stepscope
