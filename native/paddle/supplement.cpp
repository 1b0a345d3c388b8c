// What Paddle tells of an operator beside its time.
#include <string>
#include <vector>

#include "json/json_escape.h"
#include "paddle/proto_reader.h"
#include "protobuf/wire.h"

namespace stepscope::paddle {
namespace {

using protobuf::Field;
using protobuf::FlatMessage;
using protobuf::Got;
using protobuf::Wire;
using protobuf::WireReader;

constexpr uint32_t kItem = 1;  // the only field of all lists

struct NamedInputs {
  std::string names;  // of every input, as JSON
  std::string items;
  bool is_whole = true;
};

void append_item(std::string& list, std::string_view item) {
  if (!list.empty()) list += ", ";
  list += item;
}

// Sizes stand one a field, or packed into one.
bool append_sizes(std::string_view bytes, std::string& out) {
  WireReader reader(bytes);
  Field field;
  std::string sizes;
  Got got = Got::kField;
  while ((got = reader.next(field)) == Got::kField) {
    if (field.number != kItem) continue;
    if (field.wire == Wire::kVarint) {
      append_item(sizes, std::to_string(static_cast<int64_t>(field.value)));
    } else if (field.wire == Wire::kBytes) {
      WireReader packed(field.bytes);
      for (uint64_t size = 0; packed.varint(size) == Got::kField;) {
        append_item(sizes, std::to_string(static_cast<int64_t>(size)));
      }
    }
  }
  append_item(out, "[" + sizes + "]");
  return got == Got::kEnd;
}

bool append_dtype(std::string_view bytes, std::string& out) {
  append_item(out, json::quoted(bytes));
  return true;
}

// Every name has a list of inputs; each becomes an item, and its name is said again.
template <typename Append>
NamedInputs read_inputs(std::string_view bytes, Append append) {
  NamedInputs inputs;
  std::vector<std::string_view> keys, lists;
  WireReader reader(bytes);
  Field field;
  Got got = Got::kField;
  while ((got = reader.next(field)) == Got::kField) {
    if (field.wire != Wire::kBytes) continue;
    if (field.number == keyed::kKey) keys.push_back(field.bytes);
    if (field.number == keyed::kList) lists.push_back(field.bytes);
  }
  inputs.is_whole = got == Got::kEnd && keys.size() == lists.size();
  for (size_t i = 0; i < lists.size() && i < keys.size(); ++i) {
    WireReader items(lists[i]);
    while ((got = items.next(field)) == Got::kField) {
      if (field.number != kItem || field.wire != Wire::kBytes) continue;
      append_item(inputs.names, json::quoted(keys[i]));
      inputs.is_whole &= append(field.bytes, inputs.items);
    }
    inputs.is_whole &= got == Got::kEnd;
  }
  return inputs;
}

void append_list(std::string& fragment, std::string_view key, const std::string& items) {
  if (items.empty()) return;
  append_item(fragment, "\"" + std::string(key) + "\": [" + items + "]");
}

}  // namespace

bool append_supplement(std::string_view bytes, std::string& fragment, uint64_t& op_id) {
  FlatMessage<supplement::kFields> event;
  const bool is_whole = event.read(bytes);
  const NamedInputs shapes = read_inputs(event.text[supplement::kShapes], append_sizes);
  const NamedInputs dtypes = read_inputs(event.text[supplement::kDtypes], append_dtype);
  append_list(fragment, "Input Dims", shapes.items);
  append_list(fragment, "Input type", dtypes.items);
  append_list(fragment, "Input names", shapes.items.empty() ? dtypes.names : shapes.names);
  if (!shapes.items.empty() && !dtypes.items.empty() && shapes.names != dtypes.names) {
    append_list(fragment, "Input type names", dtypes.names);
  }
  if (const std::string_view type = event.text[supplement::kOpType]; !type.empty()) {
    append_item(fragment, "\"Op type\": " + json::quoted(type));
  }
  if (const std::string_view stack = event.text[supplement::kCallStack]; !stack.empty()) {
    append_item(fragment, "\"Call stack\": " + json::quoted(stack));
  }
  op_id = event.number[supplement::kOpId];
  return is_whole && shapes.is_whole && dtypes.is_whole;
}

}  // namespace stepscope::paddle
