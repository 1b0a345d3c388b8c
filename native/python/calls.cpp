#include "python/calls.h"

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/clock.h"
#include "core/recorder.h"
#include "python/code_names.h"
#include "python/module.h"

namespace nb = nanobind;

namespace stepscope {
namespace {

// ---- the names of what is called

struct Callee {
  const void* key = nullptr;  // the code object, or the PyMethodDef; null: a free place
  PyObject* keeper = nullptr;
  Recorder::Label label;
  // Whether it is shown, when its caller is shown and when not.
  bool hidden = false;
  bool hidden_below = true;
};

// By address, in open addressing. Each holds a reference, so that the address stays its own.
class Callees {
 public:
  template <typename Make>
  const Callee& find(const void* key, const Make& make) {
    size_t at = hash(key);
    while (places_[at].key && places_[at].key != key) at = (at + 1) & (places_.size() - 1);
    if (places_[at].key) [[likely]]
      return places_[at];
    const Callee made = make();
    if (2 * ++used_ > places_.size()) grow();
    return put(made);
  }

  void clear() {
    const std::vector<Callee> gone = std::exchange(places_, std::vector<Callee>(kFirstPlaces));
    used_ = 0;
    for (const Callee& callee : gone) Py_XDECREF(callee.keeper);
  }

 private:
  static constexpr size_t kFirstPlaces = 1024;

  size_t hash(const void* key) const {
    const uint64_t mixed = reinterpret_cast<uintptr_t>(key) * 0x9E3779B97F4A7C15ULL;
    return (mixed >> 32) & (places_.size() - 1);
  }
  const Callee& put(const Callee& callee) {
    size_t at = hash(callee.key);
    while (places_[at].key) at = (at + 1) & (places_.size() - 1);
    return places_[at] = callee;
  }
  void grow() {
    const std::vector<Callee> old = std::exchange(places_, std::vector<Callee>(2 * places_.size()));
    for (const Callee& callee : old) {
      if (callee.key) put(callee);
    }
  }

