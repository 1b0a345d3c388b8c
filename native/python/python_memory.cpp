// Wraps Python's allocators of memory, and NumPy's, to sample the blocks that they hand out.
//
// Python has two allocators of small blocks, for objects and for all else, on top of a raw one.
// Wrapping their releases would slow down every release, so only the raw allocator's are wrapped.
// A small block that is drawn for the sample is made larger than a small block can be: so it comes
// from the raw allocator, and its release is seen there.
#include "python/python_memory.h"

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <nanobind/nanobind.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

#include "core/clock.h"
#include "python/heap_samples.h"
#include "python/interrupts.h"
#include "python/module.h"
#include "stepscope/block_draws.h"

namespace nb = nanobind;

namespace stepscope {
namespace {

constexpr size_t kLargestSmall = 512;  // bytes that Python's own allocators serve

// Objects come and go far more often than arrays do, and would crowd them out of one sample.
BlockDraws object_draws;
BlockDraws array_draws;

// How many sampled blocks have addresses with the same hash: tells most other blocks from them.
class SampledAddresses {
 public:
  void add(const void* address) { count_of(address).fetch_add(1, std::memory_order_relaxed); }
  void remove(const void* address) { count_of(address).fetch_sub(1, std::memory_order_relaxed); }
  void clear() {
    for (auto& count : counts_) count.store(0, std::memory_order_relaxed);
  }
  bool may_have(const void* address) {
    return count_of(address).load(std::memory_order_relaxed) != 0;
  }

 private:
  static constexpr int kBits = 16;
  std::atomic<uint16_t>& count_of(const void* address) {
    const auto number = reinterpret_cast<uintptr_t>(address) >> 4;
    return counts_[(number * 0x9E3779B97F4A7C15U) >> (64 - kBits)];
  }

