#include "read_back/recovered.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string_view>

#include "core/segment_file.h"
#include "read_back/recovered_journal.h"

namespace stepscope {
namespace {

// A copy of a file as it is now: its process may still write to it.
std::string contents(const std::string& path) {
  ReadFile file;
  file.open(path);
  return file.bytes_at(0, file.size());
}

// Whether a block is still the one that was copied. One that has become another block meanwhile, as
// a ring's do, is in parts the one and the other.
bool is_unchanged(const ReadFile& file, const BlockHeader& copy, ptrdiff_t payload_offset) {
  BlockHeader now;
  return file.read_at(static_cast<uint64_t>(payload_offset) - sizeof(now), now) &&
         now.kind == copy.kind && now.serial == copy.serial;
}

struct FoundChunk {
  uint32_t generation = 0;
  std::vector<Record> records;
};

class Reader {
 public:
  Reader(Recovered& out, int64_t since_ns) : out_(out), since_ns_(since_ns) {}

  void read(const std::string& memory, const std::string& disk) {
    const std::string segments = contents(disk);
    journal_.room.add_entries(segments.size());
    read_disk(segments);
    // The lanes first: what a cursor has passed by then stands in its chunk.
    const bool has_memory = !memory.empty();
    const std::string lanes = has_memory ? contents(memory + "/lanes") : "";
    const std::string chunks = has_memory ? contents(memory + "/chunks") : "";
    journal_.room.add_entries(chunks.size());
    out_.has_lanes = !lanes.empty();
    read_lanes(lanes);
    ReadFile chunks_now;
    chunks_now.open(memory + "/chunks");
    read_chunks(chunks, chunks_now);
    read_pulse(contents(memory + "/lanes"));  // since when all is there
    finish();
  }

 private:
  // ---- memory

  template <typename Use>
  void each_block(std::string_view bytes, const Use& use) {
    while (bytes.size() >= sizeof(RegionHeader)) {
      RegionHeader region;
      std::memcpy(&region, bytes.data(), sizeof(region));
      if (region.magic != kRegionMagic || region.bytes < sizeof(region)) {
        // Reserved, and not yet in use when the process ended.
        const bool is_blank = bytes.find_first_not_of('\0') == std::string_view::npos;
        if (!is_blank) out_.damaged += bytes.size();
        return;
      }
      if (region.version != kLastingVersion) {
        throw std::runtime_error("it was written by another version of Stepscope");
      }
      if (region.bytes > bytes.size()) out_.damaged += region.bytes - bytes.size();
      std::string_view inside = bytes.substr(0, region.bytes);
      bytes.remove_prefix(inside.size());
      inside.remove_prefix(sizeof(region));
      while (inside.size() >= sizeof(BlockHeader)) {
        BlockHeader block;
        std::memcpy(&block, inside.data(), sizeof(block));
        if (block.magic != kBlockMagic || block.bytes < sizeof(block) ||
            block.bytes > inside.size()) {
          break;  // from here on, none was taken yet
        }
        use(block, inside.substr(sizeof(block), block.bytes - sizeof(block)));
        inside.remove_prefix(block.bytes);
      }
    }
  }

  void read_lanes(std::string_view bytes) {
    each_block(bytes, [&](const BlockHeader& block, std::string_view payload) {
      if (block.kind == BlockKind::kLane) {
        lanes_[block.address] = payload;
      } else if (block.kind == BlockKind::kSlices) {
        for (const Record& record : all_of<Record>(payload)) {
          if (record.slice.order)
            journal_.recordings[record.slice.generation].open.push_back(record);
        }
      }
    });
  }

  void read_pulse(std::string_view bytes) {
    each_block(bytes, [&](const BlockHeader& block, std::string_view payload) {
      Pulse pulse{};
      if (block.kind == BlockKind::kPulse && take(payload, pulse)) note(pulse);
    });
  }

  void read_chunks(std::string_view bytes, const ReadFile& now) {
    const char* const begin = bytes.data();
    each_block(bytes, [&](const BlockHeader& block, std::string_view payload) {
      if (!is_unchanged(now, block, payload.data() - begin)) return;
      if (block.kind == BlockKind::kJournal) {
        read_journal(payload.substr(0, block.size), journal_, out_);
      } else if (block.kind == BlockKind::kChunk) {
        const size_t size = std::min(size_of(block), payload.size() / sizeof(Record));
        keep(block.serial, block.generation, 0,
             all_of<Record>(payload.substr(0, size * sizeof(Record))));
      }
    });
  }

