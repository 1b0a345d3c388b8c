// Whether this bridge fits the torch that it was loaded into: what it sees of an operator, for
// Python, which runs it, to compare with what it ran. Nothing of the core is needed for it.
//
// Included where EXPORT is known.
#pragma once

#include <ATen/record_function.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "operator_inputs.h"

namespace {

// Of each thread: profilers that start at the same time on several threads all look.
struct Probed {
  at::CallbackHandle handle = 0;
  std::string name;  // of the operator to look at
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

// Look at the next operator of that name on the calling thread.
EXPORT void stepscope_bridge_probe_start(const char* name) {
  probed = std::make_unique<Probed>();
  probed->name = name;
  auto callback = at::RecordFunctionCallback(&on_start_probed).needsInputs(true);
  probed->handle = at::addThreadLocalCallback(callback);
}

// What was seen of it: its sequence number and its inputs, encoded. Their size is returned, -1 when
// it was not seen.
EXPORT int64_t stepscope_bridge_probe_stop(int64_t* sequence, char* inputs, int64_t room) {
  const std::unique_ptr<Probed> found = std::move(probed);
  if (!found) return -1;
  at::removeCallback(found->handle);
  if (!found->seen) return -1;
  *sequence = found->sequence;
  const auto size = static_cast<int64_t>(found->inputs.size());
  std::memcpy(inputs, found->inputs.data(), static_cast<size_t>(std::min(size, room)));
  return size;
}
