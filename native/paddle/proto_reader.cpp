#include "paddle/proto_reader.h"

#include <bit>
#include <charconv>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <utility>

#include "json/json_escape.h"
#include "json/utf8.h"
#include "protobuf/wire.h"

namespace stepscope::paddle {
namespace {

using protobuf::Field;
using protobuf::FlatMessage;
using protobuf::Got;
using protobuf::Wire;
using protobuf::WireReader;

constexpr int64_t kNoCorrelation = -1;
constexpr int64_t kIdsPerNode = 64;  // a larger id is no number of a node, but damage
constexpr uint64_t kLatest = std::numeric_limits<int64_t>::max();

// The event of a node.
std::string_view inner(std::string_view bytes) {
  WireReader reader(bytes);
  Field field;
  std::string_view nodes_event;
  while (reader.next(field) == Got::kField) {
    if (field.number == kNodesEvent && field.wire == Wire::kBytes) nodes_event = field.bytes;
  }
  return nodes_event;
}

float as_float(uint64_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits)); }

// The shortest decimal that is this number; JSON has no others than finite ones.
void append_number(std::string& out, float value) {
  if (!std::isfinite(value)) value = 0;
  std::array<char, 32> digits;
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
  out.append(digits.data(), end);
}

void append_triple(std::string& out, const char* key, const uint64_t* values) {
  out += key;
  for (int i = 0; i < 3; ++i) {
    out += i == 0 ? "[" : ", ";
    out += std::to_string(values[i]);
  }
  out += "]";
}

}  // namespace

ProtoReader::ProtoReader() {
  for (const char* name : kEventTypeNames) out_.strings.intern(name);  // their ids: type + 1
}

NodeTrees ProtoReader::read(std::string_view bytes) {
  WireReader reader(bytes);
  Field field;
  Got got = Got::kField;
  while ((got = reader.next(field)) == Got::kField || got == Got::kCut) {
    const bool is_cut = got == Got::kCut;
    const bool is_bytes = field.wire == Wire::kBytes;
    if (is_bytes && field.number == file::kThreadTree) read_thread_tree(field.bytes, is_cut);
    if (is_cut) break;
    if (field.number == file::kSpanIndex && field.wire == Wire::kVarint) {
      out_.span_index = field.value;
    }
    if (!is_bytes) continue;
    if (field.number == file::kVersion) {
      out_.version = json::valid_utf8(field.bytes);
      out_.has_version = true;
    } else if (field.number == file::kExtraInfo) {
      read_extra_info(field.bytes);
    } else if (field.number == file::kDeviceProperty) {
      read_device_property(field.bytes);
    }
  }
  out_.ends_early = got == Got::kCut;
  out_.is_broken = got == Got::kBroken;
  out_.broken_at = reader.position();
  if (!out_.rest.empty()) out_.rest.resize(out_.name.size());
  return std::move(out_);
}

void ProtoReader::read_thread_tree(std::string_view bytes, bool is_cut) {
  WireReader reader(bytes);
  Field field;
  Got got = Got::kField;
  while ((got = reader.next(field)) == Got::kField) {
    if (field.number == thread_tree::kHostNode && field.wire == Wire::kBytes) {
      read_host_node(field.bytes);
    }
  }
  tell_parents_of_nodes();
  // Where the file ends in the middle of a node, the node is lost and nothing is malformed.
  if (got == Got::kBroken || (got == Got::kCut && !is_cut)) count(Oddity::kMalformed);
}

