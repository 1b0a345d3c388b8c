#include "core/recorder.h"

#include <pthread.h>

#include <algorithm>
#include <utility>

#include "core/clock.h"
#include "core/stream.h"

namespace stepscope {

Recorder& Recorder::instance() {
  static auto* const only = new Recorder;  // threads may outlive static destructors
  return *only;
}

Recorder::Recorder() { pthread_atfork(&before_fork, &after_fork_in_parent, &after_fork_in_child); }

uint64_t Recorder::open_window(Limit limit) {
  const std::lock_guard lock(mutex_);
  if (current_) {
    current_->widen(limit);
  } else {
    current_ = std::make_shared<Recording>(++last_generation_, limit);
    shared_state.generation.store(last_generation_, std::memory_order_relaxed);
    shared_state.active.store(current_.get(), std::memory_order_release);
    change_epoch();
  }
  const uint64_t id = ++last_window_;
  windows_[id] = limit;
  current_->watch(id, limit, Clock::ticks());
  return id;
}

void Recorder::restart_window(uint64_t window) {
  const std::lock_guard lock(mutex_);
  if (const auto entry = windows_.find(window); entry != windows_.end()) {
    current_->watch(window, entry->second, Clock::ticks());
  }
}

void Recorder::remember_blocks() {
  if (const std::shared_ptr<Recording> recording = current()) recording->remember_blocks();
}

HeldWindow Recorder::look_at_window(uint64_t window) {
  const uint64_t end_ticks = Clock::ticks();
  const std::lock_guard lock(mutex_);
  if (!windows_.contains(window)) return {};
  return hold_window(current_, window, end_ticks);
}

// Records of a chunk stand in the order of their ends: few are looked at after a short time.
std::vector<RecentRange> Recorder::recent_ranges(uint64_t since_ticks,
                                                 const std::vector<std::string>& prefixes) {
  const std::shared_ptr<Recording> recording = current();
  if (!recording) return {};
  const std::vector<ChunkView> chunks = recording->chunks_since(since_ticks);
  Inside::order_with_others();
  std::unordered_map<uint32_t, std::string> wanted;  // by label; empty: not
  const auto name_of = [&](uint32_t label) -> const std::string& {
    const auto [entry, is_new] = wanted.try_emplace(label);
    if (is_new) {
      const std::string text = recording->interner.text(label);
      const bool is_one = std::any_of(prefixes.begin(), prefixes.end(),
                                      [&](const auto& prefix) { return text.starts_with(prefix); });
      if (is_one) entry->second = text;
    }
    return entry->second;
  };
  std::vector<RecentRange> ranges;
  for (const auto& [chunk, size, is_retired] : chunks) {
    for (size_t i = size; i-- > 0;) {
      const Record& record = chunk->records[i];
      const bool is_slice = record.kind < Kind::kMemoryChange;
      if ((is_slice ? record.slice.end_ticks : record.start_ticks) < since_ticks) break;
      if (record.kind != Kind::kRange) continue;
      const std::string& name = name_of(record.slice.label);
      if (!name.empty()) ranges.push_back({record.start_ticks, record.slice.end_ticks, name});
    }
  }
  return ranges;
}

HeldWindow Recorder::end_window(uint64_t window) {
  const uint64_t end_ticks = Clock::ticks();
  const std::lock_guard lock(mutex_);
  if (!windows_.erase(window)) return {};
  const std::shared_ptr<Recording> recording = current_;
  if (windows_.empty()) {
    BlocksLeft& earlier_blocks = BlocksLeft::instance();
    const bool has_blocks = recording->has_blocks() || earlier_blocks.is_on();
    if (has_blocks) earlier_blocks.expect();
    ThreadState::end_recording(*recording);
    current_.reset();
    if (has_blocks) earlier_blocks.take(recording->blocks_seen());
  }
  HeldWindow records = hold_window(recording, window, end_ticks);
  recording->unwatch(window);
  if (!windows_.empty()) {
    Limit rest = windows_.begin()->second;
    for (const auto& [id, limit] : windows_) rest = rest.joined(limit);
    recording->narrow(rest);
  }
  return records;
}

std::shared_ptr<Recording> Recorder::current() {
  const std::lock_guard lock(mutex_);
  return current_;
}

void Recorder::set_context_source(uint32_t (*current_context)()) {
  shared_state.context_source.store(current_context);
}

void Recorder::set_stack_source(uint32_t (*current_stack)()) {
  shared_state.stack_source.store(current_stack);
}

void Recorder::before_fork() {
  instance().mutex_.lock();
  ThreadState::hold_all_for_fork();
  hold_type_names();  // before the stream: who names a type notes it there
  Stream::instance().hold_for_fork();
  BlocksLeft::instance().mutex_for_fork().lock();
}

void Recorder::after_fork_in_parent() {
  BlocksLeft::instance().mutex_for_fork().unlock();
  Stream::instance().release_after_fork();
  release_type_names();
  ThreadState::release_all_after_fork();
  instance().mutex_.unlock();
}

// The child records nothing of its parent's. The parent's recording is leaked: one of its locks may
// have been held by a thread that does not exist here.
void Recorder::after_fork_in_child() {
  Recorder& self = instance();
  BlocksLeft::instance().mutex_for_fork().unlock();
  shared_state.active.store(nullptr);
  change_epoch();
  new std::shared_ptr<Recording>(std::move(self.current_));
  self.windows_.clear();
  Stream::instance().leave_after_fork();
  release_type_names();
  ThreadState::forget_others_after_fork();
  self.mutex_.unlock();
}

}  // namespace stepscope
