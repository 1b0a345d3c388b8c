// The files of a stream, read after anybody may have changed them.
#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "core/clock.h"
#include "core/lasting_format.h"
#include "core/segment_file.h"
#include "read_back/recovered.h"

using namespace stepscope;

namespace {

// The files of one process, in a folder of their own.
class LeftFiles {
 public:
  LeftFiles() { REQUIRE(mkdtemp(folder_.data())); }
  ~LeftFiles() { std::filesystem::remove_all(folder_); }

  template <typename Numbers>
  void note(Entry kind, const Numbers& numbers, std::string_view text = {}) {
    const size_t size = sizeof(numbers) + text.size();
    add(journal_, EntryHeader{static_cast<uint32_t>(kind), static_cast<uint32_t>(size)});
    add(journal_, numbers);
    journal_.append(text).append(padded(size) - size, '\0');
  }

  template <typename Value>
  static void add(std::string& bytes, const Value& value) {
    bytes.append(reinterpret_cast<const char*>(&value), sizeof(value));
  }

  void write_in_memory(const char* name, const BlockHeader& block, std::string_view payload) const {
    std::string bytes;
    add(bytes, RegionHeader{kRegionMagic,
                            kLastingVersion,
                            sizeof(RegionHeader) + sizeof(block) + payload.size(),
                            0,
                            {}});
    add(bytes, block);
    std::ofstream(path(name), std::ios::binary) << bytes << payload;
  }

  std::string path(const char* name) const { return folder_ + "/" + name; }

  Recovered recovered() const {
    SegmentFile file;
    file.set_path(path("1.segments"));
    REQUIRE(file.write(FrameKind::kJournal, journal_));
    return recover(folder_, path("1.segments"));
  }

