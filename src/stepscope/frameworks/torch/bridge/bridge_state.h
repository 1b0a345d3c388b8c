// What all parts of the bridge to torch share: the core, and what each thread has of it.
#pragma once

#include <ATen/record_function.h>

#include <cstring>

#include "operator_inputs.h"
#include "stepscope/core_api.h"
#include "stepscope/lane.h"

namespace stepscope {
namespace {  // for the compiler to inline: one file includes this

stepscope_core_api core;

// One word in static TLS: a load instead of a call to find it.
thread_local Lane* my_lane __attribute__((tls_model("initial-exec"))) = nullptr;

// The operators by which torch's own record_function enters and leaves: the scope itself is
// recorded, they are not.
bool is_plumbing(const char* name) {
  return std::strncmp(name, "profiler::_record_function", 26) == 0;
}

// A thread's own; null before its first operator, and when it is shutting down.
thread_local Inputs* my_inputs __attribute__((tls_model("initial-exec"))) = nullptr;

struct InputsOwner {
  Inputs inputs;
  InputsOwner() { my_inputs = &inputs; }
  ~InputsOwner() { my_inputs = nullptr; }
};

[[gnu::noinline]] void make_inputs() {
  thread_local InputsOwner owner;  // made once: what a thread has let go does not come back
  (void)owner;
}

[[gnu::noinline]] void encode_keywords_of(const at::RecordFunction& fn) {
  const auto keywords = fn.kwinputs();  // a copy
  if (!keywords.empty()) my_inputs->encode_keywords(keywords);
}

// Null when the thread is shutting down. What the dispatcher calls by its own name has no keywords,
// and to ask for them copies a hash table, 70 ns of an operator.
const Inputs* encoded_inputs(const at::RecordFunction& fn, bool may_have_keywords = true) {
  if (!my_inputs) make_inputs();
  if (my_inputs) {
    my_inputs->encode(&fn, fn.inputs());
    if (may_have_keywords) encode_keywords_of(fn);
  }
  return my_inputs;
}

}  // namespace
}  // namespace stepscope
