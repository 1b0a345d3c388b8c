// Which tensors operators were called with: where they and their storages stand.
//
// Kept here and not by the core, which interns inputs: addresses are hardly ever the same twice.
// The objects of noted tensors are kept, without what they hold: an address stands for one tensor.
#pragma once

#include <ATen/record_function.h>
#include <c10/core/TensorImpl.h>
#include <c10/core/UndefinedTensorImpl.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <new>
#include <thread>
#include <utility>
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

// What a thread noted: in pages of our own, which come in by the block. A page fault costs more
// than a note, and in the program's heap they would take the room that its next tensors need.
class Notes {
 public:
  Notes() = default;
  Notes(const Notes&) = delete;
  Notes& operator=(const Notes&) = delete;
  ~Notes() {
    for (TensorNote* const block : blocks_) munmap(block, kBytes);
  }

  bool empty() const { return blocks_.empty(); }

  void add(const TensorNote& note) {
    if (next_ == end_) add_block();
    *next_++ = note;
  }

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

  void append_to(std::vector<TensorNote>& found) const {
    for (const TensorNote* const block : blocks_) {
      const bool is_last = block == blocks_.back();
      found.insert(found.end(), block, is_last ? next_ : block + kNotes);
    }
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
  std::vector<HeldTensor> held_;
  std::array<const c10::TensorImpl*, 512> held_lately_{};
};

// Only the thread itself adds to its notes, and takes no lock for it, which would cost more than
// the notes. Whoever wants to read them takes them away, and pays for the ordering.
struct ThreadNotes {
  std::atomic<bool> in_use{false};
  std::atomic<Notes*> notes{new Notes};

  ThreadNotes() = default;
  ThreadNotes(const ThreadNotes&) = delete;
  ThreadNotes& operator=(const ThreadNotes&) = delete;
  ~ThreadNotes() { delete notes.load(); }
};

struct AllNotes {
  std::mutex mutex;
  std::vector<std::shared_ptr<ThreadNotes>> threads;
  std::vector<std::unique_ptr<Notes>> taken;  // kept until somebody has them forgotten
};
AllNotes* all_notes = new AllNotes;  // for good: threads may outlive what is destroyed at the end

// A thread's own; null before its first note, and when it is shutting down.
thread_local ThreadNotes* my_notes __attribute__((tls_model("initial-exec"))) = nullptr;
thread_local bool my_notes_ended __attribute__((tls_model("initial-exec"))) = false;

struct NotesOwner {
  std::shared_ptr<ThreadNotes> notes;
  ~NotesOwner() {
    my_notes = nullptr;
    my_notes_ended = true;
  }
};

[[gnu::noinline, gnu::cold]] void make_notes() {
  if (my_notes_ended) return;
  thread_local NotesOwner owner;
  owner.notes = std::make_shared<ThreadNotes>();
  const std::lock_guard<std::mutex> lock(all_notes->mutex);
  all_notes->threads.push_back(owner.notes);
  my_notes = owner.notes.get();
}

// The calling thread's notes, which nobody reads while this lives. See Inside, in the core, for
// why it is enough that whoever takes them away makes every thread pass a barrier.
class MyNotes {
 public:
  MyNotes() {
    if (!my_notes) make_notes();
    if (!my_notes) return;
    my_notes->in_use.store(true, std::memory_order_relaxed);
    std::atomic_signal_fence(std::memory_order_seq_cst);
    if (!my_lane || my_lane->shared.needs_fence.load(std::memory_order_relaxed)) [[unlikely]]
      std::atomic_thread_fence(std::memory_order_seq_cst);
    notes_ = my_notes->notes.load(std::memory_order_acquire);
  }
  ~MyNotes() {
    if (notes_) my_notes->in_use.store(false, std::memory_order_release);
  }
  MyNotes(const MyNotes&) = delete;
  MyNotes& operator=(const MyNotes&) = delete;

  explicit operator bool() const { return notes_; }
  Notes* operator->() const { return notes_; }

 private:
  Notes* notes_ = nullptr;
};

// Of an operator whose inputs were just encoded: they are not looked through once more.
[[gnu::noinline]] void note_tensors(const at::RecordFunction& fn, const OpenSlice& slice) {
  // Whoever was asked for the stack may have run an operator in between.
  const Inputs* const inputs = MyInputs::existing();
  if (!inputs || !inputs->are_of(&fn)) return;
  const MyNotes to;
  if (!to) return;
  TensorNote note{};
  note.start_ticks = slice.record.start_ticks;
  note.thread = static_cast<uint32_t>(fn.threadId());
  for (const auto& [tensor, position, place] : inputs->tensors()) {
    const auto* const impl = tensor->unsafeGetTensorImpl();
    note.impl = reinterpret_cast<uintptr_t>(impl);
    const c10::Storage& storage = impl->unsafe_storage();  // of none that has one: null
    note.storage = storage.unsafeGetStorageImpl() ? reinterpret_cast<uintptr_t>(storage.data()) : 0;
    note.position = position;
    note.place = place;
    const c10::Device device = impl->device();
    note.device_type = static_cast<uint8_t>(device.type());
    note.device_index = device.index();
    note.type = static_cast<uint8_t>(tensor->scalar_type());
    note.layout = static_cast<uint8_t>(tensor->layout());
    to->add(note);
    to->hold(*tensor);
  }
}

// The number by which torch's observers know this call of a function.
[[gnu::noinline, gnu::cold]] void note_function(const at::RecordFunction& fn,
                                                const OpenSlice& slice) {
  const MyNotes to;
  if (!to) return;
  TensorNote note{};
  note.start_ticks = slice.record.start_ticks;
  note.impl = fn.handle();
  note.thread = static_cast<uint32_t>(fn.threadId());
  note.position = kFunctionId;
  to->add(note);
}

// Take away what each thread has noted so far. The mutex is held.
void take_notes() {
  auto& threads = all_notes->threads;
  if (threads.empty()) return;
  const auto is_alive = [](const auto& each) { return each.use_count() > 1; };
  const auto ended = std::stable_partition(threads.begin(), threads.end(), is_alive);
  std::vector<std::unique_ptr<Notes>> taken;
  taken.reserve(threads.size());
  for (const auto& each : threads) taken.emplace_back(each->notes.exchange(new Notes));
  core.order_with_others();  // a thread that begins to add from here on sees the new ones
  for (const auto& each : threads) {
    while (each->in_use.load(std::memory_order_acquire)) std::this_thread::yield();
  }
  for (auto& each : taken) {
    if (!each->empty()) all_notes->taken.push_back(std::move(each));
  }
  threads.erase(ended, threads.end());
}

// All that is kept, as it is now.
std::vector<TensorNote> tensor_notes() {
  const std::lock_guard<std::mutex> lock(all_notes->mutex);
  take_notes();
  std::vector<TensorNote> found;
  for (const auto& each : all_notes->taken) each->append_to(found);
  return found;
}

void forget_tensors() {
  std::vector<std::unique_ptr<Notes>> forgotten;  // goes when the lock is released
  const std::lock_guard<std::mutex> lock(all_notes->mutex);
  take_notes();
  forgotten.swap(all_notes->taken);
}

// In the child of a fork. What other threads had may have been caught in the middle of a change: it
// is left where it is.
void leave_notes_of_parent() {
  all_notes = new AllNotes;
  my_notes = nullptr;
}

}  // namespace
}  // namespace stepscope