void ProtoReader::read_host_node(std::string_view bytes) {
  WireReader reader(bytes);
  Field field;
  Got got = Got::kField;
  std::optional<uint32_t> row;
  std::optional<int64_t> id;
  int64_t parent_id = kNoParent;
  bool is_event = false;
  std::string_view supplement;
  Marks from = {out_.name.size(), out_.memory.time_ns.size()};
  while ((got = reader.next(field)) == Got::kField) {
    if (field.wire == Wire::kVarint) {
      if (field.number == host_node::kId) id = static_cast<int64_t>(field.value);
      if (field.number == host_node::kParentId) parent_id = static_cast<int64_t>(field.value);
    }
    if (field.wire != Wire::kBytes) continue;
    switch (field.number) {
      case host_node::kEvent:
        row = read_host_event(field.bytes);
        is_event = true;
        from.slice += row.has_value();
        break;
      case host_node::kRuntimeNode:
        read_runtime_node(field.bytes);
        break;
      case host_node::kMemoryNode:
        read_memory_event(inner(field.bytes));
        break;
      case host_node::kSupplementNode:
        supplement = field.bytes;
        break;
      default:
        break;
    }
  }
  if (got != Got::kEnd) count(Oddity::kMalformed);
  if (row && !supplement.empty()) read_supplement(*row, inner(supplement));
  if (!is_event) return;
  const int64_t node = row ? int64_t{*row} : NodeTrees::kRoot;
  tell_parent(from, node);
  nodes_.push_back({node, parent_id});
  if (!id || *id < 0 || *id > kIdsPerNode * static_cast<int64_t>(nodes_.size())) return;
  const auto place = static_cast<size_t>(*id);
  if (place >= row_of_id_.size()) row_of_id_.resize(place + 1, NodeTrees::kUntold);
  row_of_id_[place] = node;
}

// Runtime calls and memory events of a node, which stand in it, behind its own event.
void ProtoReader::tell_parent(Marks from, int64_t parent) {
  for (size_t row = from.slice; row < out_.name.size(); ++row) {
    if (out_.category[row] == kCudaRuntime + 1) out_.parent[row] = parent;
  }
  for (size_t row = from.memory; row < out_.memory.parent.size(); ++row) {
    out_.memory.parent[row] = parent;
  }
}

// A node may stand before its parent: all must be known.
void ProtoReader::tell_parents_of_nodes() {
  for (const Node& node : nodes_) {
    if (node.row < 0 || node.parent_id < 0) continue;
    const auto place = static_cast<size_t>(node.parent_id);
    if (place < row_of_id_.size()) out_.parent[static_cast<size_t>(node.row)] = row_of_id_[place];
  }
  nodes_.clear();
  row_of_id_.clear();
}

std::optional<uint32_t> ProtoReader::read_host_event(std::string_view bytes) {
  namespace e = host_event;
  FlatMessage<e::kFields> event;
  if (!event.read(bytes)) {
    count(Oddity::kMalformed);
    return {};
  }
  const Times times = {event.has(e::kStart) && event.has(e::kEnd), event.number[e::kStart],
                       event.number[e::kEnd]};
  if (times.are_known && times.start_ns == 0 && times.end_ns == kEndOfTime) return {};  // the root
  return add_slice(event.has(e::kType) ? event.number[e::kType] : uint64_t{kEventTypes},
                   event.text[e::kName], times,
                   {false, event.number[e::kProcess], event.number[e::kThread]});
}

void ProtoReader::read_runtime_node(std::string_view bytes) {
  namespace e = runtime_event;
  FlatMessage<e::kFields> event;
  if (!event.read(inner(bytes))) {
    count(Oddity::kMalformed);
  } else if (event.text[e::kName] != kNoLaunch) {
    const Times times = {event.has(e::kStart) && event.has(e::kEnd), event.number[e::kStart],
                         event.number[e::kEnd]};
    const Track track = {false, event.number[e::kProcess], event.number[e::kThread]};
    if (const auto row = add_slice(kCudaRuntime, event.text[e::kName], times, track)) {
      add_correlation(*row, event.number[e::kCorrelation]);
      add_integer(*row, IntegerArg::kCallback, event.number[e::kCallback]);
    }
  }
  WireReader reader(bytes);
  Field field;
  while (reader.next(field) == Got::kField) {
    if (field.number == runtime_node::kDeviceNode && field.wire == Wire::kBytes) {
      read_device_event(inner(field.bytes));
    }
  }
}

void ProtoReader::read_device_event(std::string_view bytes) {
  namespace e = device_event;
  FlatMessage<e::kFields> event;
  if (!event.read(bytes)) return count(Oddity::kMalformed);
  const Times times = {event.has(e::kStart) && event.has(e::kEnd), event.number[e::kStart],
                       event.number[e::kEnd]};
  const auto row = add_slice(event.has(e::kType) ? event.number[e::kType] : uint64_t{kEventTypes},
                             event.text[e::kName], times,
                             {true, event.number[e::kDevice], event.number[e::kStream]});
  if (!row) return;
  add_correlation(*row, event.number[e::kCorrelation]);
  add_integer(*row, IntegerArg::kDevice, event.number[e::kDevice]);
  add_integer(*row, IntegerArg::kContext, event.number[e::kContext]);
  add_integer(*row, IntegerArg::kStream, event.number[e::kStream]);
  // One of the three; where a file has more, the first.
  if (event.has(e::kKernel)) {
    read_kernel_info(*row, event.text[e::kKernel]);
  } else if (event.has(e::kMemcpy)) {
    read_memcpy_info(*row, event.text[e::kMemcpy]);
  } else if (event.has(e::kMemset)) {
    read_memset_info(*row, event.text[e::kMemset]);
  }
}

