// Events of a trace as packets of a Perfetto trace, in chunks.
//
// Every track is a sequence of packets of its own: its packets need not name the track, their times
// are the ns since the packet before, and names, categories, keys and texts are numbers that the
// sequence introduces when they first occur.
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/byte_buffer.h"
#include "perfetto/fragments.h"
#include "perfetto/lanes.h"
#include "protobuf/wire.h"

namespace stepscope::perfetto {

// Protobuf in memory that is reserved before it is written: every slice of a trace passes through.
class PacketBuffer : public ByteBuffer {
 public:
  void varint(uint64_t value) {
    for (; value >= 0x80; value >>= 7) data_[size_++] = static_cast<char>(value | 0x80);
    data_[size_++] = static_cast<char>(value);
  }
  void number(uint32_t field, uint64_t value) {
    varint(field << 3);
    varint(value);
  }
  void fixed64(uint32_t field, uint64_t value) {
    varint(field << 3 | static_cast<uint32_t>(protobuf::Wire::kFixed64));
    std::memcpy(data_.get() + size_, &value, sizeof value);
    size_ += sizeof value;
  }
  void bytes(uint32_t field, std::string_view value) {
    varint(field << 3 | static_cast<uint32_t>(protobuf::Wire::kBytes));
    varint(value.size());
    put(value);
  }
};

// Numbers keys from 1 on, in the order in which they are first met.
class IdMap {
 public:
  // The number of `key`; `is_new` tells whether it was met for the first time.
  uint32_t operator()(uint32_t key, bool& is_new) {
    if ((count_ + 1) * 2 > slots_.size()) grow();
    Slot& slot = slot_of(key);
    is_new = slot.id == 0;
    if (is_new) slot = {key, ++count_};
    return slot.id;
  }

 private:
  struct Slot {
    uint32_t key = 0;
    uint32_t id = 0;  // 0: free
  };

  Slot& slot_of(uint32_t key) {
    const size_t mask = slots_.size() - 1;
    size_t at = (key * 0x9e3779b1U >> 7) & mask;
    while (slots_[at].id != 0 && slots_[at].key != key) at = (at + 1) & mask;
    return slots_[at];
  }

  void grow() {
    std::vector<Slot> old = std::move(slots_);
    slots_.assign(old.empty() ? 16 : old.size() * 2, {});
    for (const Slot& slot : old) {
      if (slot.id != 0) slot_of(slot.key) = slot;
    }
  }

  std::vector<Slot> slots_;
  uint32_t count_ = 0;
};

struct Texts {
  std::string_view blob;  // text i is blob[offsets[i] .. offsets[i + 1])
  std::span<const int64_t> offsets;

  size_t size() const { return offsets.size() - 1; }
  std::string_view operator[](uint32_t id) const {
    const auto from = static_cast<size_t>(offsets[id]);
    return blob.substr(from, static_cast<size_t>(offsets[id + 1]) - from);
  }
};

// values[i] belongs to row rows[i]; rows ascend.
struct SparseColumn {
  std::string key;
  std::span<const uint32_t> rows;
  std::span<const int64_t> values;
};

struct Arguments {
  std::vector<SparseColumn> integers;
  std::span<const uint32_t> rest;   // fragments of JSON, 0 for none; empty: none at all
  std::span<const uint32_t> stack;  // texts, 0 for none; empty: none at all
};

// Events with a duration, ordered as a Trace's slices are, or instants, which have none.
struct Events {
  std::span<const uint32_t> name, category, track;
  std::span<const int64_t> start_ns;
  std::span<const int64_t> duration_ns;  // empty: instants
  std::span<const int32_t> parent;       // of slices
  std::span<const uint8_t> is_async;     // of slices
  Arguments args;
  SparseColumn flows, last_flows;  // the flows that pass through a slice, and those that end there
};

struct Counter {
  uint64_t uuid = 0;
  std::span<const int64_t> time_ns;  // ascending
  std::span<const int64_t> values;
  std::span<const double> doubles;  // in place of values
};

class Writer {
 public:
  // `uuids` are those of the tracks; what is given as a view must outlive the writer. `first_ns` is
  // not after any event. Tracks and sequences that the writer adds are numbered from `free_uuid`.
  Writer(Texts texts, std::span<const int64_t> uuids, int64_t first_ns, uint64_t free_uuid);

  // Throw std::invalid_argument when columns do not fit each other or an id is unknown.
  void add(Events events);
  void add(Counter counter);

  // The next packets, until there are `chunk_bytes` or no more. Empty: the end.
  PacketBuffer next(size_t chunk_bytes);
  size_t written() const { return written_; }

 private:
  // A sequence of packets: what it has introduced so far.
  struct Sequence {
    uint32_t id = 0;
    int64_t last_ns = 0;
    IdMap names, categories, keys, texts;
  };
  struct Cursors {
    std::vector<size_t> integers;
    size_t flow = 0, last_flow = 0;
  };

  void check(const Events& events) const;
  void check(const SparseColumn& column, size_t rows) const;
  void begin(const Events& events);
  bool write_slices(const Events& events, size_t limit);
  bool write_instants(const Events& events, size_t limit);
  bool write_counter(const Counter& counter, size_t limit);

  void put_lane_track(uint32_t lane);
  Sequence new_sequence(uint64_t uuid);
  void put_packet(Sequence& sequence, int64_t time_ns);
  void put_event(Sequence& sequence, const Events& events, size_t row, uint8_t type);
  void put_arguments(Sequence& sequence, const Events& events, size_t row);
  void put_annotation(Sequence& sequence, const Annotation& annotation);
  void put_flows(const SparseColumn& flows, size_t& at, size_t row, uint32_t field);
  uint32_t introduce(IdMap& ids, uint32_t id, uint32_t field, std::string_view text);

  Texts texts_;
  std::span<const int64_t> uuids_;
  int64_t first_ns_;
  uint64_t free_uuid_;
  uint32_t sequences_ = 1;  // the first is the caller's
  std::vector<Events> events_;
  std::vector<Counter> counters_;
  Fragments fragments_;
  uint32_t stack_key_;
  std::vector<uint32_t> integer_keys_;

  // Where it is: the table, its row, and what is open there.
  size_t table_ = 0;
  size_t row_ = 0;
  bool is_begun_ = false;
  Cursors cursors_;
  std::vector<uint8_t> is_extra_;  // of the slices
  std::unique_ptr<Lanes> lanes_;
  std::vector<Sequence> lane_sequences_;
  Sequence own_sequence_;  // of instants or a counter
  size_t written_ = 0;

  PacketBuffer out_, event_, interned_, inner_;
};

}  // namespace stepscope::perfetto
