// What is called, with the name that it has in a trace. All needs the GIL.
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "core/recorder.h"

namespace stepscope {

// Two of them fill a cache line.
struct alignas(32) Callee {
  const void* key = nullptr;  // the code object, or the PyMethodDef; null: a free place
  PyObject* keeper = nullptr;
  Recorder::Label label;
  // Whether it is shown, when its caller is shown and when not.
  bool hidden = false;
  bool hidden_below = true;
  bool in_library = false;    // code that is not the program's own
  bool is_watched = false;    // its calls may have names of their own
  bool stands_in = false;     // it has the name of another, whose place it takes
  bool lets_through = false;  // ours and not shown; the function that it wraps is
};

// By address, in open addressing. Each holds a reference, so that the address stays its own.
class Callees {
 public:
  const Callee& of(PyCodeObject* code) {
    const Callee& callee = places_[place_of(code)];
    return callee.key ? callee : learn(code);
  }
  const Callee& of(PyMethodDef* method, PyObject* self) {
    const Callee& callee = places_[place_of(method)];
    return callee.key ? callee : learn(method, self);
  }

  void clear();

  // Names as torch.profiler gives them: with the addresses of what functions in C are bound to, and
  // with the names of the functions whose place ours take.
  void name_as_torch(bool wanted) { as_torch_ = wanted; }
  bool names_as_torch() const { return as_torch_; }

 private:
  static constexpr size_t kFirstPlaces = 1024;

  // Where it stands, or the free place where it will.
  size_t place_of(const void* key) const {
    const uint64_t mixed = reinterpret_cast<uintptr_t>(key) * 0x9E3779B97F4A7C15ULL;
    size_t at = (mixed >> 32) & mask_;
    while (places_[at].key && places_[at].key != key) at = (at + 1) & mask_;
    return at;
  }

  [[gnu::noinline]] const Callee& learn(PyCodeObject* code);
  [[gnu::noinline]] const Callee& learn(PyMethodDef* method, PyObject* self);
  const Callee& put(const Callee& callee);
  void grow();

  size_t mask_ = kFirstPlaces - 1;
  std::vector<Callee> places_ = std::vector<Callee>(kFirstPlaces);
  size_t used_ = 0;
  bool as_torch_ = false;
};

// From now on, where names are as in torch, calls of this code are shown under `name`: that of the
// function whose place it takes.
void stand_in(PyCodeObject* code, std::string name);

// From now on, Python functions that this code of ours calls are shown as called by its caller.
void let_through(PyCodeObject* code);

}  // namespace stepscope