  std::vector<Callee> places_ = std::vector<Callee>(kFirstPlaces);
  size_t used_ = 0;
};

// ---- what is open on each thread

struct OpenCall {
  const void* key;
  OpenSlice* slice;  // null: not shown
};
using CallStack = std::vector<OpenCall>;

struct State {
  int users = 0;
  uint32_t run = 0;  // counts the times that recording was switched on
  uint64_t start_ticks = 0;
  Callees callees;
  std::vector<std::unique_ptr<CallStack>> stacks;  // one a thread that made a call in this run
};

State* const state = new State;  // never deleted: threads may outlive static destructors

thread_local CallStack* my_stack __attribute__((tls_model("initial-exec"))) = nullptr;
thread_local uint32_t my_run __attribute__((tls_model("initial-exec"))) = 0;

// ---- pushing and popping

const Callee& callee_of(PyCodeObject* code) {
  return state->callees.find(code, [&] {
    Py_INCREF(code);
    const std::string name = place_name(code, code->co_firstlineno, code->co_name);
    return Callee{code, reinterpret_cast<PyObject*>(code), Recorder::label(name),
                  is_hidden(code, false), is_hidden(code, true)};
  });
}

// pybind11 binds its functions to an object that holds the PyMethodDef, too: it is no self.
bool is_holder(PyObject* self) {
  return PyCapsule_CheckExact(self) ||
         std::string_view(Py_TYPE(self)->tp_name).find("pybind11_detail_function_record") !=
             std::string_view::npos;
}

const Callee& callee_of(PyMethodDef* method, PyObject* self) {
  return state->callees.find(method, [&] {
    PyObject* const holder = self && is_holder(self) ? self : nullptr;
    Py_XINCREF(holder);
    const bool is_bound = self && !holder && !PyModule_Check(self);
    const std::string name = builtin_name(method->ml_name, is_bound ? Py_TYPE(self) : nullptr);
    return Callee{method, holder, Recorder::label(name)};
  });
}

void push(CallStack& stack, const Callee& callee, uint64_t start_ticks = 0) {
  const bool below_hidden = !stack.empty() && !stack.back().slice;
  const bool hidden = below_hidden ? callee.hidden_below : callee.hidden;
  stack.push_back(
      {callee.key, hidden ? nullptr : Recorder::begin(Kind::kPython, callee.label, start_ticks)});
}

// The innermost call of the key ends, and what was left open inside of it. A call that began before
// its thread was watched is not known, and ends nothing.
void pop(CallStack& stack, const void* key) {
  size_t at = stack.size();
  while (at > 0 && stack[at - 1].key != key) --at;
  if (at == 0) return;
  while (stack.size() >= at) {
    if (OpenSlice* const slice = stack.back().slice) Recorder::end(slice);
    stack.pop_back();
  }
}

// Begin the calls that this thread is in, but for the innermost `besides`, as if at the given time.
void push_frames(CallStack& stack, size_t besides, uint64_t start_ticks) {
  std::vector<PyCodeObject*> codes;
  PyFrameObject* frame = PyThreadState_GetFrame(PyThreadState_Get());
  while (frame) {
    PyCodeObject* const code = PyFrame_GetCode(frame);
    Py_DECREF(code);  // the frame has a reference of its own
    codes.push_back(code);
    PyFrameObject* const caller = PyFrame_GetBack(frame);
    Py_DECREF(frame);
    frame = caller;
  }
  for (size_t i = codes.size(); i-- > besides;) {
    push(stack, callee_of(codes[i]), start_ticks);
  }
}

[[gnu::noinline]] CallStack& first_stack(size_t besides, uint64_t start_ticks) {
  const nb::error_scope keep_error;
  my_stack = state->stacks.emplace_back(std::make_unique<CallStack>()).get();
  my_run = state->run;
  push_frames(*my_stack, besides, start_ticks);
  return *my_stack;
}

// The calling thread's; made when it makes its first call, or ends one. What runs on a thread by
// then has run since before we were switched on.
CallStack& stack_before_event(size_t besides) {
  if (my_run == state->run) [[likely]]
    return *my_stack;
  return first_stack(besides, state->start_ticks);
}

// End all that is open, as cut off.
void end_open_calls() {
  for (const auto& stack : state->stacks) {
    for (; !stack->empty(); stack->pop_back()) {
      if (OpenSlice* const slice = stack->back().slice) Recorder::cut_off(slice);
    }
  }
  state->stacks.clear();
  ++state->run;  // from here on no thread takes its stack for a living one
}

// What keeps Python calls from being recorded, or nothing.
std::string start_calls() {
  if (state->users == 0) {
    end_open_calls();
    state->callees.clear();
    state->start_ticks = Clock::ticks();
    if (std::string reason = install_call_hook(); !reason.empty()) return reason;
    first_stack(0, state->start_ticks);
  }
  ++state->users;
  return {};
}

// Whether nobody wants them any more. What is open stays so: whoever closes a window now finds it
// unfinished.
bool stop_calls() {
  if (state->users == 0 || --state->users > 0) return false;
  remove_call_hook();
  return true;
}

// The windows that saw the calls are closed: forget them.
void clear_calls() {
  if (state->users > 0) return;
  end_open_calls();
  state->callees.clear();
}

void forget_calls_after_fork() {
  if (std::exchange(state->users, 0) > 0) remove_call_hook();
  clear_calls();
}

}  // namespace

void on_call(PyCodeObject* code) noexcept {
  CallStack& stack = stack_before_event(1);
  push(stack, callee_of(code));
}

void on_return(PyCodeObject* code) noexcept { pop(stack_before_event(0), code); }

void on_c_call(PyMethodDef* method, PyObject* self) noexcept {
  CallStack& stack = stack_before_event(0);
  push(stack, callee_of(method, self));
}

void on_c_return(PyMethodDef* method) noexcept { pop(stack_before_event(0), method); }

bool on_new_thread() noexcept {
  if (state->users == 0) return false;
  if (my_run != state->run) first_stack(0, Clock::ticks());
  return true;
}

void bind_calls(nb::module_& m) {
  m.def("start_calls", &start_calls);
  m.def("stop_calls", &stop_calls);
  m.def("clear_calls", &clear_calls);
  m.def("forget_calls_after_fork", &forget_calls_after_fork);
  m.attr("new_thread_hook") = nb::steal(new_thread_hook());
}

}  // namespace stepscope
