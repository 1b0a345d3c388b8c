// Reports what the bridge reads of an operator that Python runs, to check that the bridge fits
// torch. It needs nothing of the core.
//
// Included where EXPORT is defined.
#pragma once

#include <ATen/record_function.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "operator_inputs.h"

namespace {

// One per thread: profilers that start on several threads at once all probe.
struct Probed {
  at::CallbackHandle handle = 0;
  std::string name;  // of the operator to read
  stepscope::Inputs inputs;
  int64_t sequence = -1;
  bool seen = false;
};
thread_local std::unique_ptr<Probed> probed;  // static TLS is scarce

std::unique_ptr<at::ObserverContext> on_start_probed(const at::RecordFunction& fn) {
  if (probed && !probed->seen && probed->name == fn.name()) {
    probed->seen = true;
    probed->sequence = fn.seqNr();
    probed->inputs.encode(&fn, fn.inputs());
  }
  return nullptr;
}

}  // namespace

// Read the next operator of this name on the calling thread.
EXPORT void stepscope_bridge_probe_start(const char* name) {
  probed = std::make_unique<Probed>();
  probed->name = name;
  auto callback = at::RecordFunctionCallback(&on_start_probed).needsInputs(true);
  probed->handle = at::addThreadLocalCallback(callback);
}

// Return the size of the encoded inputs, and write them with the sequence number; -1 if no such
// operator ran.
EXPORT int64_t stepscope_bridge_probe_stop(int64_t* sequence, char* inputs, int64_t room) {
  const std::unique_ptr<Probed> result = std::move(probed);
  if (!result) return -1;
  at::removeCallback(result->handle);
  if (!result->seen) return -1;
  *sequence = result->sequence;
  const auto size = static_cast<int64_t>(result->inputs.size());
  std::memcpy(inputs, result->inputs.data(), static_cast<size_t>(std::min(size, room)));
  return size;
}
