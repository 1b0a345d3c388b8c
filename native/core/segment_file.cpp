#include "core/segment_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "core/interner.h"

namespace stepscope {

uint64_t frame_checksum(std::string_view bytes) { return text_hash(bytes); }

bool SegmentFile::fail(int error) {
  obstacle_ = path_ + ": " + std::strerror(error);
  return false;
}

// A file that was removed would still accept writes, but could not be found again.
bool SegmentFile::is_there() {
  if (file_.was_opened()) {
    struct stat about;
    if (fstat(file_.number(), &about) == 0 && about.st_nlink > 0) return true;
    close();
  }
  const int file =
      open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (file < 0) return fail(errno);
  file_.take(file);
  end_ = lseek(file_.number(), 0, SEEK_END);
  return true;
}

bool SegmentFile::write(FrameKind kind, std::string_view first, std::string_view second) {
  if (!is_there()) return false;
  std::string joined;
  std::string_view bytes = first;
  if (!second.empty()) {
    joined.reserve(first.size() + second.size());
    joined.append(first).append(second);
    bytes = joined;
  }
  FrameHeader header{kFrameMagic, static_cast<uint32_t>(kind), bytes.size(), frame_checksum(bytes)};
  std::array<iovec, 2> parts{
      {{&header, sizeof(header)}, {const_cast<char*>(bytes.data()), bytes.size()}}};
  const size_t whole = sizeof(header) + bytes.size();
  size_t done = 0;
  while (done < whole) {
    std::array<iovec, 2> rest = parts;
    const size_t of_header = std::min(done, sizeof(header));
    rest[0].iov_base = static_cast<char*>(rest[0].iov_base) + of_header;
    rest[0].iov_len -= of_header;
    rest[1].iov_base = static_cast<char*>(rest[1].iov_base) + (done - of_header);
    rest[1].iov_len -= done - of_header;
    const ssize_t count = writev(file_.number(), rest.data(), 2);
    if (count > 0) {
      done += static_cast<size_t>(count);
      continue;
    }
    if (count < 0 && errno == EINTR) continue;
    const int error = count < 0 ? errno : ENOSPC;
    // What there is of it is taken back, so that the next one begins where this one did.
    if (ftruncate(file_.number(), end_) != 0) close();
    return fail(error);
  }
  end_ += static_cast<int64_t>(whole);
  obstacle_.clear();
  return true;
}

void SegmentFile::close() { file_.close(); }

}  // namespace stepscope
