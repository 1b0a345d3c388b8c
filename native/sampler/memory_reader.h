// Reads memory of our own process that other threads change, give back and reuse meanwhile: the
// kernel copies it, and says so where there is nothing, instead of a fault that ends the program.
#pragma once

#include <sys/types.h>
#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

namespace stepscope {

using Address = uintptr_t;

// A piece of memory to be read: where it lies, and how long it is.
inline iovec piece(Address begin, size_t size) { return {reinterpret_cast<void*>(begin), size}; }

class MemoryReader {
 public:
  enum class Way : uint8_t {
    kNone,        // the kernel allows neither
    kVmReadv,     // process_vm_readv: all pieces in one call
    kProcMemory,  // /proc/self/mem: a call a piece
    kDirect       // a copy: for memory that is certain to stay while it is read
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

  // Memory that is there as long as the process is, and that is read without the kernel.
  void set_lasting(Address begin, size_t size) {
    lasting_ = begin;
    lasting_size_ = size;
  }
  template <typename T>
  bool read(Address begin, T* into) const {
    if (begin - lasting_ >= lasting_size_ || begin - lasting_ + sizeof(T) > lasting_size_) {
      return read(begin, into, sizeof(T));
    }
    // As whole words: others write them meanwhile.
    static_assert(sizeof(T) % sizeof(uint64_t) == 0 || sizeof(T) == sizeof(uint32_t));
    using Word = std::conditional_t<sizeof(T) % sizeof(uint64_t) == 0, uint64_t, uint32_t>;
    for (size_t i = 0; i < sizeof(T); i += sizeof(Word)) {
      const Word word = __atomic_load_n(reinterpret_cast<const Word*>(begin + i), __ATOMIC_RELAXED);
      __builtin_memcpy(reinterpret_cast<char*>(into) + i, &word, sizeof word);
    }
    return true;
  }

 private:
  Way way_;
  int file_ = -1;
  Address lasting_ = 0;
  size_t lasting_size_ = 0;
  pid_t pid_ = 0;
};

}  // namespace stepscope
