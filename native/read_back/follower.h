// Follows the stream of a running process: each read() adds the ranges that have ended and the
// notes that have changed since the last one. Its cost grows with what was recorded in between.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/lasting_format.h"
#include "core/recording.h"
#include "read_back/read_bytes.h"
#include "stepscope/record.h"

namespace stepscope {

class Follower {
 public:
  // Only ranges whose names begin with one of the prefixes are returned.
  Follower(std::string memory, std::string disk, std::vector<std::string> prefixes);
  Follower(const Follower&) = delete;
  Follower& operator=(const Follower&) = delete;

  // Reads what was added since the last call. Throws std::runtime_error for another version.
  void read();

  // Returns the ranges that were read since the last call.
  std::vector<RecentRange> take_ranges() { return std::exchange(ranges_, {}); }
  const std::map<std::string, std::string>& notes() const { return notes_; }
  bool is_ring() const { return is_ring_; }
  bool is_closed() const { return is_closed_; }

 private:
  struct Block {
    uint64_t offset = 0;  // of its header
    uint64_t serial = 0;
    uint64_t read = 0;        // bytes, of a journal
    bool is_settled = false;  // nothing will be added to it
  };

  struct Region {
    uint64_t blocks_end = 0;  // where its next block will begin
    uint64_t end = 0;
  };

  void find_blocks();
  // Returns the current header. A block that was reused is read from its start again.
  BlockHeader look_at(Block& block) const;
  void read_journals();
  void read_chunk(Block& block, const BlockHeader& header);
  void read_disk();
  void read_entries(std::string_view bytes);
  void add_records(uint32_t generation, std::string_view bytes);

  const std::string memory_;
  const std::string disk_;
  const std::vector<std::string> prefixes_;
  ReadFile chunks_;
  ReadFile segments_;
  std::vector<Region> regions_;
  std::vector<Block> blocks_;
  uint64_t disk_end_ = 0;
  std::string lanes_;                               // copied before the other blocks are read
  std::map<uint64_t, std::string_view> lane_at_;    // by their address in the process
  std::unordered_map<uint64_t, uint64_t> read_of_;  // records of each chunk, by serial
  std::map<std::pair<uint32_t, uint32_t>, std::string> names_;  // by generation and label
  std::vector<RecentRange> ranges_;
  std::map<std::string, std::string> notes_;
  bool is_ring_ = false;
  bool is_closed_ = false;
};

}  // namespace stepscope
