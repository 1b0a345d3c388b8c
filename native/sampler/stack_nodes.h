// Sampled stacks as a tree of frames, each at an instruction of a copied code object.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace stepscope {

class StackNodes {
 public:
  // In the place of a code object's number.
  static constexpr uint32_t kNativeCall = UINT32_MAX;   // what the parent's instruction calls
  static constexpr uint32_t kLeftOut = UINT32_MAX - 1;  // the frames between these two

  struct Node {
    uint32_t parent = 0;
    uint32_t code = 0;
    int32_t instruction = 0;
    bool operator==(const Node&) const = default;
  };

  // A stack with one more frame; 0 is the empty stack. Parents have lower numbers.
  uint32_t child(uint32_t parent, uint32_t code, int32_t instruction) {
    if (2 * nodes_.size() > slots_.size()) grow();
    const Node node{parent, code, instruction};
    uint32_t& slot = slot_of(node);
    if (!slot) {
      slot = static_cast<uint32_t>(nodes_.size());
      nodes_.push_back(node);
    }
    return slot;
  }

  const std::vector<Node>& nodes() const { return nodes_; }
  size_t bytes() const { return nodes_.size() * sizeof(Node) + slots_.size() * sizeof(uint32_t); }

 private:
  static constexpr size_t kFirstSlots = 1024;

  static size_t hash(const Node& node) {
    uint64_t mixed = (uint64_t{node.parent} << 32 | node.code) * 0x9E3779B97F4A7C15ULL;
    mixed = (mixed ^ mixed >> 29 ^ static_cast<uint32_t>(node.instruction)) * 0xBF58476D1CE4E5B9ULL;
    return mixed ^ mixed >> 32;
  }

  // Its own, or the free one where it belongs.
  uint32_t& slot_of(const Node& node) {
    for (size_t at = hash(node);; ++at) {
      uint32_t& slot = slots_[at & (slots_.size() - 1)];
      if (!slot || nodes_[slot] == node) return slot;
    }
  }

  void grow() {
    slots_ = std::vector<uint32_t>(2 * slots_.size());
    for (uint32_t i = 1; i < nodes_.size(); ++i) slot_of(nodes_[i]) = i;
  }

  std::vector<Node> nodes_ = std::vector<Node>(1);
  std::vector<uint32_t> slots_ = std::vector<uint32_t>(kFirstSlots);  // 0: a free one
};

}  // namespace stepscope
