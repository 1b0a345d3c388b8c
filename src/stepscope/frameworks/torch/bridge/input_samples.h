// Samples the inputs of operators.
//
// torch boxes the inputs of all operators as soon as any callback needs them, however rarely it is
// called. So the callback that torch draws at random needs none: it installs another callback for
// the next few operators of its thread.
#pragma once

#include <ATen/record_function.h>

#include <atomic>
#include <memory>

#include "bridge_state.h"

namespace stepscope {
namespace {

// Installing the callback costs more than its calls, so eight operators in a row are sampled.
// Programs with few operators should have some samples, and those with many must not be slowed
// down: at first one operator in eight is sampled, later one in 128.
constexpr double kFirstShare = 1.0 / 64;
constexpr double kShare = 1.0 / 1024;
constexpr uint32_t kFirstDraws = 64;
constexpr int kInARow = 8;

std::atomic<uint32_t> drawn{0};
void (*draw_less)() = nullptr;  // called after the first draws

std::atomic<bool> samples_inputs{false};

thread_local int my_looks_left __attribute__((tls_model("initial-exec"))) = 0;

std::unique_ptr<at::ObserverContext> on_look(const at::RecordFunction& fn);

// The sampling callback of this thread, or 0. torch removes a thread's callbacks and restores them
// while it evaluates a graph, so only torch knows its state.
at::CallbackHandle my_look() {
  for (const auto& entry : at::get_record_function_tls_().sorted_tls_callbacks_) {
    if (entry.callback_.start() == &on_look) return entry.handle_;
  }
  return 0;
}

// Runs after the callback that begins the slice, which is the thread's latest slice then.
std::unique_ptr<at::ObserverContext> on_look(const at::RecordFunction& fn) {
  if (--my_looks_left <= 0) {
    if (const at::CallbackHandle handle = my_look()) at::removeCallback(handle);
  }
  if (!samples_inputs.load(std::memory_order_relaxed) || is_plumbing(fn.name())) return nullptr;
  const Inputs* const inputs = encoded_inputs(fn);
  if (inputs && inputs->size()) core.sampled_inputs(inputs->data(), inputs->size());
  return nullptr;
}

std::unique_ptr<at::ObserverContext> on_drawn(const at::RecordFunction&) {
  if (!my_look()) {
    my_looks_left = kInARow;
    at::addThreadLocalCallback(
        at::RecordFunctionCallback(&on_look).needsInputs(true).scopes({at::RecordScope::FUNCTION}));
  }
  if (drawn.fetch_add(1, std::memory_order_relaxed) + 1 == kFirstDraws) draw_less();
  return nullptr;
}

at::RecordFunctionCallback drawing_callback(double share) {
  return at::RecordFunctionCallback(&on_drawn).samplingProb(share).scopes(
      {at::RecordScope::FUNCTION});
}

}  // namespace
}  // namespace stepscope