void ProtoReader::read_kernel_info(uint32_t row, std::string_view bytes) {
  namespace k = kernel_info;
  FlatMessage<k::kFields> info;
  if (!info.read(bytes)) count(Oddity::kMalformed);
  const auto add = [&](IntegerArg arg, uint32_t field) {
    add_integer(row, arg, info.number[field]);
  };
  add(IntegerArg::kRegisters, k::kRegisters);
  add_integer(row, IntegerArg::kSharedMemory,
              info.number[k::kDynamicSharedMemory] + info.number[k::kStaticSharedMemory]);
  const std::pair<IntegerArg, uint32_t> rare[] = {
      {IntegerArg::kDynamicSharedMemory, k::kDynamicSharedMemory},
      {IntegerArg::kLocalMemoryPerThread, k::kLocalMemoryPerThread},
      {IntegerArg::kLocalMemoryTotal, k::kLocalMemoryTotal},
      {IntegerArg::kQueued, k::kQueued},
      {IntegerArg::kSubmitted, k::kSubmitted},
      {IntegerArg::kCompleted, k::kCompleted},
  };
  for (const auto& [arg, field] : rare) {
    if (info.number[field] != 0) add(arg, field);
  }
  fragment_.assign("\"blocks per SM\": ");
  append_number(fragment_, as_float(info.number[k::kBlocksPerSm]));
  fragment_ += ", \"warps per SM\": ";
  append_number(fragment_, as_float(info.number[k::kWarpsPerSm]));
  append_triple(fragment_, ", \"grid\": ", &info.number[k::kGridX]);
  append_triple(fragment_, ", \"block\": ", &info.number[k::kBlockX]);
  fragment_ += ", \"theoretical achieved occupancy %\": ";
  append_number(fragment_, as_float(info.number[k::kOccupancy]) * 100);
  add_rest(row, fragment_);
}

void ProtoReader::read_memcpy_info(uint32_t row, std::string_view bytes) {
  namespace m = memcpy_info;
  FlatMessage<m::kFields> info;
  if (!info.read(bytes)) count(Oddity::kMalformed);
  add_integer(row, IntegerArg::kBytes, info.number[m::kBytes]);
  fragment_.assign("\"copy kind\": ") += json::quoted(info.text[m::kCopyKind]);
  (fragment_ += ", \"src kind\": ") += json::quoted(info.text[m::kSourceKind]);
  (fragment_ += ", \"dst kind\": ") += json::quoted(info.text[m::kTargetKind]);
  add_rest(row, fragment_);
}

void ProtoReader::read_memset_info(uint32_t row, std::string_view bytes) {
  namespace m = memset_info;
  FlatMessage<m::kFields> info;
  if (!info.read(bytes)) count(Oddity::kMalformed);
  add_integer(row, IntegerArg::kBytes, info.number[m::kBytes]);
  add_integer(row, IntegerArg::kValue, info.number[m::kValue]);
  fragment_.assign("\"memory kind\": ") += json::quoted(info.text[m::kMemoryKind]);
  add_rest(row, fragment_);
}

void ProtoReader::read_memory_event(std::string_view bytes) {
  namespace e = memory_event;
  FlatMessage<e::kFields> event;
  if (!event.read(bytes)) return count(Oddity::kMalformed);
  if (!event.has(e::kTime)) return count(Oddity::kNoTime);
  if (event.number[e::kTime] > kLatest) return count(Oddity::kTimeOutOfRange);
  if (event.number[e::kType] >= kMemoryTypes) return count(Oddity::kUnknownType);
  const auto number = [&](uint32_t field) { return static_cast<int64_t>(event.number[field]); };
  NodeTrees::Memory& memory = out_.memory;
  memory.time_ns.push_back(number(e::kTime));
  memory.type.push_back(static_cast<uint8_t>(event.number[e::kType]));
  memory.address.push_back(number(e::kAddress));
  memory.increase.push_back(number(e::kIncrease));
  memory.place.push_back(out_.strings.intern_text(event.text[e::kPlace]));
  memory.allocated.push_back(number(e::kAllocated));
  memory.reserved.push_back(number(e::kReserved));
  memory.peak_allocated.push_back(number(e::kPeakAllocated));
  memory.peak_reserved.push_back(number(e::kPeakReserved));
  memory.parent.push_back(NodeTrees::kUntold);
  memory.track.push_back(track_id({false, event.number[e::kProcess], event.number[e::kThread]}));
}

