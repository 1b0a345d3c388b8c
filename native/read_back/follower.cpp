#include "read_back/follower.h"

#include <algorithm>
#include <stdexcept>

#include "core/recorder.h"

namespace stepscope {
namespace {

constexpr size_t kMostAtOnce = size_t{64} << 20;  // of a file that anybody may have changed

std::string some_bytes_at(const ReadFile& file, uint64_t offset, uint64_t size) {
  return file.bytes_at(offset, std::min<uint64_t>(size, kMostAtOnce));
}

}  // namespace

Follower::Follower(std::string memory, std::string disk, std::vector<std::string> prefixes)
    : memory_(std::move(memory)), disk_(std::move(disk)), prefixes_(std::move(prefixes)) {}

// Records that a cursor has passed are in its chunk, and their names in the journal: so the lanes
// are read first, and the chunks last.
void Follower::read() {
  segments_.open(disk_);
  if (segments_.is_open()) read_disk();
  chunks_.open(memory_ + "/chunks");
  if (!chunks_.is_open()) return;
  ReadFile lanes;
  lanes.open(memory_ + "/lanes");
  lanes_ = some_bytes_at(lanes, 0, lanes.size());
  lane_at_.clear();
  std::string_view rest = lanes_;
  RegionHeader region;
  while (take(rest, region) && region.magic == kRegionMagic && region.bytes >= sizeof(region)) {
    std::string_view inside = take_text(rest, std::min(region.bytes - sizeof(region), rest.size()));
    BlockHeader block;
    while (take(inside, block) && block.magic == kBlockMagic && block.bytes >= sizeof(block)) {
      const size_t size = std::min<size_t>(block.bytes - sizeof(block), inside.size());
      if (block.kind == BlockKind::kLane) lane_at_[block.address] = inside.substr(0, size);
      inside.remove_prefix(size);
    }
  }
  find_blocks();
  std::vector<BlockHeader> headers(blocks_.size());
  for (size_t i = 0; i < blocks_.size(); ++i) {
    if (!blocks_[i].is_settled) headers[i] = look_at(blocks_[i]);
  }
  read_journals();
  for (size_t i = 0; i < blocks_.size(); ++i) {
    if (headers[i].kind == BlockKind::kChunk) read_chunk(blocks_[i], headers[i]);
  }
  if (is_ring_ && read_of_.size() > 2 * blocks_.size()) {
    std::unordered_map<uint64_t, uint64_t> there;
    for (const Block& block : blocks_) {
      const auto place = read_of_.find(block.serial);
      if (place != read_of_.end()) there.insert(*place);
    }
    read_of_ = std::move(there);
  }
}

void Follower::read_chunk(Block& block, const BlockHeader& header) {
  uint64_t size = header.size;
  if (header.size == kStillFilled) {
    const uint64_t next = target_of(header.cursor, lane_at_);
    size = next >= header.address ? (next - header.address) / sizeof(Record) : 0;
  }
  if (size > header.capacity) return;  // the cursor has gone on
  uint64_t& read = read_of_[header.serial];
  if (size > read) {
    const std::string records =
        some_bytes_at(chunks_, block.offset + sizeof(header) + read * sizeof(Record),
                      (size - read) * sizeof(Record));
    if (look_at(block).serial != header.serial) return;  // it is another by now
    add_records(header.generation, records);
    read = size;
  }
  block.is_settled = !is_ring_ && header.size != kStillFilled;
}

// Blocks never move, and each begins where the one before it ends. A region may begin before the
// region in front of it is full.
void Follower::find_blocks() {
  uint64_t end = regions_.empty() ? 0 : regions_.back().end;
  const uint64_t file_bytes = chunks_.size();
  RegionHeader header;
  while (chunks_.read_at(end, header) && header.magic == kRegionMagic &&
         header.bytes >= sizeof(header) && header.bytes <= file_bytes - end) {
    if (header.version != kLastingVersion) {
      throw std::runtime_error("it was written by another version of Stepscope");
    }
    regions_.push_back({end + sizeof(header), end + header.bytes});
    end += header.bytes;
  }
  for (Region& region : regions_) {
    BlockHeader block;
    while (region.blocks_end + sizeof(block) <= region.end &&
           chunks_.read_at(region.blocks_end, block) && block.magic == kBlockMagic &&
           block.bytes >= sizeof(block) && block.bytes <= region.end - region.blocks_end) {
      blocks_.push_back({region.blocks_end, block.serial, 0, false});
      region.blocks_end += block.bytes;
    }
  }
}

BlockHeader Follower::look_at(Block& block) const {
  BlockHeader header{};
  if (!chunks_.read_at(block.offset, header)) return {};
  if (std::exchange(block.serial, header.serial) != header.serial) block.read = 0;
  return header;
}

void Follower::read_journals() {
  for (Block& block : blocks_) {
    if (block.is_settled) continue;
    const BlockHeader header = look_at(block);
    if (header.kind != BlockKind::kJournal || header.size <= block.read) continue;
    const std::string entries = some_bytes_at(chunks_, block.offset + sizeof(header) + block.read,
                                              header.size - block.read);
    if (look_at(block).serial != header.serial) continue;
    block.read = header.size;
    read_entries(entries);
  }
}

void Follower::read_disk() {
  FrameHeader header;
  while (segments_.read_at(disk_end_, header) && header.magic == kFrameMagic &&
         header.bytes <= segments_.size() - disk_end_ - sizeof(header)) {
    const std::string bytes = some_bytes_at(segments_, disk_end_ + sizeof(header), header.bytes);
    disk_end_ += sizeof(header) + header.bytes;
    std::string_view rest = bytes;
    const auto kind = static_cast<FrameKind>(header.kind);
    if (kind == FrameKind::kJournal) read_entries(rest);
    RecordsHeader records;
    if (kind != FrameKind::kRecords || !take(rest, records)) continue;
    uint64_t& read = read_of_[records.serial];
    if (records.first + records.count <= read) continue;
    const uint64_t already_read = read > records.first ? read - records.first : 0;
    rest.remove_prefix(std::min(rest.size(), already_read * sizeof(Record)));
    read = records.first + records.count;
    add_records(records.generation, rest);
  }
}

void Follower::read_entries(std::string_view bytes) {
  EntryHeader header;
  while (take(bytes, header) && header.bytes <= bytes.size()) {
    std::string_view inside = bytes.substr(0, header.bytes);
    bytes.remove_prefix(std::min(padded(header.bytes), bytes.size()));
    switch (static_cast<Entry>(header.kind)) {
      case Entry::kText: {
        TextEntry entry;
        if (!take(inside, entry) || entry.space != static_cast<uint32_t>(TextSpace::kLabels)) break;
        const bool is_one =
            std::any_of(prefixes_.begin(), prefixes_.end(),
                        [&](const auto& prefix) { return inside.starts_with(prefix); });
        if (is_one) names_[{entry.generation, entry.id}] = inside;
        break;
      }
      case Entry::kMeta: {
        MetaEntry entry;
        if (!take(inside, entry)) break;
        const std::string name(take_text(inside, entry.name_bytes));
        notes_[name] = inside;
        break;
      }
      case Entry::kWindow: {
        WindowEntry entry;
        if (take(inside, entry)) is_ring_ = entry.age_ticks != 0;
        break;
      }
      case Entry::kClosed:
        is_closed_ = true;
        break;
      default:
        break;
    }
  }
}

void Follower::add_records(uint32_t generation, std::string_view bytes) {
  for (const Record& record : all_of<Record>(bytes)) {
    if (record.kind != Kind::kRange) continue;
    const auto name = names_.find({generation, record.slice.label});
    if (name == names_.end()) continue;
    ranges_.push_back({record.start_ticks, record.slice.end_ticks, name->second});
  }
}

}  // namespace stepscope
