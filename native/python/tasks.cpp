// Tasks of asyncio as slices, from their first step to their last.
//
// They are seen where the interpreter resumes a coroutine, am_send and tp_dealloc of its type.
// Nothing that Python code can look at changes: no callback, no coroutine around the program's, no
// task factory. It works with every loop whose tasks are asyncio's own (uvloop's are).
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <nanobind/nanobind.h>

#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "core/recorder.h"
#include "json/json_escape.h"
#include "python/context.h"
#include "python/interrupts.h"
#include "python/module.h"
#include "python/text.h"

namespace nb = nanobind;

namespace stepscope {
namespace {

sendfunc plain_send = nullptr;
destructor plain_dealloc = nullptr;
int task_users = 0;
PyInterpreterState* interpreter = nullptr;  // the only one whose tasks are recorded

// By coroutine; guarded by the GIL. A coroutine that dies is removed, so no address is stale.
std::unordered_map<const PyObject*, OpenSlice*>& open_tasks() {
  static auto* const only = new std::unordered_map<const PyObject*, OpenSlice*>;
  return *only;
}

// Whether a task may begin within another task's step. In these versions of Python, the interpreter
// resumes what a coroutine awaits without calling send().
constexpr bool kHasEagerTasks = PY_VERSION_HEX >= 0x030C0000;

// How many coroutines that were sent something run on this thread: one resumes the next.
thread_local int coroutines_running __attribute__((tls_model("initial-exec"))) = 0;

struct TaskNames {
  PyObject* cr_code = interned("cr_code");
  PyObject* cr_suspended = interned("cr_suspended");
  PyObject* current_task = interned("current_task");
  PyObject* get_coro = interned("get_coro");
  PyObject* tasks = interned("asyncio.tasks");
};

const TaskNames& task_names() {
  static const TaskNames* const only = new TaskNames;
  return *only;
}

// asyncio.current_task(), if asyncio is imported and there is one.
nb::object current_task() {
  static PyObject* ask = nullptr;
  if (!ask) {
    const nb::object module = quietly(PyImport_GetModule(task_names().tasks));
    if (!module.is_valid()) return {};
    ask = quietly(PyObject_GetAttr(module.ptr(), task_names().current_task)).release().ptr();
    if (!ask) return {};
  }
  return quietly(PyObject_CallNoArgs(ask));
}

// Whether this is the first step of a task: coroutines are also driven by other code, and by the
// coroutines that await them.
bool begins_task(PyObject* coroutine) {
  if (quietly(PyObject_GetAttr(coroutine, task_names().cr_suspended)).ptr() == Py_True)
    return false;
  const nb::object task = current_task();
  if (!task.is_valid() || task.is_none()) return false;
  return quietly(PyObject_CallMethodNoArgs(task.ptr(), task_names().get_coro)).ptr() == coroutine;
}

// What a task is called, and where its code is, as the inside of a JSON object.
struct TaskWords {
  std::string name;
  std::string place;
};

std::string utf8(PyObject* text) {
  Py_INCREF(text);
  std::string_view bytes;
  if (!utf8_of(&text, &bytes)) PyErr_Clear();
  std::string copy(bytes);
  Py_DECREF(text);
  return copy;
}

TaskWords words_of(const PyCodeObject* code) {
  return {utf8(code->co_qualname), "\"File\": " + json::quoted(utf8(code->co_filename)) +
                                       ", \"Line\": " + std::to_string(code->co_firstlineno)};
}

// By code, which is kept for as long as tasks are recorded; guarded by the GIL.
std::unordered_map<PyCodeObject*, TaskWords>& known_codes() {
  static auto* const only = new std::unordered_map<PyCodeObject*, TaskWords>;
  return *only;
}

const TaskWords* words_of(PyObject* coroutine) {
  const nb::object code = quietly(PyObject_GetAttr(coroutine, task_names().cr_code));
  if (!code.is_valid() || !PyCode_Check(code.ptr())) return nullptr;
  auto* const code_object = reinterpret_cast<PyCodeObject*>(code.ptr());
  const auto [entry, is_new] = known_codes().try_emplace(code_object);
  if (is_new) {
    Py_INCREF(code_object);
    entry->second = words_of(code_object);
  }
  return &entry->second;
}

void begin_task(PyObject* coroutine) {
  const TaskWords* const words = words_of(coroutine);
  if (!words) return;
  OpenSlice* const slice =
      Recorder::begin(Kind::kTask, words->name, words->place, current_context());
  if (slice) open_tasks()[coroutine] = slice;
}

void end(const PyObject* coroutine) {
  const auto entry = open_tasks().find(coroutine);
  if (entry == open_tasks().end()) return;
  Recorder::end(entry->second);
  open_tasks().erase(entry);
}

PySendResult send(PyObject* coroutine, PyObject* value, PyObject** result) {
  const bool is_top =
      (coroutines_running == 0 || kHasEagerTasks) && PyInterpreterState_Get() == interpreter;
  if (is_top && Recorder::recording() && !open_tasks().contains(coroutine) &&
      begins_task(coroutine)) {
    begin_task(coroutine);
  }
  ++coroutines_running;
  const PySendResult status = plain_send(coroutine, value, result);
  --coroutines_running;
  if (is_top && status != PYGEN_NEXT) end(coroutine);
  return status;
}

// A coroutine that was cancelled or dropped ends here.
void dealloc(PyObject* coroutine) {
  if (PyInterpreterState_Get() == interpreter && !open_tasks().empty()) end(coroutine);
  plain_dealloc(coroutine);
}

void start_tasks() {
  if (task_users++ > 0) return;
  PyAsyncMethods& methods = *PyCoro_Type.tp_as_async;
  interpreter = PyInterpreterState_Get();
  plain_send = methods.am_send;
  plain_dealloc = PyCoro_Type.tp_dealloc;
  methods.am_send = &send;
  PyCoro_Type.tp_dealloc = &dealloc;
}

void give_back_slots() {
  PyAsyncMethods& methods = *PyCoro_Type.tp_as_async;
  if (methods.am_send == &send) methods.am_send = plain_send;
  if (PyCoro_Type.tp_dealloc == &dealloc) PyCoro_Type.tp_dealloc = plain_dealloc;
}

void stop_tasks() {
  if (task_users == 0 || --task_users > 0) return;
  give_back_slots();
  for (const auto& [coroutine, slice] : open_tasks()) Recorder::cut_off(slice);
  open_tasks().clear();
  const auto codes = std::exchange(known_codes(), {});
  for (const auto& [code, words] : codes) Py_DECREF(code);
}

void forget_tasks_after_fork() {
  task_users = 0;
  give_back_slots();
  open_tasks().clear();
}

}  // namespace

void bind_tasks(nb::module_& m) {
  m.def("start_tasks", &start_tasks);
  m.def("stop_tasks", &stop_tasks);
  m.def("forget_tasks_after_fork", &forget_tasks_after_fork);
}

}  // namespace stepscope
