#include "json/chrome_writer.h"

#include <algorithm>
#include <charconv>
#include <stdexcept>
#include <utility>

#include "core/column_checks.h"

namespace stepscope {
namespace {

constexpr size_t kIntegerBytes = 20;  // of the longest int64
constexpr size_t kFixedBytes = 384;   // keys, punctuation, phase and times of one event
constexpr int64_t kMillisecond = 1'000'000;

void check_length(size_t length, size_t rows, const char* what) {
  if (length != rows) {
    throw std::invalid_argument(std::string(what) + " has " + std::to_string(length) +
                                " rows, the times have " + std::to_string(rows));
  }
}

// `[44.956 us]`, from a millisecond on `[7.136 ms]`; then the name's closing quote, which it takes
// the place of.
void put_duration_label(JsonBuffer& out, int64_t ns) {
  const bool is_long = ns >= kMillisecond;
  out.drop_last();
  out.put("[");
  out.put_microseconds(is_long ? ns / 1000 + (ns % 1000 >= 500 ? 1 : 0) : ns);
  out.put(is_long ? " ms]\"" : " us]\"");
}

// Sums and differences of times from files: what int64 cannot hold wraps.
int64_t plus(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}
int64_t minus(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) - static_cast<uint64_t>(b));
}

bool is_plain(uint8_t phase) {
  return phase > ' ' && phase < 0x7F && phase != '"' && phase != '\\';
}

}  // namespace

void JsonBuffer::put_unsigned(uint64_t value) {
  char* begin = data_.get() + size_;
  size_ += static_cast<size_t>(std::to_chars(begin, begin + kIntegerBytes, value).ptr - begin);
}

void JsonBuffer::put_integer(int64_t value) {
  if (value < 0) put("-");
  const auto bits = static_cast<uint64_t>(value);
  put_unsigned(value < 0 ? 0 - bits : bits);
}

void JsonBuffer::put_microseconds(int64_t ns) {
  if (ns < 0) put("-");
  const auto bits = static_cast<uint64_t>(ns);
  const uint64_t magnitude = ns < 0 ? 0 - bits : bits;
  put_unsigned(magnitude / 1000);
  const auto rest = static_cast<unsigned>(magnitude % 1000);
  const char decimals[] = {'.', static_cast<char>('0' + rest / 100),
                           static_cast<char>('0' + rest / 10 % 10),
                           static_cast<char>('0' + rest % 10)};
  put({decimals, sizeof(decimals)});
}

ChromeWriter::ChromeWriter(std::string_view blob, std::span<const int64_t> offsets,
                           std::vector<std::string> tracks, bool continues)
    : texts_(blob, offsets), tracks_(std::move(tracks)), continues_(continues) {
  for (const std::string& track : tracks_) longest_track_ = std::max(longest_track_, track.size());
}

void ChromeWriter::add(EventTable table) {
  check(table);
  OpenPairs args = opened(std::move(table.args));
  OpenPairs fields = opened(std::move(table.fields));
  tables_.push_back({std::move(table), std::move(args), std::move(fields), 0});
}

ChromeWriter::OpenPairs ChromeWriter::opened(Pairs pairs) {
  size_t bytes = 0;
  for (const SparseIntegers& column : pairs.integers) {
    bytes += column.key.size() + 1 + kIntegerBytes + 2;
  }
  std::vector<size_t> at(pairs.integers.size(), 0);
  return {std::move(pairs), std::move(at), bytes};
}

void ChromeWriter::check(const EventTable& table) const {
  const size_t rows = table.time_ns.size();
  check_length(table.category.size(), rows, "category");
  check_length(table.name.size(), rows, "name");
  check_length(table.track.size(), rows, "track");
  if (!table.phase.empty()) check_length(table.phase.size(), rows, "phase");
  if (!table.duration_ns.empty()) check_length(table.duration_ns.size(), rows, "duration");
  if (table.origin_ns) check_length(table.duration_ns.size(), rows, "duration");
  check_ids(table.category, texts_.size(), "category");
  check_ids(table.name, texts_.size(), "name");
  check_ids(table.track, tracks_.size(), "track");
  if (!std::all_of(table.phase.begin(), table.phase.end(), is_plain)) {
    throw std::invalid_argument("a phase is not one printable ASCII character");
  }
  check(table.args, rows);
  check(table.fields, rows);
}

