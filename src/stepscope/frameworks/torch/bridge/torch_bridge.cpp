// The torch bridge: every operator, backward function and user scope of every thread, handed to the
// core. Compiled on the user's machine against the installed torch; no Python.
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/record_function.h>
#include <c10/core/Allocator.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "operator_inputs.h"
#include "stepscope/core_api.h"
#include "stepscope/lane.h"

namespace {

using stepscope::Inputs;
using stepscope::Kind;
using stepscope::Lane;
using stepscope::LastingName;
using stepscope::OpenSlice;
using stepscope::SliceFacts;

stepscope_core_api core;

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

// Null when the thread is shutting down.
const Inputs* encoded_inputs(const at::RecordFunction& fn) {
  if (!my_inputs) make_inputs();
  if (my_inputs) my_inputs->encode(fn.inputs());
  return my_inputs;
}

// One word in static TLS: a load instead of a call to find it.
thread_local Lane* my_lane __attribute__((tls_model("initial-exec"))) = nullptr;

void describe_name(const at::RecordFunction& fn, stepscope_begin& what) {
  what.name = fn.name();
  what.name_kind = fn.scope() == at::RecordScope::FUNCTION ? &kind_of_name : nullptr;
  what.overload = &overload_unless_plumbing;
  what.function = &fn;
}

[[gnu::noinline]] uint32_t ask_for_label(Lane& lane, const at::RecordFunction& fn) {
  stepscope_begin what{};
  describe_name(fn, what);
  return core.label(&lane, &what);
}

Kind kind_of(const at::RecordFunction& fn) {
  return fn.scope() == at::RecordScope::USER_SCOPE ? Kind::kRange : Kind::kOperator;
}

[[gnu::always_inline]] inline void describe(const at::RecordFunction& fn, SliceFacts& facts) {
  facts.sequence = fn.seqNr();
  // As torch.profiler has it: without a sequence number there is no forward operator to tie to.
  facts.forward_thread = facts.sequence < 0 ? 0 : static_cast<uint32_t>(fn.forwardThreadId());
  facts.kind = kind_of(fn);
  facts.flags = fn.scope() == at::RecordScope::BACKWARD_FUNCTION ? stepscope::kBackward : 0;
}

template <bool kWithInputs>
[[gnu::noinline, gnu::cold]] OpenSlice* begin_slow(const at::RecordFunction& fn) {
  if (!my_lane) my_lane = core.lane(&my_lane);
  stepscope_begin what{};
  describe_name(fn, what);
  if constexpr (kWithInputs) {
    if (const Inputs* const inputs = encoded_inputs(fn)) {
      what.inputs = inputs->data();
      what.inputs_size = inputs->size();
    }
  }
  what.thread = static_cast<uint32_t>(fn.threadId());
  describe(fn, what.facts);
  return OpenSlice::of(core.begin(&what));
}

template <bool kWithInputs>
[[gnu::hot]] std::unique_ptr<at::ObserverContext> on_start(const at::RecordFunction& fn) {
  Lane* const lane = my_lane;
  OpenSlice* slice = nullptr;
  if (lane && lane->is_open() && lane->logical_id == fn.threadId()) {
    const Inputs* inputs = nullptr;
    if constexpr (kWithInputs) inputs = encoded_inputs(fn);
    const uint32_t stack = lane->shared.stack();
    slice = lane->begin([&](SliceFacts& facts) {
      const char* const name = fn.name();
      const LastingName& lasting = lane->name_at(name);
      facts.label = lasting.address == name ? lasting.label : ask_for_label(*lane, fn);
      facts.stack = stack;
      if (inputs && inputs->size() && kind_of(fn) == Kind::kOperator) {
        facts.detail = core.inputs(lane, inputs->data(), inputs->size());
      }
      describe(fn, facts);  // after the calls: the compiler need not keep it across them
      return facts.label != stepscope::kIgnoredLabel;
    });
  }
  if (!slice) slice = begin_slow<kWithInputs>(fn);
  if (!slice) return nullptr;
  return std::unique_ptr<at::ObserverContext>(new (slice->handle()) Context);
}

[[gnu::hot]] void on_end(const at::RecordFunction&, at::ObserverContext* context) {
  if (!context) return;
  auto* const handle = reinterpret_cast<stepscope_open_slice*>(static_cast<Context*>(context));
  Lane* const lane = my_lane;
  if (!lane || !lane->end(*OpenSlice::of(handle))) core.end(handle);
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

// Stands before torch's CPU allocator while memory is recorded. It lasts for the process: a tensor
// remembers the allocator that it came from.
class CpuAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    c10::DataPtr data = inner()->allocate(bytes);
    // Only a block that is its own context tells, when it is given back, which one it was.
    if (data.get() && data.get() == data.get_context() &&
        data.compare_exchange_deleter(inner()->raw_deleter(), &give_back)) {
      note(data.get(), bytes);
    }
    return data;
  }
  c10::DeleterFnPtr raw_deleter() const override { return &give_back; }
  void copy_data(void* to, const void* from, size_t bytes) const override {
    inner()->copy_data(to, from, bytes);
  }