  size_t size_of(const BlockHeader& block) const {
    if (block.size != kStillFilled) return std::min(block.size, block.capacity);
    static_assert(offsetof(Cursor, next) == 0);
    const uint64_t next = target_of(block.cursor, lanes_);
    if (next < block.address) return 0;
    const uint64_t size = (next - block.address) / sizeof(Record);
    return size <= block.capacity ? size : 0;
  }

  // ---- disk

  void read_disk(std::string_view bytes) {
    while (bytes.size() >= sizeof(FrameHeader)) {
      std::string_view rest = bytes;
      FrameHeader header;
      take(rest, header);
      if (header.magic != kFrameMagic || header.bytes > rest.size()) break;
      const std::string_view inside = rest.substr(0, header.bytes);
      rest.remove_prefix(inside.size());
      if (frame_checksum(inside) != header.checksum) {
        out_.damaged += sizeof(header) + inside.size();
        bytes = rest;
        continue;
      }
      read_frame(static_cast<FrameKind>(header.kind), inside);
      bytes = rest;
    }
    out_.damaged += bytes.size();
  }

  void read_frame(FrameKind kind, std::string_view bytes) {
    if (kind == FrameKind::kJournal) {
      read_journal(bytes, journal_, out_);
    } else if (kind == FrameKind::kRecords) {
      RecordsHeader header;
      if (take(bytes, header))
        keep(header.serial, header.generation, header.first, all_of<Record>(bytes));
    } else if (kind == FrameKind::kOpenSlices) {
      Pulse pulse{};
      if (!take(bytes, pulse)) return;
      note(pulse);
      for (auto& [generation, recording] : journal_.recordings) recording.open.clear();
      for (const Record& record : all_of<Record>(bytes)) {
        journal_.recordings[record.slice.generation].open.push_back(record);
      }
    }
  }

  // A chunk that is both in memory and on disk has the same records in both.
  void keep(uint64_t serial, uint32_t generation, size_t first, std::vector<Record> records) {
    FoundChunk& chunk = chunks_[serial];
    chunk.generation = generation;
    if (first > chunk.records.size()) {
      out_.bad_records += first - chunk.records.size();  // what came before was damaged
      first = chunk.records.size();
    }
    for (size_t i = 0; i < records.size(); ++i) {
      if (first + i >= chunk.records.size()) chunk.records.push_back(records[i]);
    }
  }

  void note(const Pulse& pulse) {
    last_ticks_ = std::max(last_ticks_, pulse.ticks);
    lost_ = std::max(lost_, pulse.lost);
    whole_since_ticks_ = std::max(whole_since_ticks_, pulse.whole_since_ticks);
  }

  // ---- all of it

  void finish() {
    for (const auto& [place, placed] : journal_.samples) out_.samples.push_back(placed.sample);
    for (const auto& [serial, chunk] : chunks_) {
      for (const Record& record : chunk.records) {
        if (is_slice(record)) last_ticks_ = std::max(last_ticks_, record.slice.end_ticks);
        last_ticks_ = std::max(last_ticks_, record.start_ticks);
      }
    }
    for (const auto& [generation, recording] : journal_.recordings) {
      for (const Record& record : recording.open)
        last_ticks_ = std::max(last_ticks_, record.start_ticks);
    }
    std::ranges::sort(out_.resident);
    std::ranges::sort(out_.power, {}, &PowerReading::time_ns);
    std::ranges::sort(out_.counters, {}, &CounterReading::end_ns);
    out_.tick_map = map();
    out_.last_ns = last_ticks_ ? out_.tick_map.ns(last_ticks_) : 0;
    out_.recordings.reserve(journal_.recordings.size());  // a snapshot points into itself
    for (auto& [generation, recording] : journal_.recordings) {
      if (generation) out_.recordings.push_back(snapshot_of(generation, recording));
    }
  }

  static bool is_slice(const Record& record) { return record.kind < Kind::kMemoryChange; }

