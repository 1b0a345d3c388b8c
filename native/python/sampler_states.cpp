// What a thread does when the sampler looks at it: by its frames, the GIL and what the kernel says.
#include "python/sampler.h"

namespace stepscope {

KernelView Sampler::ask_kernel(pid_t thread, Watched& watched) const {
  constexpr size_t kMostFiles = 256;
  return watched.syscall.read(thread, may_keep_files_ && watched_.size() < kMostFiles);
}

// A thread that waits for the GIL wakes up now and then to say so, and goes on waiting. It cannot
// have run anything of the program's as long as it did not get the GIL.
bool Sampler::still_waits_for_gil(const Watched& watched) const {
  if (watched.last.state != SampleState::kGil || watched.places.size() != 1) return false;
  const ThreadPlaces& places = watched.places.front();
  const GilView now = view_of_gil(places.gil, memory_);
  // One that takes the GIL which it had before switches nothing.
  const bool is_anothers = now.is_taken && now.holder != places.thread;
  return places.gil && is_anothers && now.switches - watched.gil.switches <= 1;
}

// The state of a thread that runs. Between two Python functions, what the outer one does is
// ignored.
SampleState Sampler::running_state() const {
  if (frames_.empty()) return SampleState::kNative;
  if (moves_) return SampleState::kPython;
  if (holds_gil_) {
    return operation_ == Operation::kCall ? SampleState::kNative : SampleState::kPython;
  }
  // Where the interpreter gives the GIL to others now and then, it waits for it.
  return operation_ == Operation::kOther ? SampleState::kGil : SampleState::kNative;
}

// By what the kernel says now. A thread that could run and does not has lost its core at its work,
// unless it has just been woken and stands where it waited.
Sampler::Look Sampler::look_of(pid_t thread, Watched& watched, bool advances, bool has_run) {
  const SampleState work = running_state();
  const auto working = [&](SampleState state) {
    return Look{state, WaitReason::kUnknown, is_running(work), {work}};
  };
  if (advances) return working(work);
  const KernelView view = ask_kernel(thread, watched);
  switch (view.is) {
    case KernelView::Is::kRunnable:
      if (!watched.last.computes && frames_ == watched.frames) return {SampleState::kReady};
      return working(SampleState::kReady);
    case KernelView::Is::kUnknown:
      if (has_run) return working(work);
      return {SampleState::kBlocked};
    case KernelView::Is::kWaiting:
      break;
  }
  const Address futex = futex_of(view.call);
  for (const ThreadPlaces& places : watched.places) {
    if (places.gil && futex >= places.gil && futex < places.gil + kLayout.gil_size) {
      return {SampleState::kGil};
    }
  }
  return {SampleState::kBlocked, wait_reason(view.call, memory_)};
}

// Whether the innermost frame is in a function that is not Python's.
bool Sampler::is_in_native(SampleState state) const {
  if (frames_.empty() || moves_) return false;
  switch (state) {
    case SampleState::kNative:
    case SampleState::kBlocked:
      return operation_ != Operation::kOther;
    case SampleState::kReady:
      return operation_ == Operation::kCall || (operation_ == Operation::kOperator && !holds_gil_);
    default:
      return false;
  }
}

}  // namespace stepscope
