// Finds where in a TorchScript program an operator was called: frames of its source, and modules.
//
// The result is that of torch.profiler. The required functions of torch are declared here, as the
// headers for ahead-of-time builds lack them. Each may be missing.
#pragma once

#include <ATen/record_function.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tensor_notes.h"

namespace torch::jit {

// Has torch 2.13's layout as far as its destructor needs it: a range of source begins with the
// pointer to it and ends with plain numbers.
struct StackEntry {
  std::string filename;
  std::shared_ptr<void> source;
  size_t numbers[7];
};
__attribute__((weak)) std::vector<StackEntry> currentCallstack();
__attribute__((weak)) std::vector<std::string> currentModuleHierarchy();

}  // namespace torch::jit

namespace torch::profiler::impl {

struct FileLineFunc {
  std::string filename;
  size_t line;
  std::string funcname;
};
__attribute__((weak)) std::vector<FileLineFunc> prepareCallstack(
    const std::vector<jit::StackEntry>& entries);

}  // namespace torch::profiler::impl

namespace stepscope {
namespace {

constexpr uint16_t kScript = UINT16_MAX - 1;  // as a position: texts replace addresses

// Texts by number, from 1; few, and never freed.
std::mutex texts_mutex;
std::unordered_map<std::string, uint64_t>& text_numbers() {
  static auto* const all = new std::unordered_map<std::string, uint64_t>;
  return *all;
}
std::vector<const std::string*>& texts_by_number() {
  static auto* const all = new std::vector<const std::string*>;
  return *all;
}

uint64_t number_of(const std::string& text) {
  if (text.empty()) return 0;
  const std::lock_guard<std::mutex> lock(texts_mutex);
  const auto [entry, is_new] = text_numbers().try_emplace(text, texts_by_number().size() + 1);
  if (is_new) texts_by_number().push_back(&entry->first);
  return entry->second;
}

// Check that entries have the layout declared above: a string contains its own address.
bool are_as_declared(const std::vector<torch::jit::StackEntry>& entries) {
  const auto* const ends = reinterpret_cast<const char* const*>(&entries);  // begin and end
  if ((ends[1] - ends[0]) % static_cast<ptrdiff_t>(sizeof(torch::jit::StackEntry))) return false;
  for (const auto& entry : entries) {
    const std::string& name = entry.filename;
    const auto* const inside = reinterpret_cast<const char*>(&name) + 2 * sizeof(void*);
    if (name.size() > UINT16_MAX || name.capacity() < name.size()) return false;
    if (name.data() != inside && name.capacity() < 2 * sizeof(void*)) return false;
  }
  return true;
}

// The frames, one per line, the innermost first.
std::string script_frames() {
  using torch::profiler::impl::prepareCallstack;
  static std::atomic<bool> can_be_read{true};
  if (!torch::jit::currentCallstack || !prepareCallstack || !can_be_read) return {};
  auto entries = torch::jit::currentCallstack();
  if (entries.empty()) return {};
  if (!are_as_declared(entries)) {
    can_be_read = false;
    new std::vector<torch::jit::StackEntry>(std::move(entries));  // we cannot destroy it
    return {};
  }
  std::string text;
  for (const auto& frame : prepareCallstack(entries)) {
    text += frame.filename + "(" + std::to_string(frame.line) + "): " + frame.funcname + "\n";
  }
  return text;
}

std::string script_modules() {
  if (!torch::jit::currentModuleHierarchy) return {};
  std::string text;
  for (const std::string& module : torch::jit::currentModuleHierarchy()) text += module + ".";
  return text;
}

[[gnu::noinline]] void note_script(const at::RecordFunction& fn, const OpenSlice& slice,
                                   int wanted) {
  if (fn.scope() == at::RecordScope::BACKWARD_FUNCTION) return;
  TensorNote note{};
  if (wanted & kScriptFrames) note.impl = number_of(script_frames());
  if (wanted & kScriptModules) note.storage = number_of(script_modules());
  if (!note.impl && !note.storage) return;
  note.start_ticks = slice.record.start_ticks;
  note.thread = static_cast<uint32_t>(fn.threadId());
  note.position = kScript;
  const MyNotes to;
  if (to) to->add(note);
}

const char* text_of_number(uint64_t number) {
  const std::lock_guard<std::mutex> lock(texts_mutex);
  return number && number <= texts_by_number().size() ? texts_by_number()[number - 1]->c_str() : "";
}

}  // namespace
}  // namespace stepscope