  // If only one point is known, now is the other: all processes share the clocks of a machine until
  // it restarts.
  TickMap map() {
    std::erase_if(journal_.points,
                  [](const SyncPoint& at) { return at.ns < 0 || at.ns > TickMap::kLatestNs; });
    std::sort(journal_.points.begin(), journal_.points.end(),
              [](const SyncPoint& a, const SyncPoint& b) { return a.ticks < b.ticks; });
    std::vector<SyncPoint> apart;
    for (const SyncPoint& point : journal_.points) {
      if (apart.empty() || (point.ticks > apart.back().ticks &&
                            point.ns - apart.back().ns >= TickMap::kShortestBaseNs))
        apart.push_back(point);
    }
    const SyncPoint now = SyncPoint::now();
    const bool same_boot = apart.empty() || (now.ticks > apart.back().ticks &&
                                             now.ns > apart.back().ns + TickMap::kShortestBaseNs);
    if (apart.size() < 2 && same_boot) apart.push_back(now);
    if (apart.size() == 1) apart.push_back({apart[0].ticks + 1, apart[0].ns + 1});
    return TickMap(std::move(apart));
  }

  uint64_t ticks_at(int64_t ns) const {
    uint64_t low = 0;
    uint64_t high = last_ticks_;
    while (low < high) {
      const uint64_t middle = low + (high - low) / 2;
      if (out_.tick_map.ns(middle) < ns) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low;
  }

  bool is_good(const Record& record, const FoundRecording& recording) const {
    if (record.thread >= recording.threads.size()) return false;
    if (record.kind == Kind::kInputs) return record.sampled.inputs < recording.inputs.size();
    if (!is_slice(record)) return record.kind <= Kind::kUse;
    const bool has_inputs = record.kind == Kind::kOperator || record.flags & kHasInputs;
    const size_t details = has_inputs ? recording.inputs.size() : recording.texts.size();
    return record.slice.label < recording.texts.size() &&
           record.slice.detail < std::max<size_t>(details, 1) &&
           record.slice.end_ticks >= record.start_ticks;
  }

  Snapshot snapshot_of(uint32_t generation, FoundRecording& recording) {
    Snapshot out;
    out.limit = recording.limit;
    out.start_ticks = recording.start_ticks;
    out.end_ticks = last_ticks_;
    if (out.limit.is_ring()) {
      const uint64_t aged = last_ticks_ - std::min(out.limit.age_ticks, last_ticks_);
      out.start_ticks = std::max({out.start_ticks, whole_since_ticks_, aged});
    }
    out.tick_map = out_.tick_map;
    out.lost = lost_;
    out.threads = recording.threads;
    if (recording.texts.empty()) recording.texts.emplace_back();
    if (recording.inputs.empty()) recording.inputs.emplace_back();
    for (Record record : recording.open) {
      record.slice.end_ticks = last_ticks_;
      if (is_good(record, recording)) out.unfinished.push_back(record);
    }
    const uint64_t since_ticks = ticks_at(since_ns_);
    for (auto& [serial, chunk] : chunks_) {
      if (chunk.generation != generation) continue;
      out_.bad_records += std::erase_if(
          chunk.records, [&](const Record& record) { return !is_good(record, recording); });
      if (since_ns_) {
        std::erase_if(chunk.records, [&](const Record& record) {
          return is_slice(record) && record.start_ticks < since_ticks;
        });
      }
      const size_t size = chunk.records.size();
      out.chunks.push_back({std::make_shared<Chunk>(chunk.records), size});
    }
    out.texts = recording.texts;
    out.inputs = recording.inputs;
    put_in_order(out, recording.start_ticks, {});
    return out;
  }

  Recovered& out_;
  const int64_t since_ns_;
  std::map<uint64_t, std::string_view> lanes_;  // by the address that they had
  std::map<uint64_t, FoundChunk> chunks_;
  Journal journal_;
  uint64_t last_ticks_ = 0;
  uint64_t lost_ = 0;
  uint64_t whole_since_ticks_ = 0;
};

}  // namespace

Recovered recover(const std::string& memory, const std::string& disk, int64_t since_ns) {
  Recovered out;
  Reader(out, since_ns).read(memory, disk);
  return out;
}

}  // namespace stepscope
