// Reads memory of our own process that other threads change, give back and reuse meanwhile: the
// kernel copies it, and says so where there is nothing, instead of a fault that ends the program.
#pragma once

#include <sys/types.h>
#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <span>

namespace stepscope {

using Address = uintptr_t;

// A piece of memory to be read: where it lies, and how long it is.
inline iovec piece(Address begin, size_t size) { return {reinterpret_cast<void*>(begin), size}; }

class MemoryReader {
 public:
  enum class Way : uint8_t {
    kNone,       // the kernel allows neither
    kVmReadv,    // process_vm_readv: all pieces in one call
    kProcMemory  // /proc/self/mem: a call a piece
  };

  // The fastest way that works here, or the given one; kNone where that does not work.
  static Way best_way();
  static bool works(Way way);

  // To be used by the thread that calls open(): another one may not have its files.
  explicit MemoryReader(Way way);
  ~MemoryReader() { close(); }
  MemoryReader(const MemoryReader&) = delete;
  MemoryReader& operator=(const MemoryReader&) = delete;

  void open();
  void close();

  // Copies the pieces one after the other, as far as they can be read; returns the bytes copied.
  size_t read(std::span<const iovec> pieces, void* into) const;

  bool read(Address begin, void* into, size_t size) const {
    const iovec one = piece(begin, size);
    return read({&one, 1}, into) == size;
  }
  template <typename T>
  bool read(Address begin, T* into) const {
    return read(begin, into, sizeof(T));
  }

 private:
  Way way_;
  int file_ = -1;
  pid_t pid_ = 0;
};

}  // namespace stepscope
