// Feeds the reader of Perfetto's traces cut and mutated bytes, and its writer columns that do not
// nest; meant for sanitizer builds.
//
//   perfetto_reader_fuzz ROUNDS [FILE...]     files are .pftrace; their first bytes are seeds
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "fuzz.h"
#include "perfetto/reader.h"
#include "perfetto/writer.h"

namespace {

using namespace stepscope::testing;
using stepscope::perfetto::PerfettoColumns;
using stepscope::perfetto::Reader;

constexpr size_t kSeedBytes = 4000;

PerfettoColumns read(std::string_view bytes) {
  // What a zlib stream holds does not matter here: its bytes stand for themselves.
  PerfettoColumns columns =
      Reader([](std::string_view packed) { return std::string(packed); }).read(bytes);
  const auto& slices = columns.events.slices;
  for (const uint32_t track : slices.track) check(track < columns.tracks.size(), "a track");
  for (const uint32_t name : slices.name) check(name < columns.strings.size(), "a name");
  for (const int64_t ns : slices.duration_ns) check(ns >= 0, "a duration");
  for (const uint32_t rest : slices.args.rest) check(rest < columns.strings.size(), "a fragment");
  return columns;
}

// A trace of the writer's: slices at random times, with any parent that stands before.
std::string seed(std::mt19937& random, size_t rows) {
  const auto below = [&](uint32_t end) { return static_cast<uint32_t>(random() % end); };
  const std::string blob = R"(addmmcpu_op"Dims": [[1, 2]], "text": "a", "x": 0.5, "on": true)";
  const std::vector<int64_t> offsets = {0, 0, 5, 11, static_cast<int64_t>(blob.size())};
  const std::vector<int64_t> uuids = {1, 2, 3};
  std::vector<uint32_t> name(rows), category(rows), track(rows), rest(rows);
  std::vector<int64_t> start(rows), duration(rows);
  std::vector<int32_t> parent(rows);
  std::vector<uint8_t> is_async(rows);
  for (size_t row = 0; row < rows; ++row) {
    name[row] = below(3);
    category[row] = 2;
    track[row] = below(3);
    rest[row] = below(2) * 3;
    start[row] = (row > 0 ? start[row - 1] : 0) + below(50);
    duration[row] = below(200);
    parent[row] = static_cast<int32_t>(below(static_cast<uint32_t>(rows))) - 1;
    is_async[row] = below(8) == 0;
  }
  const std::vector<uint32_t> flow_rows = {0, 1};
  const std::vector<int64_t> flows = {7, 7};
  stepscope::perfetto::Writer writer({blob, offsets}, uuids, 0, 4);
  stepscope::perfetto::Events events;
  events.name = name;
  events.category = category;
  events.track = track;
  events.start_ns = start;
  events.duration_ns = duration;
  events.parent = parent;
  events.is_async = is_async;
  events.args.rest = rest;
  events.args.integers = {{"number", flow_rows, flows}};
  events.flows = {"", flow_rows, flows};
  writer.add(std::move(events));
  std::string file;
  for (auto chunk = writer.next(256); chunk.size() > 0; chunk = writer.next(256)) {
    file += chunk.view();
  }
  const PerfettoColumns back = read(file);
  check(back.events.slices.name.size() == rows, "a slice was lost");
  check(back.events.open_begins == 0 && back.events.stray_ends == 0, "a slice does not end");
  std::vector<std::pair<int64_t, int64_t>> ours, theirs;
  for (size_t row = 0; row < rows; ++row) {
    ours.emplace_back(start[row], duration[row]);
    theirs.emplace_back(back.events.slices.start_ns[row], back.events.slices.duration_ns[row]);
  }
  std::sort(ours.begin(), ours.end());
  std::sort(theirs.begin(), theirs.end());
  check(ours == theirs, "a slice has another time");
  return file;
}

}  // namespace

int main(int count, char** arguments) {
  const long rounds = rounds_of(count, arguments);
  std::mt19937 random(20240607);
  const auto high_bytes = [&] { return std::string(1 + up_to(9, random), '\xff'); };
  for (size_t rows = 2; rows < 200; ++rows) seed(random, rows);
  std::vector<std::string> seeds = {seed(random, 12)};
  for (const std::string& text : files_of(count, arguments)) {
    seeds.push_back(text.substr(0, kSeedBytes));
  }
  read(std::string(1 << 20, '\x53'));  // groups a million deep
  for (const std::string& text : seeds) {
    for (size_t cut = 0; cut <= text.size(); ++cut) read(std::string_view(text).substr(0, cut));
    for (long round = 0; round < rounds; ++round) read(mutated(text, random, high_bytes));
  }
  std::printf("perfetto_reader_fuzz: %zu seeds, %ld mutations each\n", seeds.size(), rounds);
}
