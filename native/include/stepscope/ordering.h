// How threads order what they read of each other.
//
// A thread that records uses plain and relaxed accesses, on purpose: acquire and release make an
// ARM core wait for its stores to drain, hundreds of ns an operator. Whoever reads what another
// thread wrote pays instead: Inside::order_with_others() makes every thread pass a full barrier.
//
// ThreadSanitizer knows no such barriers. Under it (STEPSCOPE_TSAN) the accesses that the barriers
// order have that order themselves, so it sees where one is missing.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace stepscope {

#if defined(STEPSCOPE_TSAN)
inline constexpr bool kOrdersItself = true;
inline constexpr std::memory_order kPublish = std::memory_order_release;
inline constexpr std::memory_order kObserve = std::memory_order_acquire;
// Where each of two threads writes one flag and then reads the other's.
inline constexpr std::memory_order kHandshake = std::memory_order_seq_cst;
#else
inline constexpr bool kOrdersItself = false;
inline constexpr std::memory_order kPublish = std::memory_order_relaxed;
inline constexpr std::memory_order kObserve = std::memory_order_relaxed;
inline constexpr std::memory_order kHandshake = std::memory_order_relaxed;
#endif

// ---- an open slice, which others copy while it may change: a sequence lock. Its order tells
// afterwards whether it did; the copy is discarded then. The barriers order this in every build: an
// acquire here would hide from ThreadSanitizer what is missing elsewhere.

inline uint64_t relaxed_load(const uint64_t& word) {
  return __atomic_load_n(&word, __ATOMIC_RELAXED);
}
inline void relaxed_store(uint64_t& word, uint64_t value) {
  __atomic_store_n(&word, value, __ATOMIC_RELAXED);
}

// Plain, but for ThreadSanitizer.
template <typename T>
[[gnu::always_inline]] inline void racing_store(T& field, T value) {
#if defined(STEPSCOPE_TSAN)
  __atomic_store(&field, &value, __ATOMIC_RELAXED);
#else
  field = value;
#endif
}

template <typename T>
inline void racing_copy(T& to, const T& from) {
#if defined(STEPSCOPE_TSAN)
  using Word [[gnu::may_alias]] = uint64_t;
  static_assert(sizeof(T) % sizeof(Word) == 0 && alignof(T) >= alignof(Word));
  for (size_t i = 0; i < sizeof(T) / sizeof(Word); ++i) {
    reinterpret_cast<Word*>(&to)[i] =
        __atomic_load_n(reinterpret_cast<const Word*>(&from) + i, __ATOMIC_RELAXED);
  }
#else
  std::memcpy(static_cast<void*>(&to), &from, sizeof(T));
#endif
}

}  // namespace stepscope