void ChromeWriter::check(const Pairs& pairs, size_t rows) const {
  if (!pairs.rest.empty()) check_length(pairs.rest.size(), rows, "rest");
  check_ids(pairs.rest, texts_.size(), "rest");
  for (const SparseIntegers& column : pairs.integers) {
    check_length(column.values.size(), column.rows.size(), "an integer column");
    check_ids(column.rows, rows, "an integer column");
    if (!std::is_sorted(column.rows.begin(), column.rows.end())) {
      throw std::invalid_argument("the rows of an integer column do not ascend");
    }
  }
}

JsonBuffer ChromeWriter::next(size_t chunk_bytes) {
  JsonBuffer out;
  while (table_ < tables_.size() && out.size() < chunk_bytes) {
    OpenTable& table = tables_[table_];
    if (out.size() == 0) out.reserve(chunk_bytes + chunk_bytes / 16 + kFixedBytes);
    const size_t rows = table.columns.time_ns.size();
    for (; table.row < rows && out.size() < chunk_bytes; ++table.row) {
      put_event(out, table);
      ++written_;
    }
    if (table.row == rows) ++table_;
  }
  return out;
}

std::string_view ChromeWriter::rest_of(const OpenPairs& open, size_t row) {
  const uint32_t id = open.pairs.rest.empty() ? 0 : open.pairs.rest[row];
  return id == 0 ? std::string_view{} : texts_.fragment(id);
}

void ChromeWriter::put_event(JsonBuffer& out, OpenTable& table) {
  const EventTable& columns = table.columns;
  const size_t row = table.row;
  const std::string_view name = texts_.literal(columns.name[row]);
  const std::string_view category =
      columns.category[row] == 0 ? std::string_view{} : texts_.literal(columns.category[row]);
  const std::string_view rest = rest_of(table.args, row);
  const std::string_view rest_fields = rest_of(table.fields, row);
  out.reserve(kFixedBytes + name.size() + category.size() + longest_track_ + rest.size() +
              rest_fields.size() + table.args.integer_bytes + table.fields.integer_bytes);

  if (std::exchange(continues_, true)) out.put(",\n");
  const char phase = columns.phase.empty() ? 'X' : static_cast<char>(columns.phase[row]);
  out.put("{\"ph\": \"");
  out.put({&phase, 1});
  out.put("\", ");
  if (!category.empty()) {
    out.put("\"cat\": ");
    out.put(category);
    out.put(", ");
  }
  out.put("\"name\": ");
  out.put(name);
  if (columns.origin_ns) put_duration_label(out, columns.duration_ns[row]);
  out.put(", ");
  out.put(tracks_[columns.track[row]]);
  out.put(", \"ts\": ");
  out.put_microseconds(columns.time_ns[row]);
  if (!columns.duration_ns.empty()) {
    out.put(", \"dur\": ");
    out.put_microseconds(columns.duration_ns[row]);
  }
  put_pairs(out, table.fields, row, rest_fields, ", ");
  put_args(out, table, rest);
}

void ChromeWriter::put_args(JsonBuffer& out, OpenTable& table, std::string_view rest) {
  const EventTable& columns = table.columns;
  const size_t row = table.row;
  if (!columns.origin_ns) {
    out.put(put_pairs(out, table.args, row, rest, ", \"args\": {") > 0 ? "}}" : "}");
    return;
  }
  const int64_t start = minus(columns.time_ns[row], *columns.origin_ns);
  out.put(", \"args\": {\"start_time\": \"");
  out.put_microseconds(start);
  out.put(" us\", \"end_time\": \"");
  out.put_microseconds(plus(start, columns.duration_ns[row]));
  out.put(" us\"");
  put_pairs(out, table.args, row, rest, ", ");
  out.put("}}");
}

size_t ChromeWriter::put_pairs(JsonBuffer& out, OpenPairs& open, size_t row, std::string_view rest,
                               std::string_view before_first) {
  size_t count = 0;
  for (size_t i = 0; i < open.at.size(); ++i) {
    const SparseIntegers& column = open.pairs.integers[i];
    const size_t at = open.at[i];
    if (at == column.rows.size() || column.rows[at] != row) continue;
    ++open.at[i];
    out.put(count++ == 0 ? before_first : ", ");
    out.put(column.key);
    out.put_integer(column.values[at]);
    if (column.key.ends_with('"')) out.put("\"");
  }
  if (!rest.empty()) {
    out.put(count++ == 0 ? before_first : ", ");
    out.put(rest);
  }
  return count;
}

}  // namespace stepscope