 private:
  std::string folder_ = std::filesystem::temp_directory_path() / "stepscope-XXXXXX";
  std::string journal_;
};

template <typename Value>
std::string bytes_of(const Value& value) {
  std::string bytes;
  LeftFiles::add(bytes, value);
  return bytes;
}

BlockHeader block(BlockKind kind, uint64_t address, size_t payload_bytes) {
  BlockHeader header{};
  header.magic = kBlockMagic;
  header.kind = kind;
  header.bytes = sizeof(header) + payload_bytes;
  header.address = address;
  return header;
}

TEST_CASE("a number that nobody gave out asks for no memory") {
  constexpr uint32_t kFar = 60'000'000;
  LeftFiles files;
  files.note(Entry::kSampled, SampledThreadEntry{0, 0, 17}, "first");
  files.note(Entry::kSampled, SampledThreadEntry{kFar, 0, 18}, "far");
  files.note(Entry::kNodes, NodesEntry{0, 0}, bytes_of(NodeEntry{kFar, 0, 0, 0}));
  files.note(Entry::kCode, CodeEntry{0, UINT32_MAX, 1, 0, 0, 0, 0, 0});
  files.note(Entry::kGraphNodes, GraphNodeEntry{0, 0, kFar, 0, 0, 0});
  files.note(Entry::kDeviceShapes, uint64_t{kFar}, bytes_of(LaunchShape{}));
  files.note(Entry::kThread, ThreadEntry{1, kFar, 19}, "far");
  files.note(Entry::kText, TextEntry{1, 0, kFar, 0}, "far");
  const Recovered recovered = files.recovered();
  REQUIRE_EQ(recovered.sampled.size(), 1);
  CHECK_EQ(recovered.sampled[0].name, "first");
  CHECK(recovered.copied_stacks.at(0).nodes.empty());
  CHECK(recovered.copied_stacks.at(0).codes.empty());
  CHECK(recovered.graph_nodes.empty());
  CHECK(recovered.device.shapes.empty());
  REQUIRE_EQ(recovered.recordings.size(), 1);
  CHECK(recovered.recordings[0].threads.empty());
  CHECK_EQ(recovered.recordings[0].texts.size(), 1);  // 0 is no text
}

TEST_CASE("numbers may have gaps, where what was in between is lost") {
  LeftFiles files;
  files.note(Entry::kSampled, SampledThreadEntry{100'000, 0, 17}, "late");
  const Recovered recovered = files.recovered();
  REQUIRE_EQ(recovered.sampled.size(), 100'001);
  CHECK_EQ(recovered.sampled[100'000].name, "late");
}

TEST_CASE("stacks have numbers by owner") {
  LeftFiles files;
  files.note(Entry::kNodes, NodesEntry{1, 0}, bytes_of(NodeEntry{1, 0, 5, 0}));
  files.note(Entry::kNodes, NodesEntry{2, 0}, bytes_of(NodeEntry{1, 0, 6, 0}));
  const Recovered recovered = files.recovered();
  CHECK_EQ(recovered.copied_stacks.at(1).nodes.at(1).code, 5U);
  CHECK_EQ(recovered.copied_stacks.at(2).nodes.at(1).code, 6U);
}

TEST_CASE("a device of which more is known later replaces what was noted of it first") {
  using namespace std::string_literals;
  const std::string begun = "chip" + bytes_of(ClockBound{0, 1, 2}) + "first\0\0"s;
  const std::string ended = "chip" + bytes_of(ClockBound{5, 1, 2}) + bytes_of(ClockBound{9, 3, 4});
  LeftFiles files;
  files.note(Entry::kCounterDevice, CounterDeviceEntry{3, 1, 4, 0, 2, 0}, ended + "first\0\0"s);
  files.note(Entry::kCounterDevice, CounterDeviceEntry{3, 0, 4, 0, 1, 0}, begun);
  files.note(Entry::kCounterDevice, CounterDeviceEntry{4, 0, 9, 9, UINT32_MAX, 0}, "cut");
  const Recovered recovered = files.recovered();
  const CounterDevice& device = recovered.counter_devices.at(3);
  CHECK_EQ(device.chip, "chip");
  CHECK_EQ(device.obstacle, "");
  REQUIRE_EQ(device.bounds.size(), 2);
  CHECK_EQ(device.bounds[1].to_ns, 4);
  CHECK((device.metrics == std::vector<std::string>{"first", ""}));
  CHECK_EQ(recovered.counter_devices.at(4).chip, "cut");
}

TEST_CASE("readings are in the order of time, wherever they stand in the file") {
  LeftFiles files;
  files.note(Entry::kPower, PowerReading{7, 0, 0, 0, 0, 0, 0, 0, 0, 0});
  files.note(Entry::kPower, PowerReading{5, 0, 0, 0, 0, 0, 0, 0, 0, 0});
  const Recovered recovered = files.recovered();
  REQUIRE_EQ(recovered.power.size(), 2);
  CHECK_EQ(recovered.power[0].time_ns, 5);
}

TEST_CASE("of a sample that grew, what was written last counts, wherever it stands in the file") {
  const auto lasting = [](int64_t duration_ns) {
    PlacedSample placed;
    placed.sample.duration_ns = duration_ns;
    return bytes_of(placed);
  };
  LeftFiles files;
  files.note(Entry::kSamples, int64_t{9}, lasting(70));
  files.note(Entry::kSamples, int64_t{5}, lasting(50));
  const Recovered recovered = files.recovered();
  REQUIRE_EQ(recovered.samples.size(), 1);
  CHECK_EQ(recovered.samples[0].duration_ns, 70);
}

TEST_CASE("points of the clock that cannot be make no line") {
  LeftFiles files;
  files.note(Entry::kSyncPoint, SyncPoint{1'000, 1'000'000'000});
  files.note(Entry::kSyncPoint, SyncPoint{1'000, 2'000'000'000});  // at the same tick
  files.note(Entry::kSyncPoint, SyncPoint{0, INT64_MIN});
  files.note(Entry::kSyncPoint, SyncPoint{2'000, INT64_MAX});
  files.note(Entry::kSyncPoint, SyncPoint{3'000, 3'000'000'000});
  const Recovered recovered = files.recovered();
  CHECK_EQ(recovered.tick_map.ns(1'000), 1'000'000'000);
  CHECK_EQ(recovered.tick_map.ns(2'000), 2'000'000'000);
  CHECK_EQ(recovered.tick_map.ns(3'000), 3'000'000'000);
}

TEST_CASE("a cursor beyond all memory points to nothing") {
  LeftFiles files;
  BlockHeader lane = block(BlockKind::kLane, 0, 64);
  lane.unused_too = uint64_t{2 * sizeof(Record)} << 32;
  files.write_in_memory("lanes", lane, std::string(64, '\0'));
  Record record{};
  record.start_ticks = 5;
  BlockHeader chunk = block(BlockKind::kChunk, sizeof(Record), sizeof(record));
  chunk.size = kStillFilled;
  chunk.capacity = 1;
  chunk.cursor = UINT64_MAX - 3;  // the 8 bytes there would end behind the first 4 of the lane
  std::string bytes;
  LeftFiles::add(bytes, record);
  files.write_in_memory("chunks", chunk, bytes);
  CHECK_EQ(files.recovered().last_ns, 0);
}

TEST_CASE("a named pipe in the place of a file is not waited for") {
  LeftFiles files;
  REQUIRE_EQ(mkfifo(files.path("lanes").c_str(), 0600), 0);
  CHECK_FALSE(files.recovered().has_lanes);
}

}  // namespace
