// Paddle's profiler result file into columns. Whatever the bytes are, nothing beyond them is read.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "json/string_table.h"
#include "paddle/node_trees.h"

namespace stepscope::paddle {

// Odd things that were met; events are kept unless the name says otherwise.
enum class Oddity : uint8_t {
  kNegativeDuration,
  kNoTime,          // dropped
  kTimeOutOfRange,  // dropped
  kUnknownType,
  kMalformed,  // dropped, or dropped in part
  kCount,
};

struct Track {
  bool is_device = false;
  uint64_t process = 0;  // of a device: its number
  uint64_t thread = 0;   // of a device: the stream
};

struct Times {
  bool are_known = false;
  uint64_t start_ns = 0;
  uint64_t end_ns = 0;
};

struct NodeTrees {
  struct Integers {
    std::vector<uint32_t> rows;  // ascending
    std::vector<int64_t> values;
  };
  struct DeviceProperty {
    std::string name;
    std::array<uint64_t, device_property::kFields> number{};
  };

  // Slices, as they stood in the file. The categories are the names of event types.
  std::vector<uint32_t> category, name, track;
  std::vector<int64_t> start_ns, duration_ns, correlation;
  std::array<Integers, static_cast<size_t>(IntegerArg::kCount)> integers;
  std::vector<uint32_t> rest;  // fragments of JSON; empty: all 0
  // The slice that each hangs under, as the file says: kRoot under none, kUntold of device work and
  // where the file does not say.
  std::vector<int64_t> parent;
  static constexpr int64_t kRoot = -1;
  static constexpr int64_t kUntold = -2;

  struct Memory {
    std::vector<int64_t> time_ns, address, increase, allocated, reserved;
    std::vector<int64_t> peak_allocated, peak_reserved;
    std::vector<int64_t> parent;  // the slice in which it happened, as above
    std::vector<uint32_t> place, track;
    std::vector<uint8_t> type;
  } memory;

  std::vector<Track> tracks;
  json::StringTable strings;
  std::string version;
  uint64_t span_index = 0;
  std::vector<std::pair<std::string, std::string>> extra_info;
  std::vector<DeviceProperty> device_properties;
  std::array<uint64_t, static_cast<size_t>(Oddity::kCount)> oddities{};

  bool has_version = false;
  bool ends_early = false;
  bool is_broken = false;  // from broken_at on it is not protobuf
  uint64_t broken_at = 0;
};

// Appends the shapes, types and call stack of an operator as the inside of a JSON object, in the
// words of torch's traces; the names of inputs, which torch does not have, are "Input names". False
// if not all of `bytes` could be understood.
bool append_supplement(std::string_view bytes, std::string& fragment, uint64_t& op_id);

class ProtoReader {
 public:
  ProtoReader();
  NodeTrees read(std::string_view file);

 private:
  void read_thread_tree(std::string_view bytes, bool is_cut);
  void read_host_node(std::string_view bytes);
  std::optional<uint32_t> read_host_event(std::string_view bytes);
  void read_runtime_node(std::string_view bytes);
  void read_device_event(std::string_view bytes);
  void read_memory_event(std::string_view bytes);
  void read_kernel_info(uint32_t row, std::string_view bytes);
  void read_memcpy_info(uint32_t row, std::string_view bytes);
  void read_memset_info(uint32_t row, std::string_view bytes);
  void read_supplement(uint32_t row, std::string_view bytes);
  void read_device_property(std::string_view bytes);
  void read_extra_info(std::string_view bytes);

  // What hangs under a host node: from these rows on, when it began to be read.
  struct Marks {
    size_t slice;
    size_t memory;
  };
  void tell_parent(Marks from, int64_t parent);
  void tell_parents_of_nodes();

  // The row of the slice; nothing when the event has no time that could be kept.
  std::optional<uint32_t> add_slice(uint64_t type, std::string_view name, Times times, Track track);
  // The rows of an argument must ascend: each belongs to one kind of event, added in order.
  void add_integer(uint32_t row, IntegerArg arg, uint64_t value);
  void add_correlation(uint32_t row, uint64_t id);
  void add_rest(uint32_t row, const std::string& fragment);
  uint32_t category_of(uint64_t type);
  uint32_t track_id(Track track);
  void count(Oddity what) { ++out_.oddities[static_cast<size_t>(what)]; }

  // A host node of the current thread: its slice, kRoot for the root.
  struct Node {
    int64_t row;
    int64_t parent_id;
  };
  std::vector<Node> nodes_;
  std::vector<int64_t> row_of_id_;  // ids are numbers from 0 on; others are not known as parents

  NodeTrees out_;
  std::map<std::tuple<bool, uint64_t, uint64_t>, uint32_t> track_ids_;
  uint32_t last_track_ = 0;
  std::string fragment_;
};

}  // namespace stepscope::paddle
