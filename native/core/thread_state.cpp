#include "core/thread_state.h"

#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <deque>
#include <memory>
#include <thread>

#include "core/stream.h"

namespace stepscope {
namespace {

constexpr size_t kSlabSlices = 256;
using Slab = std::array<OpenSlice, kSlabSlices>;

// Both in memory that outlives the process, where the stream has some.
bool has_lasting_slabs = false;  // guarded by the registry's mutex

Slab* new_slab() {
  void* const lasting = Stream::instance().take(BlockKind::kSlices, sizeof(Slab));
  has_lasting_slabs |= lasting != nullptr;
  return lasting ? new (lasting) Slab{} : new Slab{};
}

ThreadState* new_state() {
  void* const lasting = Stream::instance().take(BlockKind::kLane, sizeof(ThreadState));
  ThreadState* const state = lasting ? new (lasting) ThreadState : new ThreadState;
  state->is_lasting = lasting != nullptr;
  return state;
}

void delete_state(ThreadState* state) {
  if (!state->is_lasting) {
    delete state;
    return;
  }
  state->~ThreadState();
  Stream::instance().give_back(state);
}

// Leaked on purpose: threads may outlive static destructors.
struct Registry {
  std::mutex mutex;
  std::vector<ThreadState*> threads;
  std::deque<Slab*> slabs;       // never freed
  OpenSlice* orphans = nullptr;  // free slices of threads that are gone
};

Registry& registry() {
  static auto* const only = new Registry;
  return *only;
}

// By number: the names are missing from the headers of older kernels, and no macros in those of
// newer ones.
constexpr int kMembarrierPrivateExpedited = 1 << 3;
constexpr int kMembarrierRegisterPrivateExpedited = 1 << 4;

bool register_membarrier() {
  return syscall(SYS_membarrier, kMembarrierRegisterPrivateExpedited, 0, 0) == 0;
}
void membarrier_others() { syscall(SYS_membarrier, kMembarrierPrivateExpedited, 0, 0); }

ThreadInfo describe_this_thread() {
  ThreadInfo info;
  info.os_id = static_cast<int64_t>(syscall(SYS_gettid));
  std::array<char, 32> name{};
  if (pthread_getname_np(pthread_self(), name.data(), name.size()) == 0) info.name = name.data();
  return info;
}

void push_free(OpenSlice*& list, OpenSlice* slice) {
  slice->set_next(list);
  list = slice;
}

std::string with_overload(const char* name, const char* overload) {
  return *overload ? std::string(name).append(1, kOverloadMark).append(overload) : name;
}

thread_local bool exited = false;

}  // namespace

[[maybe_unused]] const bool asked_the_kernel = [] {
  shared_state.needs_fence = !register_membarrier() && !kOrdersItself;
  return true;
}();

void Inside::order_with_others() {
  if constexpr (kOrdersItself) return membarrier_others();  // a fence for this thread, too
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (!shared_state.needs_fence) membarrier_others();
  std::atomic_thread_fence(std::memory_order_seq_cst);
}

thread_local ThreadState* ThreadState::mine_ = nullptr;

struct ThreadExit {
  ThreadState* state = nullptr;
  ~ThreadExit() {
    exited = true;
    ThreadState::mine_ = nullptr;
    if (!state) return;
    if (state->bridge_slot) *state->bridge_slot = nullptr;
    {
      const Inside inside(*state);
      Recording* const active = shared_state.active.load(std::memory_order_acquire);
      if (active && active->generation == state->generation) active->retire(state->cursor);
    }
    ThreadState::detach(state);
  }
};

ThreadState* ThreadState::attach() {
  if (exited) return nullptr;
  thread_local ThreadExit at_exit;
  ThreadState* const state = new_state();
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  all.threads.push_back(state);
  at_exit.state = state;
  mine_ = at_exit.state;
  return mine_;
}

void ThreadState::detach(ThreadState* state) {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  std::erase(all.threads, state);
  while (state->free_slices) {
    OpenSlice* const slice = state->free_slices;
    state->free_slices = slice->next();
    push_free(all.orphans, slice);
  }
  delete_state(state);
}

void ThreadState::grow() {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  // Takes no more than a slab: if one thread took all, each new thread would have to make a slab,
  // and memory would grow as threads come and go.
  for (size_t taken = 0; all.orphans && taken < kSlabSlices; ++taken) {
    OpenSlice* const slice = all.orphans;
    all.orphans = slice->next();
    push_free(free_slices, slice);
  }
  if (free_slices) return;
  Slab& slab = *all.slabs.emplace_back(new_slab());
  for (auto slice = slab.rbegin(); slice != slab.rend(); ++slice) push_free(free_slices, &*slice);
}

void ThreadState::join(Recording& wanted) {
  recording = &wanted;
  generation = wanted.generation;
  thread = wanted.add_thread(describe_this_thread());
  logical_id = 0;
  full = false;
  in_tasks = false;
  cursor.next = cursor.end = nullptr;
  begun = 0;
  close_fast_path();
  looked = 0;
  names.fill({});
  texts.clear();
  inputs.clear();
}

uint32_t ThreadState::label_of(const stepscope_begin& what) {
  const uint32_t changed = shared_state.names_changed.load(std::memory_order_relaxed);
  if (names_changed != changed) [[unlikely]] {
    names.fill({});
    names_changed = changed;
  }
  if (!what.name_kind) return text_of(what.name);
  LastingName& lasting = name_at(what.name);
  if (lasting.address == what.name) return lasting.label;
  const uint8_t kind = what.name_kind(what.function);
  if (kind == STEPSCOPE_NAME_PASSES) return text_of(what.name);
  const char* const overload = what.overload(what.function);
  const uint32_t label = overload
                             ? recording->interner.intern(with_overload(what.name, overload)).first
                             : kIgnoredLabel;
  if (kind == STEPSCOPE_NAME_LASTS) lasting = {what.name, label};
  return label;
}

// The epoch is read first: where it is the newest, so is what is read after it.
void ThreadState::look() {
  looked = shared_state.epoch.load(std::memory_order_acquire);
  const bool is_plain =
      shared_state.clock.load(std::memory_order_relaxed) == ClockSource::kCounter &&
      !shared_state.needs_fence.load(std::memory_order_relaxed);
  const bool is_current =
      shared_state.active.load(std::memory_order_relaxed) &&
      shared_state.generation.load(std::memory_order_relaxed) == generation &&
      shared_state.names_changed.load(std::memory_order_relaxed) == names_changed;
  epoch = is_plain && is_current && !full && !in_tasks ? looked : 0;
}

// The registry's lock is held throughout, so that a thread that ends now keeps its state, whose
// cursor a chunk still points to. Threads take that lock only while they are not inside, so there
// is no deadlock.
void ThreadState::end_recording(Recording& recording) {
  const ThreadState* const self = mine_;
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  shared_state.active.store(nullptr, std::memory_order_seq_cst);
  change_epoch();
  Inside::order_with_others();
  for (const ThreadState* state : all.threads) {
    if (state == self) continue;
    while (state->inside.load(kHandshake)) std::this_thread::yield();
  }
  Inside::order_with_others();
  recording.retire_all();
}

std::vector<Record> ThreadState::open_slices(uint32_t generation, uint64_t end_ticks) {
  std::vector<std::pair<const OpenSlice*, uint64_t>> candidates;
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  for (const Slab* slab : all.slabs) {
    for (const OpenSlice& slice : *slab) {
      const uint64_t order = relaxed_load(slice.record.slice.order);
      if (order) candidates.emplace_back(&slice, order);
    }
  }
  Inside::order_with_others();
  std::vector<Record> copies(candidates.size());
  for (size_t i = 0; i < candidates.size(); ++i) {
    racing_copy(copies[i], candidates[i].first->record);
    copies[i].slice.end_ticks = end_ticks;
  }
  // If a slice was reused before it was copied, this shows it: the first slice has ended then, and
  // is in a chunk.
  Inside::order_with_others();
  std::vector<Record> open;
  for (size_t i = 0; i < candidates.size(); ++i) {
    const auto& [slice, order] = candidates[i];
    const Record& copy = copies[i];
    Record now;
    racing_copy(now, slice->record);
    const bool same =
        now.slice.order == order && copy.slice.order == order && now.thread == copy.thread;
    if (copy.slice.generation == generation && same) open.push_back(copy);
  }
  return open;
}

void ThreadState::hold_all_for_fork() { registry().mutex.lock(); }

void ThreadState::release_all_after_fork() { registry().mutex.unlock(); }

// The other threads do not exist in the child; their states are left where they are, since a fork
// may have caught one in the middle of a change.
void ThreadState::forget_others_after_fork() {
  Registry& all = registry();
  all.threads.clear();
  if (has_lasting_slabs) {
    // They were copied while the parent wrote to them, so none is given out again. A caller that
    // has an open slice may still end it.
    has_lasting_slabs = false;
    all.slabs.clear();
    all.orphans = nullptr;
    if (mine_) mine_->free_slices = nullptr;
  }
  if (mine_ && mine_->is_lasting) {
    if (mine_->bridge_slot) *mine_->bridge_slot = nullptr;
    mine_ = nullptr;
  } else if (mine_) {
    all.threads.push_back(mine_);
    mine_->generation = 0;
    mine_->inside.store(0, std::memory_order_relaxed);
  }
  all.mutex.unlock();
}

}  // namespace stepscope
