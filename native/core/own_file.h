// A file that we have opened. Programs may close all files (a daemon does), and its number may then
// be reused for a file of the program, which we must neither write to nor close.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <utility>

namespace stepscope {

class OwnFile {
 public:
  OwnFile() = default;
  OwnFile(const OwnFile&) = delete;
  OwnFile& operator=(const OwnFile&) = delete;

  // Take over what open() has returned. In a program without stdin that would be 0, and stdin could
  // be read.
  void take(int file) {
    if (file >= 0 && file <= STDERR_FILENO) {
      const int low = std::exchange(file, fcntl(file, F_DUPFD_CLOEXEC, STDERR_FILENO + 1));
      ::close(low);
    }
    struct stat about{};
    file_ = file >= 0 && fstat(file, &about) == 0 ? file : -1;
    device_ = about.st_dev;
    node_ = about.st_ino;
  }

  bool was_opened() const { return file_ >= 0; }

  // Its number, for use at once; -1 when it is ours no more.
  int number() const {
    struct stat now;
    const bool is_ours =
        file_ >= 0 && fstat(file_, &now) == 0 && now.st_dev == device_ && now.st_ino == node_;
    return is_ours ? file_ : -1;
  }

  void close() {
    const int file = number();
    if (file >= 0) ::close(file);
    file_ = -1;
  }

 private:
  int file_ = -1;
  dev_t device_{};
  ino_t node_{};
};

}  // namespace stepscope
