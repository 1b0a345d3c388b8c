// Memory of our own, from the kernel, for what a recording keeps.
//
// In the program's heap, our pieces would take holes that its tensors leave for a moment. The next
// tensors would not fit there, and the heap would grow again and again.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <memory_resource>
#include <new>

namespace stepscope {

// MADV_POPULATE_WRITE, which older headers do not have: since Linux 5.14. Before, it is refused and
// does no harm.
inline constexpr int kPopulateWrite = 23;

// For large pieces, or behind a resource that takes large pieces: each takes whole pages.
class OwnPages : public std::pmr::memory_resource {
 public:
  static OwnPages& instance() {
    static OwnPages pages;
    return pages;
  }

 private:
  void* do_allocate(size_t bytes, size_t /*alignment: pages have any*/) override {
    void* const found =
        mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (found == MAP_FAILED) throw std::bad_alloc();
    return found;
  }
  void do_deallocate(void* at, size_t bytes, size_t /*alignment*/) override { munmap(at, bytes); }
  bool do_is_equal(const memory_resource& other) const noexcept override { return this == &other; }
};

}  // namespace stepscope
