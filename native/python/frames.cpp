#define PY_SSIZE_T_CLEAN
#define Py_BUILD_CORE 1  // for the frames' structure; this file is the only one that knows of it
#include <Python.h>

// Nothing is assumed of the structures of other releases.
#if PY_VERSION_HEX < 0x030F0000 && !defined(Py_GIL_DISABLED)
#define STEPSCOPE_INTERNAL_FRAMES 1
#if PY_VERSION_HEX < 0x030E0000
#include <internal/pycore_frame.h>
#else
#include <internal/pycore_interpframe.h>
#endif
#if PY_VERSION_HEX >= 0x030D0000
#include <internal/pycore_signal.h>
#endif
#else
#define STEPSCOPE_INTERNAL_FRAMES 0
#endif

#include <algorithm>
#include <atomic>

#include "python/frames.h"
#include "python/interrupts.h"
#include "sampler/sampled_code.h"

namespace stepscope {
namespace {

// ---- through the public API

// A frame that has not begun stands one unit before its first instruction: still in its own object.
Site site_of(const PyCodeObject* code, int instruction) {
  return reinterpret_cast<Site>(code) + static_cast<Site>(instruction + kUnitBytes);
}

// The frames one after the other; a frame without code after the last.
class PublicFrames {
 public:
  explicit PublicFrames(PyThreadState* thread) : frame_(PyThreadState_GetFrame(thread)) {}
  ~PublicFrames() { Py_XDECREF(frame_); }
  PublicFrames(const PublicFrames&) = delete;
  PublicFrames& operator=(const PublicFrames&) = delete;

  Frame next() {
    if (!frame_) return {};
    PyCodeObject* const code = PyFrame_GetCode(frame_);
    const int instruction = PyFrame_GetLasti(frame_);
    Py_DECREF(code);  // the frame has a reference of its own
    PyFrameObject* const caller = PyFrame_GetBack(frame_);
    Py_DECREF(frame_);
    frame_ = caller;
    return {site_of(code, instruction), reinterpret_cast<PyObject*>(code), code, instruction};
  }

