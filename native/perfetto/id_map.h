// From numbers to small numbers, counted from 1 in the order in which they are met.
#pragma once

#include <cstdint>
#include <vector>

namespace stepscope::perfetto {

class IdMap {
 public:
  // The number of `key`; `is_new` tells whether it was met for the first time.
  uint32_t operator()(uint32_t key, bool& is_new) {
    if ((count_ + 1) * 2 > slots_.size()) grow();
    Slot& slot = slot_of(key);
    is_new = slot.id == 0;
    if (is_new) slot = {key, ++count_};
    return slot.id;
  }

 private:
  struct Slot {
    uint32_t key = 0;
    uint32_t id = 0;  // 0: free
  };

  Slot& slot_of(uint32_t key) {
    const size_t mask = slots_.size() - 1;
    size_t at = (key * 0x9e3779b1U >> 7) & mask;
    while (slots_[at].id != 0 && slots_[at].key != key) at = (at + 1) & mask;
    return slots_[at];
  }

  void grow() {
    std::vector<Slot> old = std::move(slots_);
    slots_.assign(old.empty() ? 16 : old.size() * 2, {});
    for (const Slot& slot : old) {
      if (slot.id != 0) slot_of(slot.key) = slot;
    }
  }

  std::vector<Slot> slots_;
  uint32_t count_ = 0;
};

}  // namespace stepscope::perfetto
