// How threads order what they read of each other.
//
// A thread that records uses plain and relaxed accesses, on purpose: acquire and release make an
// ARM core wait for its stores to drain, hundreds of ns an operator. Whoever reads what another
// thread wrote pays instead: Inside::order_with_others() makes every thread pass a full barrier.
//
// ThreadSanitizer knows no such barriers. Under it (STEPSCOPE_TSAN) the same accesses are atomic,
// with the order that the barriers give them otherwise; so it sees whether any is missing.
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

// An atomic word inside of a plain struct.
inline uint64_t observe(const uint64_t& word) {
  return __atomic_load_n(&word, static_cast<int>(kObserve));
}
inline void publish(uint64_t& word, uint64_t value) {
  __atomic_store_n(&word, value, static_cast<int>(kPublish));
}

// Others may read the field just now; they find out afterwards that it changed, and discard it.
template <typename T, typename Value>
[[gnu::always_inline]] inline void racing_store(T& field, Value value) {
#if defined(STEPSCOPE_TSAN)
  T typed = value;
  __atomic_store(&field, &typed, __ATOMIC_RELEASE);
#else
  field = value;
#endif
}

// The other side of it: copy what may change meanwhile.
template <typename T>
inline void racing_copy(T& to, const T& from) {
#if defined(STEPSCOPE_TSAN)
  using Word [[gnu::may_alias]] = uint64_t;
  static_assert(sizeof(T) % sizeof(Word) == 0 && alignof(T) >= alignof(Word));
  for (size_t i = 0; i < sizeof(T) / sizeof(Word); ++i) {
    reinterpret_cast<Word*>(&to)[i] =
        __atomic_load_n(reinterpret_cast<const Word*>(&from) + i, __ATOMIC_ACQUIRE);
  }
#else
  std::memcpy(static_cast<void*>(&to), &from, sizeof(T));
#endif
}

}  // namespace stepscope
