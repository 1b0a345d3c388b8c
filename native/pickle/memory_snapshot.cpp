#include "pickle/memory_snapshot.h"

#include <algorithm>
#include <cstring>

namespace stepscope::pickle {
namespace {

constexpr uint32_t kNoDevice = ~0U;

uint64_t mixed(uint64_t hash, uint64_t value) { return (hash ^ value) * 0xff51afd7ed558ccdULL; }

template <typename T>
void give_back(std::vector<T>& items) {
  std::vector<T>().swap(items);
}

// Sums and differences of what is read must fit 64 bits.
int64_t bounded(int64_t number) {
  constexpr int64_t kMost = int64_t{1} << 56;
  return std::clamp(number, -kMost, kMost);
}

}  // namespace

MemorySnapshot::MemorySnapshot() : machine_(*this), keys_{} {
  json::StringTable& texts = machine_.strings;
  keys_ = {
      texts.intern("action"),
      texts.intern("addr"),
      texts.intern("size"),
      texts.intern("stream"),
      texts.intern("time_us"),
      texts.intern("frames"),
      texts.intern("device_free"),
      texts.intern("user_metadata"),
      texts.intern("filename"),
      texts.intern("line"),
      texts.intern("name"),
      texts.intern("segments"),
      texts.intern("device_traces"),
      texts.intern("external_annotations"),
      texts.intern("allocator_settings"),
      texts.intern("device"),
      texts.intern("address"),
      texts.intern("total_size"),
      texts.intern("blocks"),
      texts.intern("state"),
      texts.intern("requested_size"),
      texts.intern("history"),
      texts.intern("real_size"),
      texts.intern("stage"),
  };
}

void MemorySnapshot::on_append(uint32_t list, std::span<Value> items) {
  for (Value& item : items) {
    if (item.kind != Kind::kDict) continue;
    Dict& dict = machine_.dicts[item.at];
    if (dict.fold != kFrame) put_away(list, item, dict);
  }
}

// An event is complete once it is put into a list: it becomes a row, and is gone.
void MemorySnapshot::put_away(uint32_t list, Value& item, Dict& dict) {
  if (dict.fold == kPlain && !fold_dict(dict)) return;
  if (dict.fold != kEvent) return;
  if (events.list[dict.folded] == kNoDevice) {
    events.list[dict.folded] = list;
  } else {  // the same one again
    const uint32_t row = dict.folded;
    events.action.push_back(events.action[row]);
    events.list.push_back(list);
    events.address.push_back(events.address[row]);
    events.size.push_back(events.size[row]);
    events.stream.push_back(events.stream[row]);
    events.time_us.push_back(events.time_us[row]);
    events.stack.push_back(events.stack[row]);
    events.note.push_back(events.note[row]);
  }
  item = {Kind::kOther, {}};  // the list need not hold it
}

bool MemorySnapshot::on_recalled(uint32_t list, std::string_view opcodes) {
  constexpr size_t kMostBytes = 64 << 20;
  List& frames = machine_.lists[list];
  const auto entry = known_runs_.find(opcodes);
  if (entry != known_runs_.end()) {
    frames.is_folded = true;
    frames.folded = entry->second;
    return true;
  }
  if (run_bytes_ > kMostBytes) return false;
  frames_.clear();
  for (size_t at = 0; at < opcodes.size(); at += 5) {
    uint32_t number;
    std::memcpy(&number, opcodes.data() + at + 1, sizeof number);
    const Value* value = machine_.stored(number);
    if (value == nullptr || value->kind != Kind::kFolded) return false;
    frames_.push_back(value->at);
  }
  frames.is_folded = true;
  frames.folded = insert_stack(frames_);
  known_runs_.emplace(opcodes, frames.folded);
  run_bytes_ += opcodes.size();
  return true;
}

void MemorySnapshot::on_set(uint32_t, const Value& key, Value& value) {
  if (key.kind != Kind::kText || key.at != keys_.frames || value.kind != Kind::kList) return;
  stack_of(value.at);
}

bool MemorySnapshot::fold_dict(Dict& dict) {
  bool has_action = false;
  bool has_size = false;
  bool has_file = false;
  for (const auto& [key, value] : dict.items) {
    if (key.kind != Kind::kText) continue;
    has_action = has_action || key.at == keys_.action;
    has_size = has_size || key.at == keys_.size;
    has_file = has_file || key.at == keys_.filename;
  }
  if (has_action && has_size) {
    fold_event(dict);
  } else if (has_file) {
    fold_frame(dict);
  } else {
    return false;
  }
  give_back(dict.items);
  return true;
}

void MemorySnapshot::fold_frame(Dict& dict) {
  const std::string_view file = machine_.strings[text(dict, keys_.filename)];
  const std::string_view name = machine_.strings[text(dict, keys_.name)];
  frame_text_.clear();
  if (!file.empty() && file != "??") {
    frame_text_ += file;
    frame_text_ += '(';
    frame_text_ += std::to_string(number(dict, keys_.line));
    frame_text_ += "): ";
  }
  frame_text_ += name;
  dict.folded = machine_.strings.intern(frame_text_);
  dict.fold = kFrame;
  machine_.replace_stored(dict, dict.folded);
}

void MemorySnapshot::fold_event(Dict& dict) {
  if (events.action.size() >= kNoDevice - 1) throw Malformed("holds too many events");
  dict.folded = static_cast<uint32_t>(events.action.size());
  dict.fold = kEvent;
  const uint32_t where = find(dict, keys_.addr) ? keys_.addr : keys_.device_free;
  events.action.push_back(text(dict, keys_.action));
  events.list.push_back(kNoDevice);
  events.address.push_back(number(dict, where));
  events.size.push_back(bounded(number(dict, keys_.size)));
  events.stream.push_back(number(dict, keys_.stream));
  events.time_us.push_back(bounded(number(dict, keys_.time_us)));
  events.stack.push_back(known_stack(dict));
  events.note.push_back(text(dict, keys_.user_metadata));
}

// Frames are the innermost first; a stack that is known already is found by one look.
uint32_t MemorySnapshot::stack_of(uint32_t number) {
  List& stack = machine_.lists[number];
  if (stack.is_folded) return stack.folded;
  frames_.clear();
  uint64_t hash = stack.items.size();
  for (const Value& item : stack.items) {
    uint32_t frame = item.at;
    if (item.kind == Kind::kDict) {
      Dict& dict = machine_.dicts[item.at];
      if (dict.fold == kPlain) fold_dict(dict);
      if (dict.fold != kFrame) continue;
      frame = dict.folded;
    } else if (item.kind != Kind::kFolded) {
      continue;
    }
    frames_.push_back(frame);
    hash = mixed(hash, frame);
  }
  const auto [entry, is_new] = known_stacks_.try_emplace(hash ^ hash >> 32);
  KnownStack& same = entry->second;
  if (is_new) {
    same = {known_frames_.size(), frames_.size(), insert_stack(frames_)};
    known_frames_.insert(known_frames_.end(), frames_.begin(), frames_.end());
  }
  const uint32_t node = same.is(frames_, known_frames_) ? same.node : insert_stack(frames_);
  give_back(stack.items);
  stack.is_folded = true;
  stack.folded = node;
  return node;
}

uint32_t MemorySnapshot::insert_stack(const std::vector<uint32_t>& frames) {
  uint32_t node = 0;
  for (auto frame = frames.rbegin(); frame != frames.rend(); ++frame) {
    const auto next = static_cast<uint32_t>(stack_frame.size());
    const auto [child, is_new] = children_.emplace(uint64_t{node} << 32 | *frame, next);
    if (is_new) {
      stack_parent.push_back(node);
      stack_frame.push_back(*frame);
    }
    node = child->second;
  }
  return node;
}

const Value* MemorySnapshot::find(const Dict& dict, uint32_t key) const {
  for (auto item = dict.items.rbegin(); item != dict.items.rend(); ++item) {
    if (item->first.kind == Kind::kText && item->first.at == key) return &item->second;
  }
  return nullptr;
}

int64_t MemorySnapshot::number(const Dict& dict, uint32_t key, int64_t absent) const {
  const Value* value = find(dict, key);
  if (value == nullptr) return absent;
  if (value->kind == Kind::kInteger || value->kind == Kind::kBool) return value->integer;
  return absent;
}

uint32_t MemorySnapshot::text(const Dict& dict, uint32_t key) const {
  const Value* value = find(dict, key);
  return value != nullptr && value->kind == Kind::kText ? value->at : 0;
}

const List* MemorySnapshot::list(const Dict& dict, uint32_t key) const {
  const Value* value = find(dict, key);
  return value != nullptr && value->kind == Kind::kList ? &machine_.lists[value->at] : nullptr;
}

const Dict* MemorySnapshot::dict(const Value& value) const {
  return value.kind == Kind::kDict ? &machine_.dicts[value.at] : nullptr;
}

uint32_t MemorySnapshot::known_stack(const Dict& dict) const {
  const List* value = list(dict, keys_.frames);
  return value != nullptr && value->is_folded ? value->folded : 0;
}

void MemorySnapshot::finish() {
  is_whole = machine_.has_stopped();
  known_stacks_.clear();
  known_runs_.clear();
  children_.clear();
  give_back(known_frames_);
  const Value& root = machine_.root();
  if (const Dict* top = dict(root)) {
    const List* all_segments = list(*top, keys_.segments);
    const List* traces = list(*top, keys_.device_traces);
    has_parts = all_segments != nullptr || traces != nullptr;
    if (all_segments != nullptr) add_segments(*all_segments);
    if (const List* all_ranges = list(*top, keys_.external_annotations)) add_ranges(*all_ranges);
    const Value* set = find(*top, keys_.allocator_settings);
    if (const Dict* all = set == nullptr ? nullptr : dict(*set)) {
      for (const auto& [key, value] : all->items) {
        if (key.kind == Kind::kText) settings.emplace_back(key.at, value);
      }
    }
    number_devices(traces);
  } else if (root.kind == Kind::kList && is_whole) {  // torch.cuda.memory_snapshot()
    add_segments(machine_.lists[root.at]);
    has_parts = !segments.device.empty();
    number_devices(nullptr);
  } else {
    number_devices(nullptr);
    has_parts = !events.action.empty();
  }
}

void MemorySnapshot::add_segments(const List& segment_list) {
  for (const Value& item : segment_list.items) {
    const Dict* segment = dict(item);
    if (segment == nullptr || find(*segment, keys_.total_size) == nullptr) continue;
    const int64_t device = number(*segment, keys_.device);
    segments.device.push_back(device);
    segments.address.push_back(number(*segment, keys_.address));
    segments.size.push_back(bounded(number(*segment, keys_.total_size)));
    segments.stream.push_back(number(*segment, keys_.stream));
    add_blocks(*segment, device);
  }
}

// Blocks of earlier versions have no address: they follow each other. Nor have they a requested
// size and a stack, but the history of what they were used for, the latest first.
void MemorySnapshot::add_blocks(const Dict& segment, int64_t device) {
  const List* block_list = list(segment, keys_.blocks);
  if (block_list == nullptr) return;
  auto next = static_cast<uint64_t>(number(segment, keys_.address));
  for (const Value& item : block_list->items) {
    const Dict* block = dict(item);
    if (block == nullptr) continue;
    const int64_t size = bounded(number(*block, keys_.size));
    int64_t requested = number(*block, keys_.requested_size, size);
    uint32_t stack = known_stack(*block);
    const List* history = list(*block, keys_.history);
    if (history != nullptr && !history->items.empty()) {
      if (const Dict* latest = dict(history->items.front())) {
        requested = number(*latest, keys_.real_size, requested);
        stack = known_stack(*latest);
      }
    }
    blocks.device.push_back(device);
    blocks.address.push_back(number(*block, keys_.address, static_cast<int64_t>(next)));
    blocks.size.push_back(size);
    blocks.requested.push_back(bounded(requested));
    blocks.state.push_back(text(*block, keys_.state));
    blocks.stack.push_back(stack);
    next += static_cast<uint64_t>(size);
  }
}

// The lists of events are numbered by their place in the snapshot, and without that as they come.
void MemorySnapshot::number_devices(const List* traces) {
  std::unordered_map<uint32_t, uint32_t> place;
  if (traces != nullptr) {
    for (const Value& item : traces->items) {
      if (item.kind == Kind::kList) place.emplace(item.at, devices);
      ++devices;
    }
  }
  for (uint32_t& at : events.list) {
    const auto [entry, is_new] = place.emplace(at, devices);
    if (is_new) ++devices;
    at = entry->second;
  }
}

void MemorySnapshot::add_ranges(const List& range_list) {
  for (const Value& item : range_list.items) {
    const Dict* range = dict(item);
    if (range == nullptr) continue;
    ranges.device.push_back(number(*range, keys_.device));
    ranges.time_us.push_back(bounded(number(*range, keys_.time_us)));
    ranges.name.push_back(text(*range, keys_.name));
    ranges.stage.push_back(text(*range, keys_.stage));
  }
}

}  // namespace stepscope::pickle
