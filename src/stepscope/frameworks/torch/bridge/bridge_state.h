// What all parts of the bridge to torch share: the core, and what each thread has of it.
#pragma once

#include <ATen/record_function.h>

#include <cstring>
#include <memory>

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

// An object of each thread's own, made when it first asks. Only a word of it is in static TLS: a
// process has little of that, and where it is used up the bridge cannot be loaded.
template <typename T>
class ThreadsOwn {
 public:
  // Null before it was made, and when the thread is shutting down.
  static T* existing() { return mine_; }
  // Null when the thread is shutting down.
  static T* get() { return mine_ ? mine_ : make(); }

 private:
  struct Owner {
    std::unique_ptr<T> object = std::make_unique<T>();
    Owner() { mine_ = object.get(); }
    ~Owner() { mine_ = nullptr; }
  };
  [[gnu::noinline, gnu::cold]] static T* make() {
    thread_local Owner owner;  // made once: what a thread has let go does not come back
    (void)owner;
    return mine_;
  }

  static inline thread_local T* mine_ __attribute__((tls_model("initial-exec"))) = nullptr;
};
using MyInputs = ThreadsOwn<Inputs>;

[[gnu::noinline]] void encode_keywords_of(const at::RecordFunction& fn, Inputs& inputs) {
  const auto keywords = fn.kwinputs();  // a copy
  if (!keywords.empty()) inputs.encode_keywords(keywords);
}

// Null when the thread is shutting down. What the dispatcher calls by its own name has no keywords,
// and to ask for them copies a hash table, 70 ns of an operator.
const Inputs* encoded_inputs(const at::RecordFunction& fn, bool may_have_keywords = true) {
  Inputs* const inputs = MyInputs::get();
  if (inputs) {
    inputs->encode(&fn, fn.inputs());
    if (may_have_keywords) encode_keywords_of(fn, *inputs);
  }
  return inputs;
}

}  // namespace
}  // namespace stepscope