 private:
  PyFrameObject* frame_;
};

void walk_public(PyThreadState* thread, Sites& sites) {
  const PyGILState_STATE state = PyGILState_Ensure();
  {
    PublicFrames frames(thread);
    sites.fill([&] { return frames.next().site; });
  }
  PyGILState_Release(state);
}

std::vector<Frame> frames_public(PyThreadState* thread) {
  std::vector<Frame> frames_seen;
  PublicFrames frames(thread);
  for (Frame frame = frames.next(); frame.code; frame = frames.next()) frames_seen.push_back(frame);
  return frames_seen;
}

// ---- through the interpreter's structures

#if STEPSCOPE_INTERNAL_FRAMES

#if PY_VERSION_HEX < 0x030D0000
const _PyInterpreterFrame* innermost(const PyThreadState* thread) {
  return thread->cframe->current_frame;
}
Site site_of(const _PyInterpreterFrame* frame) { return reinterpret_cast<Site>(frame->prev_instr); }
#else
const _PyInterpreterFrame* innermost(const PyThreadState* thread) { return thread->current_frame; }
Site site_of(const _PyInterpreterFrame* frame) { return reinterpret_cast<Site>(frame->instr_ptr); }
#endif

#if PY_VERSION_HEX < 0x030E0000
PyObject* borrowed(PyObject* object) { return object; }
#else
PyObject* borrowed(_PyStackRef reference) {
  return PyStackRef_IsNull(reference) ? nullptr : PyStackRef_AsPyObjectBorrow(reference);
}
#endif

// The interpreter's own frames are walked like all others: they, too, stand at a site.
void walk_internal(const PyThreadState* thread, Sites& sites) {
  const _PyInterpreterFrame* frame = innermost(thread);
  sites.fill([&]() -> Site {
    if (!frame) return 0;
    const Site site = site_of(frame);
    frame = frame->previous;
    return site;
  });
}

std::vector<Frame> frames_internal(PyThreadState* thread) {
  std::vector<Frame> frames;
  for (auto* frame = innermost(thread); frame; frame = frame->previous) {
    Frame& frame_seen = frames.emplace_back();
    frame_seen.site = site_of(frame);
    frame_seen.keeper = executable_of(frame);
    if (_PyFrame_IsIncomplete(const_cast<_PyInterpreterFrame*>(frame))) continue;
    frame_seen.code = reinterpret_cast<PyCodeObject*>(frame_seen.keeper);
    frame_seen.instruction =
        _PyInterpreterFrame_LASTI(const_cast<_PyInterpreterFrame*>(frame)) * kUnitBytes;
  }
  return frames;
}

// The next frame of a function, this one or one that called it.
const _PyInterpreterFrame* complete(const _PyInterpreterFrame* frame) {
  while (frame && _PyFrame_IsIncomplete(const_cast<_PyInterpreterFrame*>(frame)))
    frame = frame->previous;
  return frame;
}

#else

void walk_internal(const PyThreadState*, Sites&) {}
std::vector<Frame> frames_internal(PyThreadState*) { return {}; }

#endif

std::atomic<bool> only_public{!STEPSCOPE_INTERNAL_FRAMES};

}  // namespace

Site* Sites::grow(size_t used) {
  const size_t capacity = std::max<size_t>(64, 2 * capacity_);
  auto larger = std::make_unique<Site[]>(capacity);  // where there is no memory, nothing changes
  std::copy_n(sites_.get(), used, larger.get());
  sites_ = std::move(larger);
  capacity_ = capacity;
  return sites_.get();
}

bool internal_frames_work() {
  if (!STEPSCOPE_INTERNAL_FRAMES) return false;
  PyThreadState* const thread = PyThreadState_Get();
  std::vector<Frame> internal = frames_internal(thread);
  std::erase_if(internal, [](const Frame& frame) { return !frame.code; });
  const std::vector<Frame> expected = frames_public(thread);
  return std::equal(internal.begin(), internal.end(), expected.begin(), expected.end(),
                    [](const Frame& a, const Frame& b) {
                      return a.code == b.code && a.instruction == b.instruction;
                    });
}

void use_public_frames(bool wanted) { only_public = wanted || !internal_frames_work(); }

bool uses_public_frames() { return only_public; }

bool is_main_thread() {
#if STEPSCOPE_INTERNAL_FRAMES
  return _PyOS_IsMainThread();
#else
  return false;
#endif
}

void walk(PyThreadState* thread, Sites& sites) {
  if (only_public.load(std::memory_order_relaxed)) return walk_public(thread, sites);
  walk_internal(thread, sites);
}

std::vector<Frame> frames_of(PyThreadState* thread) {
  return only_public ? frames_public(thread) : frames_internal(thread);
}

PyObject* first_argument_of([[maybe_unused]] const _PyInterpreterFrame* frame) {
#if STEPSCOPE_INTERNAL_FRAMES
  const auto* code = reinterpret_cast<const PyCodeObject*>(executable_of(frame));
  if (code->co_argcount || code->co_flags & CO_VARARGS) return borrowed(frame->localsplus[0]);
#endif
  return nullptr;
}

PyObject* first_argument_of_innermost() {
#if STEPSCOPE_INTERNAL_FRAMES
  if (only_public) return nullptr;
  const _PyInterpreterFrame* const frame = complete(innermost(PyThreadState_Get()));
  return frame ? first_argument_of(frame) : nullptr;
#else
  return nullptr;
#endif
}

PyObject* executable_of([[maybe_unused]] const _PyInterpreterFrame* frame) {
#if !STEPSCOPE_INTERNAL_FRAMES
  return nullptr;
#elif PY_VERSION_HEX < 0x030D0000
  return reinterpret_cast<PyObject*>(frame->f_code);
#else
  return borrowed(frame->f_executable);
#endif
}

#if PY_VERSION_HEX < 0x030C0000
bool makes_generator(const _PyInterpreterFrame* frame) {
  constexpr int kGenerators = CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR;
  return (frame->f_code->co_flags & kGenerators) && frame->owner != FRAME_OWNED_BY_GENERATOR;
}
#endif

}  // namespace stepscope
