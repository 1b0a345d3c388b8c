// The torch bridge: every operator, backward function and user scope of every thread, handed to the
// core. Compiled on the user's machine against the installed torch; two headers, no Python.
#include <ATen/record_function.h>

#include <chrono>
#include <cstring>
#include <memory>
#include <mutex>
#include <new>
#include <utility>

#include "core_api.h"

namespace {

const stepscope_core_api* core = nullptr;

// torch keeps one of these with each running function. It lives in the words that the core's slice
// reserves for it, so that starting an operator allocates nothing.
struct Context final : at::ObserverContext {
  static void* operator new(size_t, void* place) noexcept { return place; }
  static void operator delete(void* self) {
    core->release(static_cast<stepscope_open_slice*>(self));
  }
};
static_assert(sizeof(Context) <= sizeof(stepscope_open_slice), "torch's context has grown");

// Older versions of torch have no overload_name().
template <typename Function>
auto overload_of(const Function& fn, int) -> decltype(fn.overload_name()) {
  return fn.overload_name();
}
template <typename Function>
const char* overload_of(const Function&, long) {
  return "";
}

// The operators by which torch's own record_function enters and leaves: the scope itself is
// recorded, they are not.
bool is_plumbing(const char* name) {
  return name[0] == 'p' && std::strncmp(name, "profiler::_record_function", 26) == 0;
}

const char* overload_name(const void* function) {
  return overload_of(*static_cast<const at::RecordFunction*>(function), 0);
}

std::unique_ptr<at::ObserverContext> on_start(const at::RecordFunction& fn) {
  stepscope_begin what;
  what.name = fn.name();
  if (is_plumbing(what.name)) return nullptr;
  what.overload_of = &overload_name;
  what.function = &fn;
  what.sequence = fn.seqNr();
  what.thread = static_cast<uint32_t>(fn.threadId());
  what.forward_thread = static_cast<uint32_t>(fn.forwardThreadId());
  what.kind = fn.scope() == at::RecordScope::USER_SCOPE ? STEPSCOPE_RANGE : STEPSCOPE_OPERATOR;
  what.flags = fn.scope() == at::RecordScope::BACKWARD_FUNCTION ? STEPSCOPE_BACKWARD : 0;
  stepscope_open_slice* slice = core->begin(&what);
  if (!slice) return nullptr;
  return std::unique_ptr<at::ObserverContext>(new (slice) Context);
}

void on_end(const at::RecordFunction&, at::ObserverContext* context) {
  if (context) core->end(reinterpret_cast<stepscope_open_slice*>(static_cast<Context*>(context)));
}

std::unique_ptr<at::ObserverContext> on_start_empty(const at::RecordFunction&) { return nullptr; }
void on_end_empty(const at::RecordFunction&, at::ObserverContext*) {}

std::mutex mutex;
int users = 0;
at::CallbackHandle handle = 0;
at::CallbackHandle empty_handle = 0;

double ns_each(int rounds) {
  const auto before = std::chrono::steady_clock::now();
  for (int i = 0; i < rounds; ++i) {
    RECORD_FUNCTION("stepscope: calibration", c10::ArrayRef<const c10::IValue>{});
  }
  const std::chrono::duration<double, std::nano> spent = std::chrono::steady_clock::now() - before;
  return spent.count() / rounds;
}

}  // namespace

#define EXPORT extern "C" __attribute__((visibility("default")))

// 0 when this bridge and the core understand each other.
EXPORT int stepscope_bridge_init(const stepscope_core_api* api) {
  if (api->version != STEPSCOPE_CORE_API_VERSION) return 1;
  core = api;
  return 0;
}

EXPORT void stepscope_bridge_start() {
  const std::lock_guard<std::mutex> lock(mutex);
  if (users++ == 0) {
    handle = at::addGlobalCallback(at::RecordFunctionCallback(&on_start, &on_end));
  }
}

EXPORT void stepscope_bridge_stop() {
  const std::lock_guard<std::mutex> lock(mutex);
  if (users > 0 && --users == 0) at::removeCallback(handle);
}

// After a fork the child records nothing until it asks to.
EXPORT void stepscope_bridge_reset() {
  if (std::exchange(users, 0) > 0) at::removeCallback(handle);
}

// What torch itself charges for any observer: the floor that benchmarks compare with.
EXPORT void stepscope_bridge_start_empty() {
  empty_handle = at::addGlobalCallback(at::RecordFunctionCallback(&on_start_empty, &on_end_empty));
}
EXPORT void stepscope_bridge_stop_empty() { at::removeCallback(empty_handle); }

// The cost of one recorded function in ns; call it between start and stop.
EXPORT double stepscope_bridge_overhead_ns(int rounds) { return ns_each(rounds); }