  void install() {
    c10::Allocator* const current = c10::GetAllocator(c10::DeviceType::CPU);
    if (current == this || !current->raw_deleter()) return;
    inner_.store(current);
    c10::SetAllocator(c10::DeviceType::CPU, this, kPriority);
  }
  void remove() {
    if (c10::GetAllocator(c10::DeviceType::CPU) == this) {
      c10::SetAllocator(c10::DeviceType::CPU, inner(), kPriority);
    }
  }

 private:
  static constexpr uint8_t kPriority = 100;

  // Handed out, or (0 bytes) about to be given back.
  static void note(const void* data, size_t bytes) {
    Lane* const lane = my_lane;
    const auto fill = [&](stepscope::Record& record) {
      record.block = {reinterpret_cast<uintptr_t>(data), static_cast<int64_t>(bytes),
                      stepscope::kCpuDevice};
    };
    if (lane && lane->append(Kind::kBlock, fill)) return;
    if (!bytes) return core.released(data);
    core.allocated(data, bytes, static_cast<uint8_t>(c10::DeviceType::CPU), -1);
  }

  static c10::Allocator* inner() { return inner_.load(std::memory_order_relaxed); }
  static void give_back(void* data) {
    if (data) note(data, 0);
    inner()->raw_deleter()(data);
  }

  static inline std::atomic<c10::Allocator*> inner_{nullptr};
};

CpuAllocator& cpu_allocator() {
  static auto* const only = new CpuAllocator;
  return *only;
}

void name_types() {
  for (int type = 0; type < static_cast<int>(c10::ScalarType::Undefined); ++type) {
    const auto meta = caffe2::TypeMeta::fromScalarType(static_cast<c10::ScalarType>(type));
    core.name_type(static_cast<uint8_t>(type), std::string(meta.name()).c_str());
  }
}

// Several sessions may record at once, each with its own wishes: torch is asked for what any wants.
std::mutex mutex;
struct {
  int operators = 0;
  int inputs = 0;
  int memory = 0;
} users;
at::CallbackHandle handle = 0;  // 0: none
bool handle_has_inputs = false;
at::CallbackHandle empty_handle = 0;

void apply_wishes() {
  const bool wanted = users.operators > 0;
  const bool with_inputs = wanted && users.inputs > 0;
  if (handle && (!wanted || with_inputs != handle_has_inputs)) {
    at::removeCallback(std::exchange(handle, 0));
  }
  if (wanted && !handle) {
    auto callback = with_inputs ? at::RecordFunctionCallback(&on_start<true>, &on_end)
                                : at::RecordFunctionCallback(&on_start<false>, &on_end);
    handle = at::addGlobalCallback(callback.needsInputs(with_inputs));
    handle_has_inputs = with_inputs;
  }
  if (users.memory > 0) {
    cpu_allocator().install();
  } else {
    cpu_allocator().remove();
  }
}

void change_wishes(int by, bool with_inputs, bool with_memory) {
  const std::lock_guard<std::mutex> lock(mutex);
  if (by < 0 && users.operators == 0) return;  // a fork came between
  users.operators += by;
  if (with_inputs) users.inputs += by;
  if (with_memory) users.memory += by;
  apply_wishes();
}

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
  name_types();
  listen_to_operators();
  return 0;
}

EXPORT void stepscope_bridge_start(int with_inputs, int with_memory) {
  change_wishes(1, with_inputs != 0, with_memory != 0);
}

EXPORT void stepscope_bridge_stop(int with_inputs, int with_memory) {
  change_wishes(-1, with_inputs != 0, with_memory != 0);
}

// After a fork the child records nothing until it asks to. torch's callback stays where it is: to
// take it away needs a lock of torch's, which a thread may have held that does not exist here. It
// does nothing while nothing records, and is used again or removed when the child itself records.
EXPORT void stepscope_bridge_reset() {
  new (&mutex) std::mutex;  // it may have been held by such a thread, too
  users = {};
  cpu_allocator().remove();
}

// What torch itself charges for any observer: the floor that benchmarks compare with.
EXPORT void stepscope_bridge_start_empty() {
  empty_handle = at::addGlobalCallback(at::RecordFunctionCallback(&on_start_empty, &on_end_empty));
}
EXPORT void stepscope_bridge_stop_empty() { at::removeCallback(empty_handle); }

// The cost of one recorded function in ns; call it between start and stop.
EXPORT double stepscope_bridge_overhead_ns(int rounds) { return ns_each(rounds); }

#include "probe.h"
