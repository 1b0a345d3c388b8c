// Feeds the Chrome reader cut and mutated text, in chunks of any size; meant for sanitizer builds.
//
//   chrome_reader_fuzz ROUNDS [FILE...]     files are inflated JSON; their first bytes are seeds
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "core/nesting.h"
#include "fuzz.h"
#include "json/chrome_reader.h"

namespace {

using namespace stepscope::testing;
using stepscope::json::ChromeColumns;
using stepscope::json::ChromeReader;

constexpr size_t kSeedBytes = 4000;

const char* const kSeeds[] = {
    R"({"a": [1, {"b": "\u00e4\ud83d\ude00\n"}], "traceEvents": [
  {"ph": "X", "cat": "cpu_op", "name": "n\"\\", "pid": 1, "tid": "s 7", "ts": 1.5e3, "dur": 0.25,
   "args": {"External id": 3, "grid": [1, [2, {}]], "Sequence number": -9223372036854775808}},
  {"ph": "B", "pid": 1, "tid": 1, "ts": -1}, {"ph": "E", "pid": 1, "tid": 1, "ts": "2", "args": {"x": "y"}},
  {"ph": "M", "name": "thread_name", "pid": 1, "tid": 1, "args": {"name": "main"}},
  {"ph": "f", "id": 18446744073709551616, "bp": "e", "ts": 99999999999999999999}, null, {}],
  "traceName": "x"})",
    R"([{"ph":"X","ts":1,"dur":1e400,"args":{"deep":[[[[[[[[[[]]]]]]]]]],"n":nan,"i":-inf,"h":007}},
{"ph":"X","ts":4611686018427387.9,"dur":4611686018427387.9},{"ph":"B","ts":-4611686018427387.9},])",
};

constexpr std::string_view kTokens[] = {
    "\"",
    "\\",
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    "\\u",
    "\\ud800",
    "e",
    "-",
    "9999999999999999999",
    "\"traceEvents\": [",
    "\"ph\": \"B\"",
    "\"ph\": \"E\"",
    "}, {\"ph\"",
    "null",
    "\xff",
    "\n",
};

void read(std::string_view text, size_t chunk) {
  ChromeReader reader;
  for (size_t at = 0; at < text.size(); at += chunk) reader.feed(text.substr(at, chunk));
  const ChromeColumns columns = reader.finish();
  const auto& slices = columns.events.slices;
  const size_t rows = slices.start_ns.size();
  check(columns.bytes == text.size(), "not all of the text was counted");
  check(slices.name.size() == rows && slices.flags.size() == rows, "columns differ in length");
  check(rows + columns.events.marks.time_ns.size() <= columns.event_count, "too many rows");
  for (size_t i = 0; i < rows; ++i) {
    check(slices.duration_ns[i] >= 0, "a negative duration");
    check(slices.start_ns[i] + slices.duration_ns[i] >= slices.start_ns[i], "an end that wraps");
    check(slices.name[i] < columns.strings.size(), "a name without a string");
    check(slices.track[i] < columns.tracks.size(), "a slice without a track");
  }
  for (const auto& column : slices.args.integers) {
    check(std::is_sorted(column.rows.begin(), column.rows.end()), "rows that do not ascend");
  }
}

}  // namespace

int main(int count, char** arguments) {
  const long rounds = rounds_of(count, arguments);
  std::vector<std::string> seeds(std::begin(kSeeds), std::end(kSeeds));
  for (const std::string& text : files_of(count, arguments)) {
    seeds.push_back(text.substr(0, kSeedBytes));
    seeds.push_back("[" + text.substr(text.size() / 2, kSeedBytes));
  }
  std::mt19937 random(20240607);
  const auto token = [&] { return kTokens[up_to(std::size(kTokens) - 1, random)]; };
  for (const std::string& seed : seeds) {
    for (size_t cut = 0; cut <= seed.size(); ++cut) {
      read(std::string_view(seed).substr(0, cut), seed.size() + 1);
    }
    for (const size_t chunk : {1U, 2U, 7U, 63U, 64U, 65U}) read(seed, chunk);
    for (long round = 0; round < rounds; ++round) {
      const std::string text = mutated(seed, random, token);
      read(text, round % 3 == 0 ? 1 + random() % 100 : text.size() + 1);
    }
  }
  std::printf("chrome_reader_fuzz: %zu seeds, %ld mutations each\n", seeds.size(), rounds);
}