  std::array<std::atomic<uint16_t>, size_t{1} << kBits> counts_{};
};
SampledAddresses sampled;

// How many bytes the next block of the raw allocator represents in the sample. It is 0 unless a
// small block was drawn and is about to be made by the raw allocator.
thread_local int64_t drawn_weight __attribute__((tls_model("initial-exec"))) = 0;

[[gnu::noinline, gnu::cold]] void note(const void* block, int64_t weight) {
  if (!block) return;
  sampled.add(block);
  sample_block(reinterpret_cast<uintptr_t>(block), weight, kCpuDevice);
}

[[gnu::noinline, gnu::cold]] void note_release(const void* block) {
  if (release_block(reinterpret_cast<uintptr_t>(block))) sampled.remove(block);
}

inline void releases(const void* block) {
  if (sampled.may_have(block)) [[unlikely]]
    note_release(block);
}

[[gnu::noinline, gnu::cold]] int64_t weight_of(BlockDraws& draws, size_t bytes) {
  return draws.weight_of(bytes, Clock::now_ns());
}

// ---- small blocks

PyMemAllocatorEx small_inner[2];  // of objects, and of all else

// Has a small block be made by the raw allocator, as one that is sampled.
template <typename Make>
[[gnu::noinline, gnu::cold]] void* make_large(size_t bytes, Make make) {
  drawn_weight = weight_of(object_draws, std::max<size_t>(bytes, 1));
  void* const block = make(kLargestSmall + 1);
  drawn_weight = 0;
  return block;
}

inline bool is_drawn_small(size_t bytes) {
  return bytes <= kLargestSmall && object_draws.is_drawn(bytes);
}

// What is captured is copied: by reference it would need room on the stack in each call.
template <size_t which>
void* small_malloc(void* context, size_t bytes) {
  if (!is_drawn_small(bytes)) [[likely]]
    return small_inner[which].malloc(context, bytes);
  return make_large(bytes,
                    [context](size_t more) { return small_inner[which].malloc(context, more); });
}

template <size_t which>
void* small_calloc(void* context, size_t count, size_t bytes) {
  size_t all = 0;
  if (__builtin_mul_overflow(count, bytes, &all) || !is_drawn_small(all)) [[likely]] {
    return small_inner[which].calloc(context, count, bytes);
  }
  return make_large(all,
                    [context](size_t more) { return small_inner[which].calloc(context, 1, more); });
}

template <size_t which>
void* small_realloc(void* context, void* block, size_t bytes) {
  if (!is_drawn_small(bytes)) [[likely]]
    return small_inner[which].realloc(context, block, bytes);
  return make_large(bytes, [context, block](size_t more) {
    return small_inner[which].realloc(context, block, more);
  });
}

// ---- large blocks

// Samples a block that is new, if it is drawn.
inline void* drawn(BlockDraws& draws, void* block, size_t bytes) {
  if (drawn_weight) [[unlikely]] {
    note(block, std::exchange(drawn_weight, 0));
  } else if (draws.is_drawn(bytes)) [[unlikely]] {
    note(block, weight_of(draws, std::max<size_t>(bytes, 1)));
  }
  return block;
}

PyMemAllocatorEx raw_inner;

void* raw_malloc(void* context, size_t bytes) {
  return drawn(object_draws, raw_inner.malloc(context, bytes), bytes);
}
void* raw_calloc(void* context, size_t count, size_t bytes) {
  return drawn(object_draws, raw_inner.calloc(context, count, bytes), count * bytes);
}
// The old block may be another thread's as soon as it is released, so this is noted before.
void* raw_realloc(void* context, void* block, size_t bytes) {
  releases(block);
  return drawn(object_draws, raw_inner.realloc(context, block, bytes), bytes);
}
void raw_free(void* context, void* block) {
  releases(block);
  raw_inner.free(context, block);
}

// Tells whether the release of a large block comes by: Python may be told to use other allocators.
bool sees_releases(PyMemAllocatorDomain domain) {
  PyMemAllocatorEx allocator;
  PyMem_GetAllocator(domain, &allocator);
  static bool has_seen;
  static PyMemAllocatorEx wrapped;
  has_seen = false;
  PyMem_GetAllocator(PYMEM_DOMAIN_RAW, &wrapped);
  PyMemAllocatorEx watching = wrapped;
  watching.free = [](void* context, void* block) {
    has_seen = true;
    wrapped.free(context, block);
  };
  void* const block = allocator.malloc(allocator.ctx, kLargestSmall + 1);
  PyMem_SetAllocator(PYMEM_DOMAIN_RAW, &watching);
  allocator.free(allocator.ctx, block);
  PyMem_SetAllocator(PYMEM_DOMAIN_RAW, &wrapped);
  return has_seen;
}

template <size_t which>
void wrap_small(PyMemAllocatorDomain domain) {
  if (!sees_releases(domain)) return;
  PyMem_GetAllocator(domain, &small_inner[which]);
  PyMemAllocatorEx ours = small_inner[which];
  ours.malloc = &small_malloc<which>;
  ours.calloc = &small_calloc<which>;
  ours.realloc = &small_realloc<which>;
  PyMem_SetAllocator(domain, &ours);
}

// The context stays what it is: other threads may allocate meanwhile, without the GIL.
void wrap_python() {
  PyMem_GetAllocator(PYMEM_DOMAIN_RAW, &raw_inner);
  PyMemAllocatorEx ours{raw_inner.ctx, &raw_malloc, &raw_calloc, &raw_realloc, &raw_free};
  PyMem_SetAllocator(PYMEM_DOMAIN_RAW, &ours);
  wrap_small<0>(PYMEM_DOMAIN_OBJ);
  wrap_small<1>(PYMEM_DOMAIN_MEM);
}

// ---- NumPy's blocks

// As NumPy declares them; its default allocator's is in place for the whole process.
struct ArrayAllocator {
  void* context;
  void* (*malloc)(void*, size_t);
  void* (*calloc)(void*, size_t, size_t);
  void* (*realloc)(void*, void*, size_t);
  void (*free)(void*, void*, size_t);
};
struct ArrayHandler {
  char name[127];
  uint8_t version;
  ArrayAllocator allocator;
};
constexpr size_t kDefaultHandler = 306;  // in the table of NumPy's functions
constexpr size_t kGetVersion = 211;
constexpr unsigned kFirstWithHandlers = 0xf;  // of the interface: NumPy 1.22

ArrayAllocator array_inner;

void* array_malloc(void* context, size_t bytes) {
  return drawn(array_draws, array_inner.malloc(context, bytes), bytes);
}
void* array_calloc(void* context, size_t count, size_t bytes) {
  return drawn(array_draws, array_inner.calloc(context, count, bytes), count * bytes);
}
void* array_realloc(void* context, void* block, size_t bytes) {
  releases(block);
  return drawn(array_draws, array_inner.realloc(context, block, bytes), bytes);
}
void array_free(void* context, void* block, size_t bytes) {
  releases(block);
  array_inner.free(context, block, bytes);
}

// NumPy's table of functions, if it is loaded.
void** array_functions() {
  PyObject* const modules = PyImport_GetModuleDict();
  for (const char* const name : {"numpy._core._multiarray_umath", "numpy.core._multiarray_umath"}) {
    PyObject* const module = PyDict_GetItemString(modules, name);
    if (!module) continue;
    const nb::object table = quietly(PyObject_GetAttrString(module, "_ARRAY_API"));
    if (table && PyCapsule_CheckExact(table.ptr())) {
      return static_cast<void**>(PyCapsule_GetPointer(table.ptr(), nullptr));
    }
  }
  return nullptr;
}

void wrap_arrays() {
  void** const functions = array_functions();
  if (!functions) return;
  const auto version = reinterpret_cast<unsigned (*)()>(functions[kGetVersion]);
  if (version() < kFirstWithHandlers) return;
  PyObject* const capsule = *static_cast<PyObject**>(functions[kDefaultHandler]);
  if (!PyCapsule_IsValid(capsule, "mem_handler")) return;
  auto* const handler = static_cast<ArrayHandler*>(PyCapsule_GetPointer(capsule, "mem_handler"));
  ArrayAllocator& allocator = handler->allocator;
  if (handler->version != 1 || allocator.malloc == &array_malloc) return;
  array_inner = allocator;
  allocator = {allocator.context, &array_malloc, &array_calloc, &array_realloc, &array_free};
}

}  // namespace

void start_python_memory() {
#ifndef Py_GIL_DISABLED
  [[maybe_unused]] static const bool wrapped = (wrap_python(), true);
  wrap_arrays();
  const auto seed = static_cast<uint64_t>(Clock::now_ns());
  object_draws.start(seed);
  array_draws.start(~seed);
#endif
}

void stop_python_memory() {
  object_draws.stop();
  array_draws.stop();
  sampled.clear();
}

void bind_python_memory(nb::module_& m) { m.def("sample_arrays", &wrap_arrays); }

}  // namespace stepscope
