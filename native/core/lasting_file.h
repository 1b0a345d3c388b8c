// Memory that outlives the process: a file of a tmpfs that grows, mapped a region at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/lasting_format.h"
#include "core/own_file.h"

namespace stepscope {

class LastingFile {
 public:
  enum class InChild : uint8_t { kCopy, kNothing };  // what a forked child sees of it

  ~LastingFile() { close(); }

  // False when there can be no such file.
  bool open(const std::string& path, size_t first_region_bytes, uint64_t most_bytes,
            InChild in_child);
  bool is_open() const { return file_.was_opened(); }

  // A block for so many bytes, all 0 unless it was used before; null where there is no more room.
  BlockHeader* take(BlockKind kind, size_t bytes);
  // Whether it lies in this file: one of another, from before a fork or of an earlier stream, may
  // not be there any more.
  bool has(const BlockHeader* block) const;
  void give_back(BlockHeader* block);

  uint64_t bytes() const { return bytes_; }
  // Whether so many bytes can be had only if others are given back.
  bool is_short_of(size_t bytes) const;

  // The next region, made ready by a thread that has the time, so that those who take from it find
  // its pages there: to have the system find and clear a page costs more than to fill it. Others
  // are kept out of all of it but fill_ahead(), which takes long.
  bool wants_ahead() const;
  bool begin_ahead();
  bool fill_ahead() const;
  void end_ahead(bool is_filled);

  // Leave the memory as it is, and give no more of it out.
  void close();
  // In a forked child: what it inherited is its own from here on, or gone.
  void leave_after_fork();

 private:
  struct Region {
    std::byte* begin = nullptr;
    size_t bytes = 0;
    uint64_t offset = 0;  // in the file
  };
  enum class Ahead : uint8_t { kNone, kBegun, kReady };

  bool grow(size_t at_least);
  Region new_region(size_t bytes);
  bool reserve(const Region& region) const;
  void use(const Region& region);
  uint64_t room_left() const;

  OwnFile file_;
  InChild in_child_ = InChild::kNothing;
  uint64_t bytes_ = 0;
  uint64_t most_bytes_ = 0;
  size_t next_region_bytes_ = 0;
  std::vector<Region> regions_;
  Region ahead_;  // the one after the last, if any
  Ahead ahead_is_ = Ahead::kNone;
  bool is_filling_ = false;
  size_t used_ = 0;  // of the last region
  std::multimap<uint64_t, BlockHeader*> free_;
  size_t free_bytes_ = 0;
};

}  // namespace stepscope
