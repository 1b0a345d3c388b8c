// Keeps the stream up to date with stacks that are found without the GIL.
#pragma once

#include <cstddef>
#include <cstdint>

#include "python/code_copies.h"
#include "sampler/stack_nodes.h"

namespace stepscope {

class StackJournal {
 public:
  // How many numbers of an owner's were given out before.
  struct Written {
    uint32_t codes = 0;
    uint32_t nodes = 0;  // but for the empty stack, which is 0 in all of them
  };

  // Each owner numbers its own stacks. Owners other than the sampler get a new number.
  static constexpr uint32_t kSampler = 0;
  static uint32_t new_owner();

  explicit StackJournal(uint32_t owner) : owner_(owner) {}
  StackJournal(uint32_t owner, const Written& before) : owner_(owner), before_(before) {}

  void write(const CodeCopies& codes, const StackNodes& stacks);

  uint32_t owner() const { return owner_; }
  uint32_t node_number(uint32_t node) const { return node ? before_.nodes + node : 0; }
  Written written() const {
    return {before_.codes + static_cast<uint32_t>(codes_),
            before_.nodes + static_cast<uint32_t>(nodes_ - 1)};
  }

 private:
  uint32_t code_number(uint32_t code) const {
    return code >= StackNodes::kLeftOut ? code : before_.codes + code;
  }

  uint32_t owner_;
  Written before_;
  size_t codes_ = 0;
  size_t nodes_ = 1;
};

}  // namespace stepscope
