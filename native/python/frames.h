// The Python frames of the calling thread: where each of them stands.
//
// They are read in one of two ways. The interpreter's own structures need no GIL (the thread
// that asks is the one whose frames they are: nothing changes them meanwhile) in a few ns a frame;
// they change with each release of CPython, so they are read only in those that were tested.
// The public API serves everywhere, needs the GIL and makes an object a frame.
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

struct _PyInterpreterFrame;

namespace stepscope {

// An address inside of a code object that tells the instruction, too: two frames that stand at one
// site run the same code at the same place, as long as the code object lives.
using Site = uintptr_t;

// Identifies a stack without comparing its sites: 128 bits, made of them in two ways. Stacks that
// differ in one site always have different prints, others almost always.
struct StackPrint {
  uint64_t first = 0;
  uint64_t second = 0;

  bool operator==(const StackPrint&) const = default;
};

// The sites of a stack, innermost first, and their print.
class Sites {
 public:
  // Take what `next` returns until that is 0.
  template <typename Next>
  void fill(Next next) {
    // Locals: the compiler cannot know that writing a site changes no member.
    size_t size = 0;
    StackPrint print;
    uint64_t factor = 1;
    Site* place = sites_.get();
    while (const Site site = next()) {
      if (size == capacity_) [[unlikely]]
        place = grow(size);
      place[size++] = site;
      // A sum of products, so that no step waits for the one before; and what costs next to nothing
      // beside it.
      factor *= 0x9E3779B97F4A7C15ULL;
      print.first += site * factor;
      print.second = std::rotl(print.second, 23) + site;
    }
    size_ = size;
    print_ = print;
  }
  std::span<const Site> span() const { return {sites_.get(), size_}; }
  const StackPrint& print() const { return print_; }

 private:
  Site* grow(size_t used);

  std::unique_ptr<Site[]> sites_;
  size_t size_ = 0;
  size_t capacity_ = 0;
  StackPrint print_;
};

struct Frame {
  Site site = 0;
  PyObject* keeper = nullptr;    // borrowed; as long as it lives, nothing else stands at the site
  PyCodeObject* code = nullptr;  // borrowed; null for a frame that is the interpreter's own
  int instruction = 0;           // as PyCode_Addr2Line counts them
};

// Whether the interpreter's structures can be read: the version was tested, and they lead to the
// same frames as the public API. Needs the GIL.
bool internal_frames_work();

// Use the public API from now on, or the internal structures where they work (finding that out
// needs the GIL).
void use_public_frames(bool only_public);
bool uses_public_frames();

// Whether the calling thread is the one that Python was started in, whose state lasts until Python
// ends. False if that is unknown.
bool is_main_thread();

// The sites of this thread's frames. Without the GIL, or with it.
void walk(PyThreadState* thread, Sites& sites);

// The same frames in full. Needs the GIL.
std::vector<Frame> frames_of(PyThreadState* thread);

// The first argument (or the tuple of *args) of a function that is about to begin: of this frame,
// or of the thread's innermost one. Borrowed; null if it is unknown.
PyObject* first_argument_of(const _PyInterpreterFrame* frame);
PyObject* first_argument_of_innermost();

// What a frame of the interpreter runs, borrowed; only where internal_frames_work().
PyObject* executable_of(const _PyInterpreterFrame* frame);
#if PY_VERSION_HEX < 0x030C0000
// Whether evaluating it runs nothing of the function, but makes its generator or coroutine.
bool makes_generator(const _PyInterpreterFrame* frame);
#endif

}  // namespace stepscope