void ProtoReader::read_supplement(uint32_t row, std::string_view bytes) {
  uint64_t op_id = 0;
  fragment_.clear();
  if (!append_supplement(bytes, fragment_, op_id)) count(Oddity::kMalformed);
  if (op_id != 0) add_integer(row, IntegerArg::kOpId, op_id);
  if (!fragment_.empty()) add_rest(row, fragment_);
}

void ProtoReader::read_extra_info(std::string_view bytes) {
  FlatMessage<extra_info::kFields> pair;
  if (!pair.read(bytes)) return count(Oddity::kMalformed);
  out_.extra_info.emplace_back(json::valid_utf8(pair.text[extra_info::kKey]),
                               json::valid_utf8(pair.text[extra_info::kValue]));
}

void ProtoReader::read_device_property(std::string_view bytes) {
  FlatMessage<device_property::kFields> property;
  if (!property.read(bytes)) return count(Oddity::kMalformed);
  out_.device_properties.push_back(
      {json::valid_utf8(property.text[device_property::kName]), property.number});
}

std::optional<uint32_t> ProtoReader::add_slice(uint64_t type, std::string_view name, Times times,
                                               Track track) {
  if (!times.are_known || times.start_ns > kLatest || times.end_ns > kLatest) {
    count(times.are_known ? Oddity::kTimeOutOfRange : Oddity::kNoTime);
    return {};
  }
  const bool is_backwards = times.end_ns < times.start_ns;
  if (is_backwards) count(Oddity::kNegativeDuration);
  const size_t row = out_.name.size();
  if (row == std::numeric_limits<uint32_t>::max()) {
    throw std::length_error("more than four billion events");
  }
  out_.category.push_back(category_of(type));
  out_.name.push_back(out_.strings.intern_text(name));
  out_.track.push_back(track_id(track));
  out_.start_ns.push_back(static_cast<int64_t>(times.start_ns));
  out_.duration_ns.push_back(is_backwards ? 0
                                          : static_cast<int64_t>(times.end_ns - times.start_ns));
  out_.correlation.push_back(kNoCorrelation);
  out_.parent.push_back(NodeTrees::kUntold);
  return static_cast<uint32_t>(row);
}

void ProtoReader::add_correlation(uint32_t row, uint64_t id) {
  out_.correlation[row] = static_cast<uint32_t>(id);
  add_integer(row, IntegerArg::kCorrelation, static_cast<uint32_t>(id));
}

void ProtoReader::add_integer(uint32_t row, IntegerArg arg, uint64_t value) {
  NodeTrees::Integers& column = out_.integers[static_cast<size_t>(arg)];
  column.rows.push_back(row);
  column.values.push_back(static_cast<int64_t>(value));
}

void ProtoReader::add_rest(uint32_t row, const std::string& fragment) {
  out_.rest.resize(out_.name.size());
  out_.rest[row] = out_.strings.intern(fragment);
}

uint32_t ProtoReader::category_of(uint64_t type) {
  if (type < kEventTypes) return static_cast<uint32_t>(type) + 1;
  count(Oddity::kUnknownType);
  return kUserDefined + 1;
}

uint32_t ProtoReader::track_id(Track track) {
  const auto is_same = [&](const Track& other) {
    return other.thread == track.thread && other.process == track.process &&
           other.is_device == track.is_device;
  };
  if (!out_.tracks.empty() && is_same(out_.tracks[last_track_])) return last_track_;
  const auto [place, is_new] = track_ids_.try_emplace(
      {track.is_device, track.process, track.thread}, static_cast<uint32_t>(out_.tracks.size()));
  if (is_new) out_.tracks.push_back(track);
  return last_track_ = place->second;
}

}  // namespace stepscope::paddle
