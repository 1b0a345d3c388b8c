// What all parts of the bridge share: the core, and its state of each thread.
#pragma once

#include <ATen/record_function.h>

#include <cstring>
#include <memory>

#include "operator_inputs.h"
#include "stepscope/core_api.h"
#include "stepscope/lane.h"

namespace stepscope {
namespace {  // internal linkage helps the compiler to inline: only one file includes this

stepscope_core_api core;

// One word of static TLS: reading it is a load instead of a function call.
thread_local Lane* my_lane __attribute__((tls_model("initial-exec"))) = nullptr;

// The operators that enter and leave torch's record_function: they are not recorded, as the scope
// itself is.
bool is_plumbing(const char* name) {
  return std::strncmp(name, "profiler::_record_function", 26) == 0;
}

// Older versions of torch have no overload_name().
template <typename Function>
auto overload_of(const Function& fn, int) -> decltype(fn.overload_name()) {
  return fn.overload_name();
}
template <typename Function>
const char* overload_of(const Function&, long) {
  return "";
}

// What overload_of() returns for a function that was given as a plain string: always the same
// pointer, or null if that is unknown. An operator's name is permanent, such a string is not.
const char* const overload_of_strings = [] {
  const auto overload_in = [](const char* name) {
    at::RecordFunction fn(at::RecordScope::FUNCTION);
    fn.before(name);
    const char* overload = overload_of(fn, 0);
    const char* object = reinterpret_cast<const char*>(&fn);
    return overload >= object && overload < object + sizeof(fn) ? nullptr : overload;
  };
  const char* first = overload_in("a name");
  return first == overload_in("another name, too long to be kept inside of the object") ? first
                                                                                        : nullptr;
}();

uint8_t kind_of_name(const void* function) {
  if (!overload_of_strings) return STEPSCOPE_NAME_UNKNOWN;
  const auto& fn = *static_cast<const at::RecordFunction*>(function);
  return overload_of(fn, 0) == overload_of_strings ? STEPSCOPE_NAME_PASSES : STEPSCOPE_NAME_LASTS;
}

// An object per thread, created on first use. Only one word is in static TLS: a process has little
// of it, and without any left the bridge cannot be loaded.
template <typename T>
class ThreadsOwn {
 public:
  // Null before the first use, and while the thread shuts down.
  static T* existing() { return mine_; }
  // Null while the thread shuts down.
  static T* get() { return mine_ ? mine_ : make(); }

 private:
  struct Owner {
    std::unique_ptr<T> object = std::make_unique<T>();
    Owner() { mine_ = object.get(); }
    ~Owner() { mine_ = nullptr; }
  };
  [[gnu::noinline, gnu::cold]] static T* make() {
    thread_local Owner owner;  // created once per thread, even if the thread has destroyed it
    (void)owner;
    return mine_;
  }

  static inline thread_local T* mine_ __attribute__((tls_model("initial-exec"))) = nullptr;
};
using MyInputs = ThreadsOwn<Inputs>;

[[gnu::noinline]] void encode_keywords_of(const at::RecordFunction& fn, Inputs& inputs) {
  const auto keywords = fn.kwinputs();  // returned by value
  if (!keywords.empty()) inputs.encode_keywords(keywords);
}

// Null while the thread shuts down. Functions that the dispatcher calls by its own name have no
// keywords; asking for them would copy a hash table, which takes 70 ns per operator.
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
