// A file on disk of frames with a checksum, which only grows.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/lasting_format.h"
#include "core/own_file.h"

namespace stepscope {

uint64_t frame_checksum(std::string_view bytes);

class SegmentFile {
 public:
  ~SegmentFile() { close(); }

  void set_path(std::string path) { path_ = std::move(path); }
  // Whole or not at all; false when it cannot be, and it may be tried again.
  bool write(FrameKind kind, std::string_view first, std::string_view second = {});
  // Why the last one failed; "" when it did not.
  const std::string& obstacle() const { return obstacle_; }
  void close();

 private:
  bool is_there();
  bool fail(int error);

  std::string path_;
  std::string obstacle_;
  OwnFile file_;
  int64_t end_ = 0;
};

}  // namespace stepscope
