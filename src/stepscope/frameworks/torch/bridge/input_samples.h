// The inputs of one operator in many.
//
// torch boxes the inputs of all operators as soon as some callback asks for them, however seldom
// that one is called. So the callback that torch draws by lot asks for none: it has the next few
// operators of its thread looked at, by a callback that is there for them only.
#pragma once

#include <ATen/record_function.h>

#include <atomic>
#include <memory>

#include "bridge_state.h"

namespace stepscope {
namespace {

// To come and go costs more than to look: of 128 operators one is looked at, eight in a row.
constexpr double kDrawnShare = 1.0 / 1024;
constexpr int kInARow = 8;

std::atomic<bool> samples_inputs{false};

thread_local int my_looks_left __attribute__((tls_model("initial-exec"))) = 0;

std::unique_ptr<at::ObserverContext> on_look(const at::RecordFunction& fn);

// The callback that looks, if this thread has it, else 0. torch takes the callbacks of a thread
// away and puts them back as it evaluates a graph, so nobody but torch knows.
at::CallbackHandle my_look() {
  for (const auto& entry : at::get_record_function_tls_().sorted_tls_callbacks_) {
    if (entry.callback_.start() == &on_look) return entry.handle_;
  }
  return 0;
}

// Runs behind the callback that begins the slice, which is this thread's last one then.
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
  return nullptr;
}

at::RecordFunctionCallback drawing_callback() {
  return at::RecordFunctionCallback(&on_drawn)
      .samplingProb(kDrawnShare)
      .scopes({at::RecordScope::FUNCTION});
}

}  // namespace
}  // namespace stepscope
