#include "python/calls.h"

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/clock.h"
#include "core/recorder.h"
#include "python/callees.h"
#include "python/code_names.h"
#include "python/frames.h"
#include "python/module.h"
#include "python/watched_frames.h"

namespace nb = nanobind;

namespace stepscope {
namespace {

// ---- what is open on each thread

// What a call is for those that it makes.
enum class Below : uint8_t {
  kShown,
  kLetThrough,  // ours and not shown: Python functions are, functions in C are its own doing
  kHidden,      // ours: what is neither the program's nor a package's is its own doing
};

struct OpenCall {
  const void* key;
  OpenSlice* slice;  // null: not shown
  bool of_frame;     // who evaluates its frame will end it, no event
  bool in_library;   // Python code that is not the program's own
  Below below;
};
using CallStack = std::vector<OpenCall>;
constexpr size_t kUsualDepth = 128;

struct State {
  uint32_t run = 0;  // counts the times that recording was switched on
  bool all_calls = false;
  int users = 0;
  Callees callees;
  uint64_t start_ticks = 0;
  std::vector<std::unique_ptr<CallStack>> stacks;  // one a thread that made a call in this run
};

State* const call_state = new State;  // never deleted: threads may outlive static destructors

thread_local CallStack* my_stack __attribute__((tls_model("initial-exec"))) = nullptr;
thread_local uint32_t my_run __attribute__((tls_model("initial-exec"))) = 0;

// ---- pushing and popping

void push(CallStack& stack, const Callee& callee, bool of_frame, uint64_t start_ticks = 0,
          Below shown_until = Below::kLetThrough) {
  const Below place = stack.empty() ? Below::kShown : stack.back().below;
  const bool hidden = place > shown_until ? callee.hidden_below : callee.hidden;
  OpenSlice* const slice =
      hidden ? nullptr : Recorder::begin(Kind::kPython, callee.label, start_ticks);
  Below below = !slice || callee.stands_in ? Below::kHidden : Below::kShown;
  if (callee.lets_through) below = place == Below::kHidden ? place : Below::kLetThrough;
  stack.push_back({callee.key, slice, of_frame, callee.in_library, below});
}

// The callee as this very call of it is named.
[[gnu::noinline]] Callee named_by_watcher(Callee callee, PyObject* subject) {
  callee.label = watched_label(static_cast<const PyCodeObject*>(callee.key), subject, callee.label);
  return callee;
}

// As in torch's traces: a generator stands where it goes on.
constexpr int kGenerates = CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR;

[[gnu::noinline]] Callee resumed(Callee callee, PyCodeObject* code) {
  const nb::error_scope keep_error;
  PyFrameObject* const frame = PyThreadState_GetFrame(PyThreadState_Get());
  const int line = frame ? PyFrame_GetLineNumber(frame) : 0;
  Py_XDECREF(frame);
  if (line > 0 && line != code->co_firstlineno) {
    callee.label = Recorder::label(place_name(code, line, code->co_name));
  }
  return callee;
}

// End what is open from this place on.
void end_from(CallStack& stack, size_t place) {
  while (stack.size() > place) {
    if (OpenSlice* const slice = stack.back().slice) Recorder::end(slice);
    stack.pop_back();
  }
}

// Ends the innermost call of the key, and all calls inside it. A call from before its thread was
// watched is unknown, and ends nothing; so does a call outside of a frame that is still evaluated.
void pop(CallStack& stack, const void* key) {
  for (size_t at = stack.size(); at > 0 && !stack[at - 1].of_frame; --at) {
    if (stack[at - 1].key == key) return end_from(stack, at - 1);
  }
}

// The calls that this thread is in, the outermost first, without the innermost `besides`. As in
// torch's traces, a call that was running already has its current line, not its first.
std::vector<Callee> running_calls(size_t besides) {
  struct Running {
    PyCodeObject* code;
    int line;
  };
  std::vector<Running> calls;
  PyFrameObject* frame = PyThreadState_GetFrame(PyThreadState_Get());
  while (frame) {
    PyCodeObject* const code = PyFrame_GetCode(frame);
    Py_DECREF(code);  // the frame has a reference of its own
    calls.push_back({code, PyFrame_GetLineNumber(frame)});
    PyFrameObject* const caller = PyFrame_GetBack(frame);
    Py_DECREF(frame);
    frame = caller;
  }
  std::vector<Callee> running;
  for (size_t i = calls.size(); i-- > besides;) {
    PyCodeObject* const code = calls[i].code;
    Callee& callee = running.emplace_back(call_state->callees.of(code));
    if (calls[i].line > 0 && !callee.stands_in) {
      callee.label = Recorder::label(place_name(code, calls[i].line, code->co_name));
    }
  }
  return running;
}

// Begins the calls that the thread is in, as if at the given time. Looking them up may run code of
// the program, which may have made the stack meanwhile.
[[gnu::noinline]] CallStack& first_stack(size_t besides, uint64_t start_ticks) {
  const nb::error_scope keep_error;
  const std::vector<Callee> running = running_calls(besides);
  if (my_run == call_state->run) return *my_stack;
  my_stack = call_state->stacks.emplace_back(std::make_unique<CallStack>()).get();
  my_stack->reserve(kUsualDepth);
  my_run = call_state->run;
  for (const Callee& callee : running) push(*my_stack, callee, false, start_ticks);
  return *my_stack;
}

bool has_stack() { return my_run == call_state->run; }

// The calling thread's stack, made at its first event; what runs on the thread by then began before
// recording did. The stack may be gone once a callee was looked up: that may run Python code, and
// the recording may end meanwhile.
CallStack& stack_before_event(size_t besides) {
  if (has_stack()) [[likely]]
    return *my_stack;
  return first_stack(besides, call_state->start_ticks);
}

void end_open_calls() {
  for (const auto& stack : call_state->stacks) {
    for (; !stack->empty(); stack->pop_back()) {
      if (OpenSlice* const slice = stack->back().slice) Recorder::cut_off(slice);
    }
  }
  call_state->stacks.clear();
  ++call_state->run;  // from here on no thread takes its stack for a living one
}

// Returns why Python calls cannot be recorded, or nothing.
//
// If one user wants all calls (functions in C everywhere), all users get them until the last stops.
// Names are formed as the first user wants them.
std::string start_calls(bool all_calls, bool as_torch) {
  if (call_state->users == 0) {
    end_open_calls();
    call_state->callees.clear();
    call_state->callees.name_as_torch(as_torch);
    forget_watched_objects();
    call_state->all_calls = all_calls;
    call_state->start_ticks = Clock::ticks();
    if (std::string reason = install_call_hook(all_calls); !reason.empty()) return reason;
    first_stack(0, call_state->start_ticks);
  } else if (all_calls && !std::exchange(call_state->all_calls, true)) {
    extend_call_hook();
  }
  ++call_state->users;
  return {};
}

// Returns whether this was the last user. Open calls stay open: a window that closes now shows them
// as unfinished.
bool stop_calls() {
  if (call_state->users == 0 || --call_state->users > 0) return false;
  remove_call_hook();
  return true;
}

// To be called once the windows that saw the calls are closed.
void clear_calls() {
  if (call_state->users > 0) return;
  end_open_calls();
  call_state->callees.clear();
  forget_watched_objects();
}

void forget_calls_after_fork() {
  if (std::exchange(call_state->users, 0) > 0) remove_call_hook();
  clear_calls();
}

}  // namespace

void on_call(PyCodeObject* code) noexcept {
  stack_before_event(1);
  const Callee& known_callee = call_state->callees.of(code);
  const bool goes_on = call_state->callees.names_as_torch() && (code->co_flags & kGenerates);
  if (goes_on || known_callee.is_watched || !has_stack()) [[unlikely]] {
    Callee callee = known_callee;
    if (goes_on)
      callee = resumed(callee, code);
    else if (callee.is_watched)
      callee = named_by_watcher(callee, first_argument_of_innermost());
    return push(stack_before_event(1), callee, false);
  }
  push(*my_stack, known_callee, false);
}

void on_return(PyCodeObject* code) noexcept { pop(stack_before_event(0), code); }

void on_c_call(PyMethodDef* method, PyObject* self) noexcept {
  const CallStack& before = stack_before_event(0);
  if (!call_state->all_calls && !before.empty() && before.back().in_library) return;
  const Callee& known_callee = call_state->callees.of(method, self);
  if (!has_stack()) [[unlikely]] {
    const Callee callee = known_callee;
    return push(stack_before_event(0), callee, false, 0, Below::kShown);
  }
  push(*my_stack, known_callee, false, 0, Below::kShown);
}

// A call that was not recorded is not on the stack: its caller is the innermost.
void on_c_return(PyMethodDef* method) noexcept {
  CallStack& stack = stack_before_event(0);
  if (stack.empty() || stack.back().in_library) return;
  pop(stack, method);
}

FrameCall begin_frame(PyCodeObject* code, const _PyInterpreterFrame* frame) noexcept {
  stack_before_event(0);
  const Callee& known_callee = call_state->callees.of(code);
  if (known_callee.is_watched || !has_stack()) [[unlikely]] {
    Callee callee = known_callee;
    if (callee.is_watched) callee = named_by_watcher(callee, first_argument_of(frame));
    push(stack_before_event(0), callee, true);
  } else {
    push(*my_stack, known_callee, true);
  }
  const OpenCall& call = my_stack->back();
  return {code, call.slice, my_run, static_cast<uint32_t>(my_stack->size() - 1), call.in_library};
}

// If the call is not found, recording began anew, or the thread went on with another stack of
// frames.
void end_frame(const FrameCall& call) noexcept {
  if (call.run != call_state->run) [[unlikely]]
    return;
  CallStack& stack = *my_stack;
  if (call.depth >= stack.size()) return;
  const OpenCall& open = stack[call.depth];
  if (open.key == call.key && open.slice == call.slice) end_from(stack, call.depth);
}

bool is_innermost_frame(PyCodeObject* code) noexcept {
  const CallStack& stack = stack_before_event(0);
  return !stack.empty() && stack.back().of_frame && stack.back().key == code;
}

uint32_t calls_run() noexcept { return call_state->run; }

bool skips_c_calls_of(PyCodeObject* code) noexcept {
  return !call_state->all_calls && call_state->callees.of(code).in_library;
}

bool on_new_thread() noexcept {
  if (call_state->users == 0) return false;
  if (my_run != call_state->run) first_stack(0, Clock::ticks());
  return true;
}

void bind_calls(nb::module_& m) {
  m.def("start_calls", &start_calls, nb::arg("all_calls"), nb::arg("as_torch") = false);
  m.def(
      "stand_in",
      [](nb::handle code, std::string name) {
        stand_in(reinterpret_cast<PyCodeObject*>(code.ptr()), std::move(name));
      },
      nb::arg("code"), nb::arg("name"));
  m.def(
      "let_through",
      [](nb::handle code) { let_through(reinterpret_cast<PyCodeObject*>(code.ptr())); },
      nb::arg("code"));
  m.def("stop_calls", &stop_calls);
  m.def("clear_calls", &clear_calls);
  m.def("forget_calls_after_fork", &forget_calls_after_fork);
  m.attr("new_thread_hook") = nb::steal(new_thread_hook());
}

}  // namespace stepscope
