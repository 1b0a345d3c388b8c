// Which tensors operators were called with: where they and their storages stand.
//
// Kept here and not by the core, which interns inputs: addresses are hardly ever the same twice.
// The objects of noted tensors are kept, without what they hold: an address stands for one tensor.
#pragma once

#include <ATen/record_function.h>
#include <c10/core/TensorImpl.h>
#include <c10/core/UndefinedTensorImpl.h>
#include <sys/mman.h>

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <new>
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

// What is wanted of an operator beyond its slice: mostly nothing, and one word tells.
enum Note : int {
  kTensorsOf = 1,
  kScriptFrames = 2,
  kScriptModules = 4,
  kNumbered = 8,  // not wanted but seen: the last function that began was numbered for an observer
};
std::atomic<int> notes_wanted{0};

using HeldTensor = c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>;

// Notes in pages of our own, which come in by the block: a page fault costs more than a note, and
// in the program's heap they would take the room that its next tensors need.
class NoteBlocks {
 public:
  NoteBlocks() = default;
  NoteBlocks(const NoteBlocks&) = delete;
  NoteBlocks& operator=(const NoteBlocks&) = delete;
  ~NoteBlocks() { clear(); }

  void add(const TensorNote& note) {
    if (next_ == end_) add_block();
    *next_++ = note;
  }

  void append_to(std::vector<TensorNote>& found) const {
    for (const TensorNote* const block : blocks_) {
      const bool is_last = block == blocks_.back();
      found.insert(found.end(), block, is_last ? next_ : block + kNotes);
    }
  }

  void clear() {
    for (TensorNote* const block : blocks_) munmap(block, kBytes);
    blocks_.clear();
    next_ = end_ = nullptr;
  }

 private:
  static constexpr size_t kBytes = size_t{1} << 17;
  static constexpr size_t kNotes = kBytes / sizeof(TensorNote);

  [[gnu::noinline, gnu::cold]] void add_block() {
    blocks_.reserve(blocks_.size() + 1);
    void* const pages = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (pages == MAP_FAILED) throw std::bad_alloc();
    next_ = static_cast<TensorNote*>(pages);
    end_ = next_ + kNotes;
    blocks_.push_back(next_);
  }

  std::vector<TensorNote*> blocks_;
  TensorNote* next_ = nullptr;
  TensorNote* end_ = nullptr;
};

// One a thread; whoever reads it locks it.
struct ThreadNotes {
  std::mutex mutex;
  NoteBlocks notes;

  // Most operators get tensors that an earlier one had: to hold those again would count references.
  void hold(const at::Tensor& tensor) {
    const auto* const impl = tensor.unsafeGetTensorImpl();
    constexpr unsigned kBits = 9;
    static_assert(std::tuple_size<decltype(held_lately_)>::value == size_t{1} << kBits);
    const uint64_t mixed = reinterpret_cast<uintptr_t>(impl) * 0x9E3779B97F4A7C15ULL;
    const c10::TensorImpl*& lately = held_lately_[mixed >> (64 - kBits)];
    if (lately == impl) return;
    held_.emplace_back(tensor.getIntrusivePtr());
    lately = impl;
  }

  void forget() {
    notes.clear();
    held_lately_.fill(nullptr);
    std::vector<HeldTensor>().swap(held_);
  }

 private:
  std::vector<HeldTensor> held_;
  std::array<const c10::TensorImpl*, 512> held_lately_{};
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
  to.notes.add(note);
  to.hold(tensor);
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
  to.notes.add(note);
}

// All that is kept, as it is now.
std::vector<TensorNote> tensor_notes() {
  const std::lock_guard<std::mutex> lock(notes_mutex);
  std::vector<TensorNote> found;
  for (const auto& each : all_notes()) {
    const std::lock_guard<std::mutex> its_lock(each->mutex);
    each->notes.append_to(found);
  }
  return found;
}

void forget_tensors() {
  const std::lock_guard<std::mutex> lock(notes_mutex);
  std::vector<std::shared_ptr<ThreadNotes>> alive;
  for (const auto& each : all_notes()) {
    const std::lock_guard<std::mutex> its_lock(each->mutex);
    each->forget();
    if (each.use_count() > 1) alive.push_back(each);
  }
  all_notes().swap(alive);
}

}  // namespace
}  // namespace stepscope
