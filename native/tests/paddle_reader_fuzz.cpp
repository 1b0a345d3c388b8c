// Feeds the readers of Paddle's files cut and mutated bytes; meant for sanitizer builds.
//
//   paddle_reader_fuzz ROUNDS [FILE...]     files are Paddle's .pb; their first bytes are seeds
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "fuzz.h"
#include "paddle/chrome_labels.h"
#include "paddle/proto_reader.h"

namespace {

using namespace stepscope::testing;
using stepscope::paddle::NodeTrees;
using stepscope::paddle::ProtoReader;

constexpr size_t kSeedBytes = 3000;

std::string varint(uint64_t value) {
  std::string out;
  for (; value >= 0x80; value >>= 7) out.push_back(static_cast<char>(value | 0x80));
  out.push_back(static_cast<char>(value));
  return out;
}

std::string number(uint32_t field, uint64_t value) { return varint(field << 3) + varint(value); }

std::string bytes(uint32_t field, const std::string& value) {
  return varint(field << 3 | 2) + varint(value.size()) + value;
}

std::string numbers(uint32_t first, std::initializer_list<uint64_t> values) {
  std::string out;
  for (const uint64_t value : values) out += number(first++, value);
  return out;
}

// One file with everything that a file can hold.
std::string seed() {
  const std::string kernel = numbers(1, {32, 4, 1, 8, 2, 1, 512, 64, 40, 0, 0, 0, 0, 0}) +
                             "\x7d\x00\x00\x80\x3f" + "\x85\x01\x00\x00\x00\x40";
  const std::string work =
      bytes(1, "sgemm") + numbers(2, {4, 1500, 1700, 0, 1, 7, 99}) + bytes(9, kernel);
  const std::string copy = bytes(1, "Memcpy") + numbers(2, {5, 1700, 1800, 0, 1, 7, 99}) +
                           bytes(10, number(1, 4096) + bytes(2, "HtoD") + bytes(3, "a\"\\"));
  const std::string fill = bytes(1, "Memset") + numbers(2, {6, 1800, 1900, 0, 1, 7, 99}) +
                           bytes(11, number(1, 64) + bytes(2, "Device") + number(3, 0));
  const std::string call = bytes(1, "cudaLaunchKernel") + numbers(2, {1200, 1300, 5, 6, 99, 211});
  std::string runtime = bytes(1, call);
  for (const std::string& event : {work, copy, fill}) runtime += bytes(2, bytes(1, event));
  const std::string memory = number(1, 1100) + numbers(2, {0, 0xFFFFFFFFFFFFFFF0, 5, 6, 260}) +
                             bytes(7, "Place(gpu:0)") + numbers(8, {1, 2, 3, 4});
  const std::string shapes = bytes(1, "X") + bytes(2, bytes(1, numbers(1, {2}) + number(1, 3)) +
                                                          bytes(1, bytes(1, "\x04")));
  const std::string dtypes = bytes(1, "X") + bytes(2, bytes(1, "float32") + bytes(1, "\xff"));
  const std::string details = number(1, 1000) + bytes(2, "matmul") + numbers(3, {5, 6}) +
                              bytes(5, shapes) + bytes(6, dtypes) + bytes(7, "a.py\nb.py") +
                              number(8, 12);
  const std::string event = bytes(1, "matmul dygraph") + numbers(2, {15, 1000, 2000, 5, 6});
  const std::string root = bytes(1, "root node") + numbers(2, {7, 0, ~uint64_t{0}, 0, 0});
  const std::string group = "\x53\x5b\x08\x01\x5c\x54";  // a group in a group, of unknown numbers
  const std::string tree =
      number(1, 6) + bytes(2, numbers(1, {0, ~uint64_t{0}}) + bytes(3, root)) +
      bytes(2, numbers(1, {1, 0}) + bytes(3, event) + bytes(4, runtime) +
                   bytes(5, bytes(1, memory)) + bytes(6, bytes(1, details)) + group);
  const std::string device = numbers(1, {0}) + bytes(2, "H200") + numbers(3, {1, 9, 0, 1024});
  return bytes(1, "1.0.2") + number(2, 0) + bytes(3, tree) +
         bytes(4, bytes(1, "6") + bytes(2, "MainThread")) + bytes(5, device);
}

void read(std::string_view data) {
  const NodeTrees trees = ProtoReader().read(data);
  const size_t rows = trees.name.size();
  check(trees.category.size() == rows && trees.track.size() == rows &&
            trees.start_ns.size() == rows && trees.duration_ns.size() == rows &&
            trees.correlation.size() == rows,
        "columns differ in length");
  check(trees.rest.empty() || trees.rest.size() == rows, "fragments differ in number");
  for (size_t i = 0; i < rows; ++i) {
    check(trees.duration_ns[i] >= 0 && trees.start_ns[i] >= 0, "a negative time");
    check(trees.start_ns[i] + trees.duration_ns[i] >= trees.start_ns[i], "an end that wraps");
    check(trees.name[i] < trees.strings.size(), "a name without a string");
    check(trees.track[i] < trees.tracks.size(), "a slice without a track");
  }
  for (const NodeTrees::Integers& column : trees.integers) {
    check(column.rows.size() == column.values.size(), "a column with holes");
    check(std::is_sorted(column.rows.begin(), column.rows.end()), "rows that do not ascend");
    check(column.rows.empty() || column.rows.back() < rows, "a value without a row");
  }
  for (const uint32_t track : trees.memory.track) {
    check(track < trees.tracks.size(), "memory without a track");
  }
}

void unlabel(std::string_view text) {
  const std::vector<int64_t> offsets = {0, 0, static_cast<int64_t>(text.size() / 2),
                                        static_cast<int64_t>(text.size())};
  const std::vector<uint32_t> name = {1, 0, 2};
  const std::vector<uint32_t> rest = {2, 1, 0};
  const auto unlabelled = stepscope::paddle::unlabel(text, offsets, name, rest);
  check(unlabelled.name.size() == 3 && unlabelled.start_ns.size() == 3, "labels differ in number");
}

}  // namespace

int main(int count, char** arguments) {
  const long rounds = rounds_of(count, arguments);
  std::vector<std::string> seeds = {
      seed(), R"(a "name"[12.345 us]b[1.000 ms]"start_time": "0.000 us", "end_time": "-1.250 us")"};
  for (const std::string& text : files_of(count, arguments)) {
    seeds.push_back(text.substr(0, kSeedBytes));
  }
  check(ProtoReader().read(seeds[0]).name.size() == 5, "the seed is not read as a file");
  read(std::string(1 << 20, '\x53'));  // groups a million deep
  std::mt19937 random(20240607);
  const auto any_varint = [&] { return varint(uint64_t{1} << up_to(63, random)); };
  for (const std::string& text : seeds) {
    for (size_t cut = 0; cut <= text.size(); ++cut) {
      read(std::string_view(text).substr(0, cut));
      unlabel(std::string_view(text).substr(0, cut));
    }
    for (long round = 0; round < rounds; ++round) {
      const std::string changed = mutated(text, random, any_varint);
      read(changed);
      unlabel(changed);
    }
  }
  std::printf("paddle_reader_fuzz: %zu seeds, %ld mutations each\n", seeds.size(), rounds);
}
