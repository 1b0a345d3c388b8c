// Tells which operator runs, for code that is called in the middle of it.
#pragma once

#include <ATen/record_function.h>

#include <algorithm>
#include <memory>

#include "bridge_state.h"

namespace stepscope {
namespace {  // internal linkage helps the compiler to inline: only one file includes this

// Names of operators are permanent; torch keeps other names only while their functions run.
struct Running {
  static constexpr int kMost = 32;
  const char* names[kMost];
  int depth = 0;
};
using MyRunning = ThreadsOwn<Running>;

std::unique_ptr<at::ObserverContext> on_name(const at::RecordFunction& fn) {
  if (Running* const running = MyRunning::get()) {
    const int depth = running->depth++;
    if (depth >= 0 && depth < Running::kMost) running->names[depth] = fn.name();
  }
  return nullptr;
}

void on_named_end(const at::RecordFunction&, at::ObserverContext*) {
  Running* const running = MyRunning::existing();
  if (running && running->depth > 0) --running->depth;
}

// Names are kept while this callback is registered.
at::RecordFunctionCallback naming_callback() {
  auto callback = at::RecordFunctionCallback(&on_name, &on_named_end);
  callback.scopes({at::RecordScope::FUNCTION, at::RecordScope::BACKWARD_FUNCTION});
  return callback;
}

// The innermost operator that the calling thread runs and that began since; null for none.
const char* running_operator() {
  const Running* const running = MyRunning::existing();
  const int innermost = running ? std::min(running->depth, Running::kMost) - 1 : -1;
  return innermost < 0 ? nullptr : running->names[innermost];
}

}  // namespace
}  // namespace stepscope
