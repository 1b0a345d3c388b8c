// A Perfetto trace into columns. Whatever the bytes are, nothing beyond them is read.
//
// Track events are read, with the data that their sequences introduce; packets of other kinds (the
// kernel's ftrace, heap profiles) are counted.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "json/event_tables.h"
#include "perfetto/annotations.h"
#include "perfetto/clocks.h"

namespace stepscope::perfetto {

// Odd things that were met; events are kept unless the name says otherwise.
enum class Oddity : uint8_t {
  kNoTime,          // dropped
  kTimeOutOfRange,  // dropped
  kUnknownClock,
  kUnknownName,
  kOpenBegin,
  kStrayEnd,
  kMalformed,      // dropped, or dropped in part
  kLongArguments,  // left out
  kFtracePackets,  // not read
  kOtherPackets,   // not read
  kCount,
};

// Ids are 32 bits with a sign, however wide a file writes them.
inline int64_t as_id(uint64_t value) { return static_cast<int32_t>(value); }

// A track as its descriptor tells it.
struct TrackTold {
  uint64_t uuid = 0;
  uint64_t parent = 0;  // 0: none
  std::string name;
  std::string process_name;
  std::optional<int64_t> pid, tid;  // of a process; of a thread both
  bool is_counter = false;
  bool is_incremental = false;
  int64_t multiplier = 1;
  int64_t value = 0;  // of an incremental counter, so far
};

struct PerfettoColumns {
  json::EventTables::Columns events;
  json::StringTable strings;
  json::StringTable keys;
  std::vector<TrackTold> tracks;
  std::map<int64_t, std::string> process_names;
  std::map<int64_t, std::string> thread_names;
  std::array<uint64_t, static_cast<size_t>(Oddity::kCount)> oddities{};
  std::optional<int64_t> wall_offset_ns;
  std::string own;  // JSON of a file that we wrote
  uint64_t packets = 0;
  uint64_t event_count = 0;
  bool ends_early = false;
  bool is_broken = false;  // from broken_at on it is not protobuf
  uint64_t broken_at = 0;
};

class Reader {
 public:
  // Returns what a zlib stream holds; it may throw.
  using Inflate = std::function<std::string(std::string_view)>;

  explicit Reader(Inflate inflate) : inflate_(std::move(inflate)) {}
  PerfettoColumns read(std::string_view file);

 private:
  struct Packet;
  struct PacketTime {
    std::optional<uint64_t> time, clock;
    uint32_t sequence = 0;
  };
  struct Sequence {
    Interned interned;
    std::optional<uint64_t> clock;
    std::optional<uint64_t> track;
    std::optional<std::pair<int64_t, int64_t>> thread;  // of older files: the process and thread
    int64_t reference_us = 0;
  };
  struct LegacyEvent;
  struct Told;  // a track event, taken apart

  void read_packets(std::string_view bytes, bool is_inflated);
  void read_packet(std::string_view bytes, bool is_inflated);
  void read_defaults(Sequence& sequence, std::string_view bytes);
  void read_track(std::string_view bytes);
  void read_thread(TrackTold& track, std::string_view bytes);
  void read_thread_descriptor(Sequence& sequence, std::string_view bytes);
  void read_process_tree(std::string_view bytes);
  void read_event(std::string_view bytes, const PacketTime& packet, Sequence& sequence);
  bool take_apart(std::string_view bytes, Sequence& sequence, Told& event_fields);
  std::optional<int64_t> time_of(const PacketTime& packet, Sequence& sequence,
                                 const Told& event_fields);
  uint32_t track_of(const Sequence& sequence, const Told& event_fields);
  void add_event(const Told& event_fields, json::Event event);
  void add_counter(const Told& event_fields, json::Event event);
  void add_legacy(const Told& event_fields, json::Event event);
  void add_flows();

  uint32_t track_by_uuid(uint64_t uuid);
  uint32_t track_by_thread(std::pair<int64_t, int64_t> thread);
  void count(Oddity what) { ++out_.oddities[static_cast<size_t>(what)]; }

  struct Flow {
    int64_t time_ns;
    uint64_t id;
    uint32_t track;
    bool is_last;
  };

  Inflate inflate_;
  PerfettoColumns out_;
  json::EventTables tables_;
  std::optional<AnnotationReader> annotations_;
  Clocks clocks_;
  std::unordered_map<uint32_t, Sequence> sequences_;
  std::unordered_map<uint64_t, uint32_t> by_uuid_;
  std::map<std::pair<int64_t, int64_t>, uint32_t> by_thread_;
  std::vector<Flow> flows_;
  json::Pairs args_, fields_;
};

}  // namespace stepscope::perfetto
