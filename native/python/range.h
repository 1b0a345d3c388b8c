// A range of the program, and what `with` does to it. All needs the GIL.
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <cstdint>
#include <string_view>
#include <vector>

namespace stepscope {

struct OpenSlice;
struct Range;

// range.__enter__ or range.__exit__: what a `with` block looks up and calls.
struct BoundMethod {
  PyObject_HEAD vectorcallfunc call;
  Range* range;
};

struct Range {
  PyObject_HEAD PyObject* name;
  PyObject* args;              // null: None
  std::string_view name_utf8;  // both filled when first recorded
  std::string_view args_utf8;
  OpenSlice* open;                     // the latest entry that has not left
  std::vector<OpenSlice*>* also_open;  // earlier ones, when it is entered again before it left
  uint32_t unrecorded;                 // entries made while nothing recorded, not yet left
  std::vector<PyObject*>* as_torchs;   // entries that are ranges of torch's, not yet left
  BoundMethod enter;                   // both have no references while nobody has them
  BoundMethod exit;
};

// False with an exception set.
bool enter(Range* range);
void leave(Range* range);

// Make the methods that a new object has room for.
void init_range_methods(Range* range);

extern PyTypeObject* range_type;

// Give the type its __enter__ and __exit__; false with an exception set.
bool add_range_methods();

}  // namespace stepscope
