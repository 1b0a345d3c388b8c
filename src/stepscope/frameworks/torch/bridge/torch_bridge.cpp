// The torch bridge: hands every operator, backward function and user scope of every thread to the
// core. It is compiled on the user's machine against the installed torch, and contains no Python.
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

#include "bridge_state.h"
#include "cpu_allocator.h"
#include "input_samples.h"
#include "operator_inputs.h"
#include "running_operators.h"
#include "script_notes.h"
#include "stepscope/core_api.h"
#include "stepscope/lane.h"
#include "tensor_notes.h"
#include "value_ledger.h"

namespace {

using stepscope::core;
using stepscope::cpu_allocator;
using stepscope::CpuAllocator;
using stepscope::encoded_inputs;
using stepscope::Inputs;
using stepscope::is_plumbing;
using stepscope::Kind;
using stepscope::kind_of_name;
using stepscope::Lane;
using stepscope::LastingName;
using stepscope::my_lane;
using stepscope::note_function;
using stepscope::note_tensors;
using stepscope::OpenSlice;
using stepscope::overload_of;
using stepscope::SliceFacts;
using stepscope::TextPrint;

// torch keeps one of these with each running function. It lives in the word that the core's slice
// reserves for it, so that starting an operator allocates nothing. It has no state: torch may
// destroy one (which does nothing) long after its function ended and the slice was reused.
struct Context final : at::ObserverContext {
  static void* operator new(size_t, void* place) noexcept { return place; }
  static void operator delete(void*) noexcept {}
};
static_assert(sizeof(Context) <= sizeof(stepscope_open_slice), "torch's context has grown");

const char* overload_unless_plumbing(const void* function) {
  const auto& fn = *static_cast<const at::RecordFunction*>(function);
  return is_plumbing(fn.name()) ? nullptr : overload_of(fn, 0);
}

void describe_name(const at::RecordFunction& fn, stepscope_begin& what) {
  what.name = fn.name();
  what.name_kind = fn.scope() == at::RecordScope::FUNCTION ? &kind_of_name : nullptr;
  what.overload = &overload_unless_plumbing;
  what.function = &fn;
}

[[gnu::noinline, gnu::cold]] uint32_t ask_for_label(Lane& lane, const at::RecordFunction& fn) {
  stepscope_begin what{};
  describe_name(fn, what);
  return core.label(&lane, &what);
}

// For a name whose address may be reused. A quarter of the functions of a training step have such
// names, and calling the core is slow: it is called for new names only.
[[gnu::noinline]] uint32_t label_of(Lane& lane, const at::RecordFunction& fn, const char* name) {
  const bool passes =
      fn.scope() != at::RecordScope::FUNCTION || kind_of_name(&fn) == STEPSCOPE_NAME_PASSES;
  const uint32_t cached = passes ? lane.texts.find(TextPrint(name)) : lane.texts.kUnknown;
  return cached != lane.texts.kUnknown ? cached : ask_for_label(lane, fn);
}

uint32_t detail_of(Lane& lane, const Inputs& inputs) {
  const uint32_t cached = lane.inputs.find(TextPrint({inputs.data(), inputs.size()}));
  return cached != lane.inputs.kUnknown ? cached : core.inputs(&lane, inputs.data(), inputs.size());
}

Kind kind_of(const at::RecordFunction& fn) {
  return fn.scope() == at::RecordScope::USER_SCOPE ? Kind::kRange : Kind::kOperator;
}

[[gnu::always_inline]] inline void describe(const at::RecordFunction& fn, SliceFacts& facts) {
  facts.sequence = fn.seqNr();
  // As in torch.profiler, nothing links to a forward operator without a sequence number.
  facts.forward_thread = facts.sequence < 0 ? 0 : static_cast<uint32_t>(fn.forwardThreadId());
  facts.kind = kind_of(fn);
  facts.flags = fn.scope() == at::RecordScope::BACKWARD_FUNCTION ? stepscope::kBackward : 0;
  if (facts.kind == Kind::kRange && fn.isAsync()) {
    facts.flags |= stepscope::kAsync;  // a collective, which another thread ends
  }
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
[[gnu::noinline]] void note_more(const at::RecordFunction& fn, const OpenSlice& slice, int wanted) {
  if constexpr (kWithInputs) {
    if (wanted & stepscope::kTensorsOf) note_tensors(fn, slice);
  }
  if (wanted & (stepscope::kScriptFrames | stepscope::kScriptModules)) {
    stepscope::note_script(fn, slice, wanted);
  }
  if (fn.handle()) {
    note_function(fn, slice);  // an observer has functions numbered
    if (!(wanted & stepscope::kNumbered)) stepscope::notes_wanted |= stepscope::kNumbered;
  } else if (wanted & stepscope::kNumbered) {
    stepscope::notes_wanted &= ~stepscope::kNumbered;
  }
}

template <bool kWithInputs>
[[gnu::hot]] std::unique_ptr<at::ObserverContext> on_start(const at::RecordFunction& fn) {
  Lane* const lane = my_lane;
  OpenSlice* slice = nullptr;
  if (lane && lane->is_open() && lane->logical_id == fn.threadId()) {
    const char* const name = fn.name();
    const LastingName& lasting = lane->name_at(name);
    const Inputs* inputs = nullptr;
    if constexpr (kWithInputs) inputs = encoded_inputs(fn, lasting.address != name);
    const uint32_t stack = lane->shared.stack();
    slice = lane->begin([&](SliceFacts& facts) {
      facts.label = lasting.address == name ? lasting.label : label_of(*lane, fn, name);
      facts.stack = stack;
      if (inputs && inputs->size()) facts.detail = detail_of(*lane, *inputs);
      describe(fn, facts);  // after the calls, so that the compiler need not preserve it
      if (facts.detail && facts.kind != Kind::kOperator) facts.flags |= stepscope::kHasInputs;
      return facts.label != stepscope::kIgnoredLabel;
    });
  }
  if (!slice) slice = begin_slow<kWithInputs>(fn);
  if (!slice) return nullptr;
  const int wanted = stepscope::notes_wanted.load(std::memory_order_relaxed);
  if (wanted || fn.handle()) [[unlikely]]
    note_more<kWithInputs>(fn, *slice, wanted);
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

// Libraries of operators may be removed while the program runs.
struct OperatorListener final : c10::OpRegistrationListener {
  void onOperatorRegistered(const c10::OperatorHandle&) override {}
  void onOperatorDeregistered(const c10::OperatorHandle&) override { core.names_changed(); }
};

void listen_to_operators() {
  static const auto* const forever = new c10::RegistrationHandleRAII(
      c10::Dispatcher::singleton().addRegistrationListener(std::make_unique<OperatorListener>()));
  (void)forever;
}

void name_types() {
  for (int type = 0; type < static_cast<int>(c10::ScalarType::Undefined); ++type) {
    const auto meta = caffe2::TypeMeta::fromScalarType(static_cast<c10::ScalarType>(type));
    core.name_type(static_cast<uint8_t>(type), std::string(meta.name()).c_str());
  }
}

// What a session wants beyond names and times; as in frameworks/torch/operators.py.
enum Wish : int {
  kInputs = 1,
  kMemory = 2,
  kSampledInputs = 4,
  kSampledMemory = 8,
  kTensors = 16,
  kFramesOfScripts = 32,
  kModulesOfScripts = 64,
  kValues = 128,
};

// Several sessions may record at once, each with its own wishes: torch is asked for their union.
std::mutex mutex;
struct {
  int operators = 0;
  int inputs = 0;
  int memory = 0;
  int sampled_inputs = 0;
  int sampled_memory = 0;
  int tensors = 0;
  int script_frames = 0;
  int script_modules = 0;
  int values = 0;
  int names = 0;
} users;

// A callback of torch's, registered while it is wanted.
struct Callback {
  at::CallbackHandle handle = 0;  // 0: not registered

  void remove() {
    if (handle) at::removeCallback(std::exchange(handle, 0));
  }
};
Callback recording;
bool recording_has_inputs = false;
Callback drawing;
Callback numbering;
Callback naming;
at::CallbackHandle empty_handle = 0;

void apply_wishes() {
  const bool wanted = users.operators > 0;
  const bool with_inputs = wanted && users.inputs > 0;
  const bool with_samples = wanted && !with_inputs && users.sampled_inputs > 0;
  if (!wanted || with_inputs != recording_has_inputs) recording.remove();
  if (wanted && !recording.handle) {
    auto callback = with_inputs ? at::RecordFunctionCallback(&on_start<true>, &on_end)
                                : at::RecordFunctionCallback(&on_start<false>, &on_end);
    recording.handle = at::addGlobalCallback(callback.needsInputs(with_inputs));
    recording_has_inputs = with_inputs;
  }
  stepscope::samples_inputs = with_samples;
  const int numbered = wanted ? stepscope::notes_wanted & stepscope::kNumbered : 0;
  stepscope::notes_wanted = numbered |
                            (with_inputs && users.tensors > 0 ? stepscope::kTensorsOf : 0) |
                            (users.script_frames > 0 ? stepscope::kScriptFrames : 0) |
                            (users.script_modules > 0 ? stepscope::kScriptModules : 0);
  if (!with_samples) drawing.remove();
  if (with_samples && !drawing.handle) {
    stepscope::drawn = 0;
    drawing.handle = at::addGlobalCallback(stepscope::drawing_callback(stepscope::kFirstShare));
  }
  // Its callback follows the one that begins slices.
  if (users.values > 0 && !numbering.handle) {
    stepscope::begin_ledger();
    numbering.handle = at::addGlobalCallback(stepscope::ledger_callback());
  } else if (users.values == 0 && numbering.handle) {
    numbering.remove();
    stepscope::end_ledger();
  }
  cpu_allocator().use((users.memory > 0 ? CpuAllocator::kNotesAll : 0) |
                      (users.sampled_memory > 0 ? CpuAllocator::kSamples : 0));
}

void draw_inputs_less() {
  const std::lock_guard<std::mutex> lock(mutex);
  if (!drawing.handle) return;
  drawing.remove();
  drawing.handle = at::addGlobalCallback(stepscope::drawing_callback(stepscope::kShare));
}

void change_wishes(int by, int wishes) {
  const std::lock_guard<std::mutex> lock(mutex);
  if (by < 0 && users.operators == 0) return;  // the process was forked in between
  users.operators += by;
  if (wishes & kInputs) users.inputs += by;
  if (wishes & kMemory) users.memory += by;
  if (wishes & kSampledInputs) users.sampled_inputs += by;
  if (wishes & kSampledMemory) users.sampled_memory += by;
  if (wishes & kTensors) users.tensors += by;
  if (wishes & kFramesOfScripts) users.script_frames += by;
  if (wishes & kModulesOfScripts) users.script_modules += by;
  if (wishes & kValues) users.values += by;
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

// Return 0 if this bridge and the core fit each other.
EXPORT int stepscope_bridge_init(const stepscope_core_api* api) {
  if (api->version != STEPSCOPE_CORE_API_VERSION) return 1;
  core = *api;
  name_types();
  listen_to_operators();
  stepscope::draw_less = &draw_inputs_less;
  return 0;
}

// The wishes are those of enum Wish.
EXPORT void stepscope_bridge_start(int wishes) { change_wishes(1, wishes); }

EXPORT void stepscope_bridge_stop(int wishes) { change_wishes(-1, wishes); }

// Keep the names of running operators until this is called as often with false.
EXPORT void stepscope_bridge_name_operators(bool on) {
  const std::lock_guard<std::mutex> lock(mutex);
  if (!on && users.names == 0) return;  // the process was forked in between
  users.names += on ? 1 : -1;
  if (!users.names) naming.remove();
  if (!users.names || naming.handle) return;
  naming.handle = at::addGlobalCallback(stepscope::naming_callback());
}

// The innermost operator that the calling thread runs and that began since; null for none.
EXPORT const char* stepscope_bridge_operator() { return stepscope::running_operator(); }

// A forked child records nothing until it starts a recording. torch's callback stays registered:
// removing it needs a lock of torch's, which a thread that does not exist here may hold. It does
// nothing while nothing records, and is reused or removed when the child itself records.
EXPORT void stepscope_bridge_reset() {
  new (&mutex) std::mutex;  // such a thread may hold it, too
  new (&stepscope::texts_mutex) std::mutex;
  stepscope::leave_notes_of_parent();
  users = {};
  stepscope::samples_inputs = false;
  stepscope::notes_wanted = 0;
  stepscope::leave_ledger_of_parent();
  cpu_allocator().use(0);
}

// Return the number of noted tensors, and copy the notes if there is room for all. They are kept
// until stepscope_bridge_forget_tensors().
EXPORT int64_t stepscope_bridge_tensors(stepscope::TensorNote* notes, int64_t room) {
  const std::vector<stepscope::TensorNote> all_notes = stepscope::tensor_notes();
  const auto count = static_cast<int64_t>(all_notes.size());
  if (count && count <= room)
    std::memcpy(notes, all_notes.data(), all_notes.size() * sizeof(all_notes[0]));
  return count;
}
// A text that notes of TorchScript refer to by number.
EXPORT const char* stepscope_bridge_text(uint64_t number) {
  return stepscope::text_of_number(number);
}

EXPORT void stepscope_bridge_forget_tensors() { stepscope::forget_tensors(); }

// Whether other observers see the calling thread's functions: a profiler of torch's own, or an
// observer that has them numbered.
EXPORT bool stepscope_bridge_others_listen() {
  for (const auto& entry : at::get_record_function_tls_().sorted_tls_callbacks_) {
    if (entry.callback_.start() != &stepscope::on_look) return true;
  }
  return stepscope::notes_wanted.load(std::memory_order_relaxed) & stepscope::kNumbered;
}

// torch's own cost of any observer: the lower bound that benchmarks compare with.
EXPORT void stepscope_bridge_start_empty() {
  empty_handle = at::addGlobalCallback(at::RecordFunctionCallback(&on_start_empty, &on_end_empty));
}
EXPORT void stepscope_bridge_stop_empty() { at::removeCallback(empty_handle); }

// Return the cost of one recorded function in ns; call it between start and stop.
EXPORT double stepscope_bridge_overhead_ns(int rounds) { return ns_each(rounds); }

#include "probe.h"

// Code outside of torch gets the data of a tensor, given by its address.
EXPORT void stepscope_bridge_escaped(const void* tensor) {
  stepscope::note_escape(static_cast<const c10::TensorImpl*>(tensor));
}
