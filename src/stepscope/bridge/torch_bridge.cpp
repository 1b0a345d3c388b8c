// The torch bridge: every operator, backward function and user scope of every thread, handed to the
// core. Compiled on the user's machine against the installed torch; two headers, no Python.
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/record_function.h>

#include <chrono>
#include <cstring>
#include <memory>
#include <mutex>
#include <new>
#include <utility>

#include "core_api.h"

namespace {

stepscope_core_api core;  // a copy: one page of memory less to touch for each operator

// torch keeps one of these with each running function. It lives in the word that the core's slice
// reserves for it, so that starting an operator allocates nothing. It has no state: torch may
// destroy one (which does nothing) long after its function ended and the slice serves another.
struct Context final : at::ObserverContext {
  static void* operator new(size_t, void* place) noexcept { return place; }
  static void operator delete(void*) noexcept {}
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

// What overload_of() returns for a function that was given by a mere string: always the same
// pointer, or null where that cannot be told. An operator's name lasts, such a string does not.
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

// The operators by which torch's own record_function enters and leaves: the scope itself is
// recorded, they are not.
bool is_plumbing(const char* name) {
  return std::strncmp(name, "profiler::_record_function", 26) == 0;
}

const char* overload_unless_plumbing(const void* function) {
  const auto& fn = *static_cast<const at::RecordFunction*>(function);
  return is_plumbing(fn.name()) ? nullptr : overload_of(fn, 0);
}

std::unique_ptr<at::ObserverContext> on_start(const at::RecordFunction& fn) {
  stepscope_begin what;
  what.name = fn.name();
  what.name_kind = fn.scope() == at::RecordScope::FUNCTION ? &kind_of_name : nullptr;
  what.overload = &overload_unless_plumbing;
  what.function = &fn;
  what.sequence = fn.seqNr();
  what.thread = static_cast<uint32_t>(fn.threadId());
  // As torch.profiler has it: without a sequence number there is no forward operator to tie to.
  what.forward_thread = what.sequence < 0 ? 0 : static_cast<uint32_t>(fn.forwardThreadId());
  what.kind = fn.scope() == at::RecordScope::USER_SCOPE ? STEPSCOPE_RANGE : STEPSCOPE_OPERATOR;
  what.flags = fn.scope() == at::RecordScope::BACKWARD_FUNCTION ? STEPSCOPE_BACKWARD : 0;
  stepscope_open_slice* slice = core.begin(&what);
  if (!slice) return nullptr;
  return std::unique_ptr<at::ObserverContext>(new (slice) Context);
}

void on_end(const at::RecordFunction&, at::ObserverContext* context) {
  if (context) core.end(reinterpret_cast<stepscope_open_slice*>(static_cast<Context*>(context)));
}

std::unique_ptr<at::ObserverContext> on_start_empty(const at::RecordFunction&) { return nullptr; }
void on_end_empty(const at::RecordFunction&, at::ObserverContext*) {}

// A library of operators may be taken out again while the program runs.
struct OperatorListener final : c10::OpRegistrationListener {
  void onOperatorRegistered(const c10::OperatorHandle&) override {}
  void onOperatorDeregistered(const c10::OperatorHandle&) override { core.names_changed(); }
};

void listen_to_operators() {
  static const auto* const forever = new c10::RegistrationHandleRAII(
      c10::Dispatcher::singleton().addRegistrationListener(std::make_unique<OperatorListener>()));
  (void)forever;
}

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
  core = *api;
  listen_to_operators();
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
