#define PY_SSIZE_T_CLEAN
#define Py_BUILD_CORE 1  // for the structures; with frames.cpp, the only files that know of them
#include "python/sampler_layout.h"

#include <Python.h>

#if PY_VERSION_HEX < 0x030F0000 && !defined(Py_GIL_DISABLED)
#define STEPSCOPE_KNOWN_LAYOUT 1
#undef HAVE_STD_ATOMIC  // C's header for it is none of C++; the layout is the same without
#include <internal/pycore_interp.h>
#include <internal/pycore_runtime.h>
#if PY_VERSION_HEX < 0x030E0000
#include <internal/pycore_frame.h>
#else
#include <internal/pycore_interpframe.h>
#endif
#else
#define STEPSCOPE_KNOWN_LAYOUT 0
#endif

namespace stepscope {

#if STEPSCOPE_KNOWN_LAYOUT

namespace {
using Gil = struct ::_gil_runtime_state;
using Interpreter = PyInterpreterState;
using Thread = PyThreadState;
using InterpreterFrame = ::_PyInterpreterFrame;
}  // namespace

const Layout kLayout = {
    .is_known = true,
    .interpreter_next = offsetof(Interpreter, next),
    .threads_made = offsetof(Interpreter, threads.next_unique_id),
    .first_thread = offsetof(Interpreter, threads.head),
#if PY_VERSION_HEX < 0x030C0000
    .gil_pointer = 0,
#else
    .gil_pointer = offsetof(Interpreter, ceval.gil),
#endif
    .gil_holder = offsetof(Gil, last_holder),
    .gil_taken = offsetof(Gil, locked),
    .gil_switches = offsetof(Gil, switch_number),
    .gil_size = sizeof(Gil),
    .thread_size = offsetof(Thread, datastack_limit) + sizeof(Address),
    .thread_next = offsetof(Thread, next),
    .thread_interpreter = offsetof(Thread, interp),
    .thread_native_id = offsetof(Thread, native_thread_id),
    .thread_id = offsetof(Thread, id),
#if PY_VERSION_HEX < 0x030D0000
    .thread_frame = offsetof(Thread, cframe),
#else
    .thread_frame = offsetof(Thread, current_frame),
#endif
    .thread_chunk = offsetof(Thread, datastack_chunk),
    .thread_top = offsetof(Thread, datastack_top),
    .thread_limit = offsetof(Thread, datastack_limit),
    .chunk_begin = offsetof(_PyStackChunk, data) + sizeof(PyObject*),  // one is left free
#if PY_VERSION_HEX < 0x030D0000
    .frame_is_behind = true,
    .frame_behind = offsetof(_PyCFrame, current_frame),
#else
    .frame_is_behind = false,
    .frame_behind = 0,
#endif
    .frame_size = offsetof(InterpreterFrame, localsplus),
#if PY_VERSION_HEX < 0x030D0000
    .frame_code = offsetof(InterpreterFrame, f_code),
#else
    .frame_code = offsetof(InterpreterFrame, f_executable),
#endif
    .frame_previous = offsetof(InterpreterFrame, previous),
#if PY_VERSION_HEX < 0x030D0000
    .frame_instruction = offsetof(InterpreterFrame, prev_instr),
#else
    .frame_instruction = offsetof(InterpreterFrame, instr_ptr),
#endif
    .frame_owner = offsetof(InterpreterFrame, owner),
    .owner_generator = FRAME_OWNED_BY_GENERATOR,
#if PY_VERSION_HEX < 0x030C0000
    .first_own = 0x7F,
#elif PY_VERSION_HEX < 0x030E0000
    .first_own = FRAME_OWNED_BY_CSTACK,
#else
    .first_own = FRAME_OWNED_BY_INTERPRETER,
#endif
    .code_size = offsetof(PyCodeObject, co_code_adaptive),
    .code_first_line = offsetof(PyCodeObject, co_firstlineno),
    .code_file = offsetof(PyCodeObject, co_filename),
    .code_function = offsetof(PyCodeObject, co_qualname),
    .code_line_table = offsetof(PyCodeObject, co_linetable),
    .code_first_traceable = offsetof(PyCodeObject, _co_firsttraceable),
};

static_assert(offsetof(Interpreter, threads.head) ==
              offsetof(Interpreter, threads.next_unique_id) + sizeof(uint64_t));

Address gil_of([[maybe_unused]] Address interpreter, [[maybe_unused]] const MemoryReader& memory) {
#if PY_VERSION_HEX < 0x030C0000
  return reinterpret_cast<Address>(&_PyRuntime.ceval.gil);
#else
  Address gil = 0;
  return memory.read(interpreter + kLayout.gil_pointer, &gil) ? gil : 0;
#endif
}

GilView view_of_gil(Address gil, const MemoryReader& memory) {
  GilView view;
  int32_t taken = 0;
  if (!gil || !memory.read(gil + kLayout.gil_holder, &view.holder) ||
      !memory.read(gil + kLayout.gil_switches, &view.switches) ||
      !memory.read(gil + kLayout.gil_taken, &taken)) {
    return {};
  }
  view.is_taken = taken == 1;
  return view;
}

void set_lasting_memory(MemoryReader& memory) {
  memory.set_lasting(reinterpret_cast<Address>(&_PyRuntime), sizeof _PyRuntime);
}

int frame_bytes_of(const void* code) {
#if PY_VERSION_HEX < 0x030C0000
  const int words = field<int>(code, offsetof(PyCodeObject, co_nlocalsplus)) +
                    field<int>(code, offsetof(PyCodeObject, co_stacksize)) +
                    static_cast<int>(FRAME_SPECIALS_SIZE);
#else
  const int words = field<int>(code, offsetof(PyCodeObject, co_framesize));
#endif
  return words * static_cast<int>(sizeof(PyObject*));
}

Address newest_interpreter(const MemoryReader& memory) {
  Address newest = 0;
  memory.read(reinterpret_cast<Address>(&_PyRuntime.interpreters.head), &newest);
  return newest;
}

#else

const Layout kLayout = {};
Address gil_of(Address, const MemoryReader&) { return 0; }
GilView view_of_gil(Address, const MemoryReader&) { return {}; }
void set_lasting_memory(MemoryReader&) {}
int frame_bytes_of(const void*) { return 0; }
Address newest_interpreter(const MemoryReader&) { return 0; }

#endif

}  // namespace stepscope
