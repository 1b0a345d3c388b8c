// Notes which tensors operators were called with: the addresses of tensors and storages.
//
// The notes are not in the core, which interns inputs, as addresses are rarely the same twice.
// Noted tensor objects are kept alive without their data, so that an address identifies one tensor.
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

// frameworks/torch/tensor_notes.py reads this layout.
struct TensorNote {
  uint64_t start_ticks;  // of the operator's slice
  uint64_t impl;
  uint64_t storage;  // the address of its data
  uint32_t thread;   // torch's number of the thread
  uint16_t position;
  uint16_t place;  // the index in a list of tensors, or kNoList
  uint8_t device_type;
  int8_t device_index;
  uint8_t type;
  uint8_t layout;
};
static_assert(sizeof(TensorNote) == 40, "Python knows its layout");

constexpr uint16_t kFunctionId = UINT16_MAX;  // as a position: a note of note_function()

// What is needed of an operator beyond its slice, usually nothing; a single word to test.
enum Note : int {
  kTensorsOf = 1,
  kScriptFrames = 2,
  kScriptModules = 4,
  kNumbered = 8,  // a state, not a need: the last function that began has an observer's number
};
std::atomic<int> notes_wanted{0};

using HeldTensor = c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>;

// The notes of a thread, in our own pages, which are mapped in large blocks. A page fault costs
// more than a note, and notes in the program's heap would take the space of its next tensors.
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

  // Most operators get tensors that an earlier one had: keeping those again would update reference
  // counts.
  void hold(const at::Tensor& tensor) {
    const auto* const impl = tensor.unsafeGetTensorImpl();
    constexpr unsigned kBits = 9;
    static_assert(std::tuple_size<decltype(held_lately_)>::value == size_t{1} << kBits);
    const uint64_t mixed = reinterpret_cast<uintptr_t>(impl) * 0x9E3779B97F4A7C15ULL;
    const c10::TensorImpl*& lately = held_lately_[mixed >> (64 - kBits)];
    if (lately == impl) return;
    live_tensors_.emplace_back(tensor.getIntrusivePtr());
    lately = impl;
  }

  void append_to(std::vector<TensorNote>& notes) const {
    for (const TensorNote* const block : blocks_) {
      const bool is_last = block == blocks_.back();
      notes.insert(notes.end(), block, is_last ? next_ : block + kNotes);
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
  std::vector<HeldTensor> live_tensors_;
  std::array<const c10::TensorImpl*, 512> held_lately_{};
};

// Only the thread itself adds to its notes, without a lock, which would cost more than the notes.
// The reader takes all notes away, and pays for the ordering.
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
  std::vector<std::unique_ptr<Notes>> taken;  // kept until Python asks to forget them
};
AllNotes* all_notes = new AllNotes;  // never destroyed: threads may outlive static objects

// The notes of the calling thread; null before its first note and while it shuts down.
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

// The calling thread's notes; nobody reads them while this lives. Inside, in the core, explains why
// it suffices that the reader makes every thread pass a barrier.
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

// Note the operator whose inputs were just encoded, without reading them again.
[[gnu::noinline]] void note_tensors(const at::RecordFunction& fn, const OpenSlice& slice) {
  // Reading the stack may have run another operator.
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
    const c10::Storage& storage = impl->unsafe_storage();  // null without a storage
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

// The number by which torch's observers identify this call of a function.
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

// Take away each thread's notes. The caller holds the mutex.
void take_notes() {
  auto& threads = all_notes->threads;
  if (threads.empty()) return;
  const auto is_alive = [](const auto& thread) { return thread.use_count() > 1; };
  const auto ended = std::stable_partition(threads.begin(), threads.end(), is_alive);
  std::vector<std::unique_ptr<Notes>> taken;
  taken.reserve(threads.size());
  for (const auto& thread : threads) taken.emplace_back(thread->notes.exchange(new Notes));
  core.order_with_others();  // threads that add notes from here on see the new ones
  for (const auto& thread : threads) {
    while (thread->in_use.load(std::memory_order_acquire)) std::this_thread::yield();
  }
  for (auto& thread : taken) {
    if (!thread->empty()) all_notes->taken.push_back(std::move(thread));
  }
  threads.erase(ended, threads.end());
}

// All notes that are kept now.
std::vector<TensorNote> tensor_notes() {
  const std::lock_guard<std::mutex> lock(all_notes->mutex);
  take_notes();
  std::vector<TensorNote> all;
  for (const auto& notes : all_notes->taken) notes->append_to(all);
  return all;
}

void forget_tensors() {
  std::vector<std::unique_ptr<Notes>> forgotten;  // destroyed after the lock is released
  const std::lock_guard<std::mutex> lock(all_notes->mutex);
  take_notes();
  forgotten.swap(all_notes->taken);
}

// In a forked child. Notes of other threads may be half-written: they are left alone.
void leave_notes_of_parent() {
  all_notes = new AllNotes;
  my_notes = nullptr;
}

}  // namespace
}  // namespace stepscope
