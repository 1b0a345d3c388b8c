// Where the interpreter keeps what the sampler reads: offsets into its structures, as numbers. They
// are those of the release that this was compiled for.
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <cstddef>
#include <cstdint>

#include "sampler/memory_reader.h"

namespace stepscope {

struct Layout {
  bool is_known;  // this release was tested

  // Of an interpreter: the next one, and its threads, newest first; `threads_made` counts all that
  // there ever were, and lies just before the first.
  size_t interpreter_next;
  size_t threads_made;
  size_t first_thread;
  // Its GIL: a pointer to it, or (0) there is one for all.
  size_t gil_pointer;

  // Of a GIL: who had it last, whether it is taken, and how often another thread took it.
  size_t gil_holder;
  size_t gil_taken;
  size_t gil_switches;
  size_t gil_size;

  // Of a thread.
  size_t thread_size;  // as far as it is read
  size_t thread_next;
  size_t thread_interpreter;
  size_t thread_native_id;
  size_t thread_id;     // never used twice in one interpreter
  size_t thread_frame;  // the innermost frame, or what points to it
  size_t thread_chunk;  // of the memory that frames lie in, one behind the other
  size_t thread_top;    // the end of what is used of it
  size_t thread_limit;  // the end of it
  size_t chunk_begin;   // of the frames in a thread's first chunk

  // Whether `thread_frame` points to a structure that has the pointer to the frame, and where.
  bool frame_is_behind;
  size_t frame_behind;

  // Of a frame.
  size_t frame_size;  // as far as it is read; then come its variables
  size_t frame_code;
  size_t frame_previous;
  size_t frame_instruction;
  size_t frame_owner;
  int owner_generator;
  int first_own;  // owners from here on: a frame that is the interpreter's own

  // Of a code object.
  size_t code_size;  // without the instructions that follow
  size_t code_first_line;
  size_t code_file;
  size_t code_function;
  size_t code_line_table;
  size_t code_first_traceable;
};

extern const Layout kLayout;

// The bits of a frame's reference to its code that are no part of the address.
inline constexpr Address kReferenceTags = 3;

struct GilView {
  Address holder = 0;
  uint64_t switches = 0;
  bool is_taken = false;
};
GilView view_of_gil(Address gil, const MemoryReader& memory);

// The interpreter's own memory that is never given back.
void set_lasting_memory(MemoryReader& memory);

// The GIL that an interpreter's threads share, 0 when it cannot be told. The interpreter may be
// gone by now.
Address gil_of(Address interpreter, const MemoryReader& memory);

// What a frame of a code object takes of a chunk, by a copy of the object.
int frame_bytes_of(const void* code);

// The newest interpreter.
Address newest_interpreter(const MemoryReader& memory);

template <typename T>
T field(const void* object, size_t offset) {
  T value;
  __builtin_memcpy(&value, static_cast<const char*>(object) + offset, sizeof value);
  return value;
}

}  // namespace stepscope
