// A vector that grows without moving what it holds: large tables are neither copied nor doubled.
#pragma once

#include <cstddef>
#include <memory>
#include <type_traits>
#include <vector>

namespace stepscope::json {

template <typename T>
class BlockList {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  T& operator[](size_t i) { return blocks_[i / kBlock][i % kBlock]; }
  const T& operator[](size_t i) const { return blocks_[i / kBlock][i % kBlock]; }

  void push_back(const T& item) {
    if (size_ % kBlock == 0) blocks_.emplace_back(std::make_unique_for_overwrite<T[]>(kBlock));
    blocks_[size_ / kBlock][size_ % kBlock] = item;
    ++size_;
  }

 private:
  static constexpr size_t kBlock = 16'384;

  std::vector<std::unique_ptr<T[]>> blocks_;
  size_t size_ = 0;
};

}  // namespace stepscope::json
