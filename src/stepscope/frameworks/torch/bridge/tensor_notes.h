// Which tensors operators were called with: where they and their storages stand.
//
// Kept here and not by the core, which interns inputs: addresses are hardly ever the same twice.
// The objects of noted tensors are kept, without what they hold: an address stands for one tensor.
#pragma once

#include <ATen/record_function.h>
#include <c10/core/TensorImpl.h>
#include <c10/core/UndefinedTensorImpl.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "bridge_state.h"

namespace stepscope {
namespace {

// As frameworks/torch/tensor_notes.py reads it.
struct TensorNote {
  uint64_t start_ticks;  // of the operator's slice
  uint64_t impl;
  uint64_t storage;  // where its data begins
  uint32_t thread;   // torch's own number of it
  uint16_t position;
  uint16_t place;  // in a list of tensors; kNoList: it is in none
  uint8_t device_type;
  int8_t device_index;
  uint8_t type;
  uint8_t layout;
};
static_assert(sizeof(TensorNote) == 40, "Python knows its layout");

constexpr uint16_t kNoList = UINT16_MAX;
constexpr uint16_t kFunctionId = UINT16_MAX;  // as a position: a note of note_function()

std::atomic<bool> notes_tensors{false};

using HeldTensor = c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>;

// One a thread; whoever reads it locks it.
struct ThreadNotes {
  std::mutex mutex;
  std::vector<TensorNote> notes;
  std::vector<HeldTensor> held;
};

std::mutex notes_mutex;
std::vector<std::shared_ptr<ThreadNotes>>& all_notes() {
  static auto* const all = new std::vector<std::shared_ptr<ThreadNotes>>;
  return *all;
}

ThreadNotes& my_notes() {
  thread_local const std::shared_ptr<ThreadNotes> mine = [] {
    auto made = std::make_shared<ThreadNotes>();
    const std::lock_guard<std::mutex> lock(notes_mutex);
    all_notes().push_back(made);
    return made;
  }();
  return *mine;
}

void note_tensor(ThreadNotes& to, TensorNote note, const at::Tensor& tensor) {
  if (!tensor.defined()) return;
  const auto* const impl = tensor.unsafeGetTensorImpl();
  note.impl = reinterpret_cast<uintptr_t>(impl);
  const c10::Storage& storage = impl->unsafe_storage();  // of none that has one: null
  if (storage.unsafeGetStorageImpl()) {
    note.storage = reinterpret_cast<uintptr_t>(storage.data());
  }
  const c10::Device device = impl->device();
  note.device_type = static_cast<uint8_t>(device.type());
  note.device_index = device.index();
  note.type = static_cast<uint8_t>(tensor.scalar_type());
  note.layout = static_cast<uint8_t>(tensor.layout());
  to.notes.push_back(note);
  // What an operator passes on to the next one is held already.
  if (to.held.empty() || to.held.back()._unsafe_get_target() != impl) {
    to.held.emplace_back(tensor.getIntrusivePtr());
  }
}

[[gnu::noinline]] void note_tensors(const at::RecordFunction& fn, const OpenSlice& slice) {
  ThreadNotes& to = my_notes();
  const std::lock_guard<std::mutex> lock(to.mutex);
  TensorNote note{};
  note.start_ticks = slice.record.start_ticks;
  note.thread = static_cast<uint32_t>(fn.threadId());
  for (const c10::IValue& value : fn.inputs()) {
    note.place = kNoList;
    if (value.isTensor()) {
      note_tensor(to, note, value.toTensor());
    } else if (value.isTensorList()) {
      note.place = 0;
      for (const c10::IValue& each : value.toListRef()) {
        note_tensor(to, note, each.toTensor());
        ++note.place;
      }
    }
    ++note.position;
  }
}

// The number by which torch's observers know this call of a function.
[[gnu::noinline, gnu::cold]] void note_function(const at::RecordFunction& fn,
                                                const OpenSlice& slice) {
  ThreadNotes& to = my_notes();
  const std::lock_guard<std::mutex> lock(to.mutex);
  TensorNote note{};
  note.start_ticks = slice.record.start_ticks;
  note.impl = fn.handle();
  note.thread = static_cast<uint32_t>(fn.threadId());
  note.position = kFunctionId;
  to.notes.push_back(note);
}

// All that is kept, as it is now.
std::vector<TensorNote> tensor_notes() {
  const std::lock_guard<std::mutex> lock(notes_mutex);
  std::vector<TensorNote> found;
  for (const auto& each : all_notes()) {
    const std::lock_guard<std::mutex> its_lock(each->mutex);
    found.insert(found.end(), each->notes.begin(), each->notes.end());
  }
  return found;
}

void forget_tensors() {
  const std::lock_guard<std::mutex> lock(notes_mutex);
  std::vector<std::shared_ptr<ThreadNotes>> alive;
  for (const auto& each : all_notes()) {
    const std::lock_guard<std::mutex> its_lock(each->mutex);
    std::vector<TensorNote>().swap(each->notes);
    std::vector<HeldTensor>().swap(each->held);
    if (each.use_count() > 1) alive.push_back(each);
  }
  all_notes().swap(alive);
}

}  // namespace
}  // namespace stepscope
