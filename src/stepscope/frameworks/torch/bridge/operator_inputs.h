// Encodes the inputs of an operator as stepscope_input describes.
#pragma once

#include <ATen/core/ivalue.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "stepscope/core_api.h"

namespace stepscope {
namespace {  // internal linkage helps the compiler to inline: only one file includes this

constexpr uint16_t kNoList = UINT16_MAX;

// A tensor among the inputs, and its position. It exists while its operator begins.
struct InputTensor {
  const at::Tensor* tensor;
  uint16_t position;
  uint16_t place;  // the index in a list of tensors, or kNoList
};

// Reuses its memory. Lists are read in place: a copy would update their reference count, which
// stalls the processor.
class Inputs {
 public:
  // Encode the inputs of an operator that begins; its address identifies it afterwards.
  void encode(const void* its_operator, c10::ArrayRef<const c10::IValue> values) {
    operator_ = its_operator;
    at_ = 0;
    tensor_count_ = 0;
    position_ = 0;
    place_ = kNoList;
    for (const c10::IValue& value : values) {
      put_value(value);
      ++position_;
    }
  }
  // Append the inputs that have names, in the order of the names.
  template <typename Keywords>
  void encode_keywords(const Keywords& keywords) {
    const size_t tensors = tensor_count_;
    std::vector<const typename Keywords::value_type*> pairs;
    for (const auto& pair : keywords) pairs.push_back(&pair);
    std::sort(pairs.begin(), pairs.end(),
              [](const auto* a, const auto* b) { return a->first < b->first; });
    for (const auto* const pair : pairs) {
      put_text(STEPSCOPE_INPUT_KEYWORD, pair->first);
      put_keyword(pair->second);
    }
    tensor_count_ = tensors;  // keywords have no position
  }
  const char* data() const { return bytes_.data(); }
  size_t size() const { return at_; }
  bool are_of(const void* an_operator) const { return operator_ == an_operator; }
  c10::ArrayRef<InputTensor> tensors() const { return {tensors_.data(), tensor_count_}; }

 private:
  // Return space for so many bytes.
  char* room(size_t bytes) {
    if (at_ + bytes > bytes_.size()) bytes_.resize(2 * (at_ + bytes));
    return bytes_.data() + std::exchange(at_, at_ + bytes);
  }
  template <typename T>
  static char* write(char* to, const T& value) {
    std::memcpy(to, &value, sizeof(T));
    return to + sizeof(T);
  }
  static char* write_numbers(char* to, c10::IntArrayRef numbers) {
    for (const int64_t number : numbers) to = write(to, number);
    return to;
  }
  static char* write_mark(char* to, stepscope_input kind) {
    return write(to, static_cast<uint8_t>(kind));
  }

  void put_mark(stepscope_input kind) { write_mark(room(1), kind); }

  template <typename T>
  void put(stepscope_input kind, T value) {
    write(write_mark(room(1 + sizeof(T)), kind), value);
  }

  void put_text(stepscope_input kind, const std::string& text) {
    char* to = room(1 + sizeof(uint32_t) + text.size());
    to = write(write_mark(to, kind), static_cast<uint32_t>(text.size()));
    std::memcpy(to, text.data(), text.size());
  }

  void put_tensor(const at::Tensor& tensor) {
    if (!tensor.defined()) return put_mark(STEPSCOPE_INPUT_OTHER);
    if (tensor_count_ == tensors_.size()) tensors_.resize(2 * tensor_count_);
    tensors_[tensor_count_++] = {&tensor, position_, place_};
    const auto* const impl = tensor.unsafeGetTensorImpl();
    // A nested tensor has no sizes, and symbolic sizes are no numbers.
    if (tensor.is_nested() || impl->has_symbolic_sizes_strides() || impl->dim() > 255) {
      return put_mark(STEPSCOPE_INPUT_OTHER);
    }
    const bool has_strides = tensor.layout() == c10::kStrided;
    const c10::IntArrayRef sizes = impl->sizes();
    char* to = room(3 + (has_strides ? 2 : 1) * sizes.size() * sizeof(int64_t));
    to = write_mark(to, has_strides ? STEPSCOPE_INPUT_TENSOR : STEPSCOPE_INPUT_SIZED);
    to = write(to, static_cast<uint8_t>(tensor.scalar_type()));
    to = write(to, static_cast<uint8_t>(sizes.size()));
    to = write_numbers(to, sizes);
    if (has_strides) write_numbers(to, impl->strides());
  }

  // Only keywords have texts.
  void put_keyword(const c10::IValue& value) {
    if (value.isString()) return put_text(STEPSCOPE_INPUT_TEXT, value.toStringRef());
    if (!value.isList()) return put_value(value);
    const c10::ArrayRef<c10::IValue> values = value.toListRef();
    const auto is_text = [](const c10::IValue& value) { return value.isString(); };
    if (values.empty() || !std::all_of(values.begin(), values.end(), is_text)) {
      return put_value(value);
    }
    put(STEPSCOPE_INPUT_TEXT_LIST, static_cast<uint32_t>(values.size()));
    for (const c10::IValue& value : values) put_text(STEPSCOPE_INPUT_TEXT, value.toStringRef());
  }

  template <typename Number>
  void put_list(stepscope_input kind, const c10::IValue& list, const Number& number) {
    const c10::ArrayRef<c10::IValue> values = list.toListRef();
    using T = decltype(number(values[0]));
    char* to = room(1 + sizeof(uint32_t) + values.size() * sizeof(T));
    to = write(write_mark(to, kind), static_cast<uint32_t>(values.size()));
    for (const c10::IValue& value : values) to = write(to, number(value));
  }

  void put_value(const c10::IValue& value) {
    const auto as_int = [](const c10::IValue& value) { return value.toInt(); };
    const auto as_double = [](const c10::IValue& value) { return value.toDouble(); };
    const auto as_bool = [](const c10::IValue& value) { return value.toBool(); };
    static_assert(std::is_lvalue_reference_v<decltype(value.toTensor())>, "it would not stay");
    if (value.isTensor()) return put_tensor(value.toTensor());
    if (value.isInt()) return put(STEPSCOPE_INPUT_INT, value.toInt());
    if (value.isDouble()) return put(STEPSCOPE_INPUT_DOUBLE, value.toDouble());
    if (value.isBool()) return put(STEPSCOPE_INPUT_BOOL, value.toBool());
    if (!value.isList()) return put_mark(STEPSCOPE_INPUT_OTHER);
    if (value.isIntList()) return put_list(STEPSCOPE_INPUT_INT_LIST, value, as_int);
    if (value.isDoubleList()) return put_list(STEPSCOPE_INPUT_DOUBLE_LIST, value, as_double);
    if (value.isBoolList()) return put_list(STEPSCOPE_INPUT_BOOL_LIST, value, as_bool);
    if (!value.isTensorList()) return put_mark(STEPSCOPE_INPUT_OTHER);
    const c10::ArrayRef<c10::IValue> tensors = value.toListRef();
    put(STEPSCOPE_INPUT_TENSOR_LIST, static_cast<uint32_t>(tensors.size()));
    place_ = 0;
    for (const c10::IValue& tensor : tensors) {
      put_tensor(tensor.toTensor());
      ++place_;
    }
    place_ = kNoList;
  }

  const void* operator_ = nullptr;
  std::vector<char> bytes_ = std::vector<char>(512);
  size_t at_ = 0;
  std::vector<InputTensor> tensors_ = std::vector<InputTensor>(32);
  size_t tensor_count_ = 0;
  uint16_t position_ = 0;
  uint16_t place_ = kNoList;
};

}  // namespace
}  // namespace stepscope
