// PyTorch's memory snapshots: events, blocks and segments of its allocator, from a pickle.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "pickle/machine.h"

namespace stepscope::pickle {

// A row each for what the allocator did, in the order of the file.
struct SnapshotEvents {
  std::vector<uint32_t> action;  // string id
  std::vector<uint32_t> list;    // which list of events it stands in; a device each
  std::vector<int64_t> address;
  std::vector<int64_t> size;
  std::vector<int64_t> stream;
  std::vector<int64_t> time_us;
  std::vector<uint32_t> stack;
  std::vector<uint32_t> note;  // string id: what the user said of it
};

struct SnapshotBlocks {
  std::vector<int64_t> device;
  std::vector<int64_t> address;
  std::vector<int64_t> size;
  std::vector<int64_t> requested;
  std::vector<uint32_t> state;  // string id
  std::vector<uint32_t> stack;
};

struct SnapshotSegments {
  std::vector<int64_t> device;
  std::vector<int64_t> address;
  std::vector<int64_t> size;
  std::vector<int64_t> stream;
};

struct SnapshotRanges {
  std::vector<int64_t> device;
  std::vector<int64_t> time_us;
  std::vector<uint32_t> name;   // string id
  std::vector<uint32_t> stage;  // string id: START, END
};

class MemorySnapshot final : private Observer {
 public:
  SnapshotEvents events;
  SnapshotBlocks blocks;
  SnapshotSegments segments;
  SnapshotRanges ranges;
  std::vector<uint32_t> stack_parent{0};             // the tree of stacks; row 0 is the empty one
  std::vector<uint32_t> stack_frame{0};              // string id
  std::vector<std::pair<uint32_t, Value>> settings;  // of the allocator
  uint32_t devices = 0;                              // lists of events
  bool has_parts = false;                            // the pickle is a snapshot
  bool is_whole = false;

  MemorySnapshot();
  MemorySnapshot(const MemorySnapshot&) = delete;  // its parts point at each other
  MemorySnapshot& operator=(const MemorySnapshot&) = delete;

  void feed(std::string_view text) { machine_.feed(text); }
  uint64_t position() const { return machine_.position(); }
  // Fills what is not events; nothing may be fed after it.
  void finish();
  json::StringTable& strings() { return machine_.strings; }

 private:
  enum Fold : uint8_t { kPlain, kFrame, kEvent };

  void on_append(uint32_t list, std::span<Value> items) override;
  bool on_recalled(uint32_t list, std::string_view opcodes) override;
  void on_stored_again() override { known_runs_.clear(); }
  void put_away(uint32_t list, Value& item, Dict& dict);
  void on_set(uint32_t dict, const Value& key, Value& value) override;

  bool fold_dict(Dict& dict);
  void fold_frame(Dict& dict);
  void fold_event(Dict& dict);
  uint32_t stack_of(uint32_t list);
  uint32_t insert_stack(const std::vector<uint32_t>& frames);

  const Value* find(const Dict& dict, uint32_t key) const;
  int64_t number(const Dict& dict, uint32_t key, int64_t absent = 0) const;
  uint32_t text(const Dict& dict, uint32_t key) const;
  const List* list(const Dict& dict, uint32_t key) const;
  uint32_t known_stack(const Dict& dict) const;
  const Dict* dict(const Value& value) const;

  void add_segments(const List& segment_list);
  void add_blocks(const Dict& segment, int64_t device);
  void number_devices(const List* traces);
  void add_ranges(const List& range_list);

  Machine machine_;
  struct KnownStack {
    size_t first = 0;  // in known_frames_
    size_t size = 0;
    uint32_t node = 0;

    bool is(const std::vector<uint32_t>& frames, const std::vector<uint32_t>& all_frames) const {
      return size == frames.size() &&
             std::equal(frames.begin(), frames.end(),
                        all_frames.begin() + static_cast<ptrdiff_t>(first));
    }
  };
  std::unordered_map<uint64_t, KnownStack> known_stacks_;  // by the hash of their frames
  std::vector<uint32_t> known_frames_;
  struct TextHash {
    using is_transparent = void;
    size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
  };
  // Stacks by the pickle's opcodes that recall their frames; limited to some MiB of opcodes.
  std::unordered_map<std::string, uint32_t, TextHash, std::equal_to<>> known_runs_;
  size_t run_bytes_ = 0;
  std::unordered_map<uint64_t, uint32_t> children_;  // by parent and frame
  std::vector<uint32_t> frames_;                     // of the stack that is being folded
  std::string frame_text_;
  struct Keys {
    uint32_t action, addr, size, stream, time_us, frames, device_free, user_metadata;
    uint32_t filename, line, name;
    uint32_t segments, device_traces, external_annotations, allocator_settings;
    uint32_t device, address, total_size, blocks, state, requested_size, history, real_size, stage;
  } keys_;
};

}  // namespace stepscope::pickle
