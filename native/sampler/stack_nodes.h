// Sampled stacks as a tree of frames, each at an instruction of a copied code object.
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>
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
    const Node node{parent, code, instruction};
    const auto [found, is_new] = known_.try_emplace(node, static_cast<uint32_t>(nodes_.size()));
    if (is_new) nodes_.push_back(node);
    return found->second;
  }

  const std::vector<Node>& nodes() const { return nodes_; }
  // Roughly, with what the table of known ones takes.
  size_t bytes() const { return nodes_.size() * 64; }

 private:
  struct Hash {
    size_t operator()(const Node& node) const {
      uint64_t mixed = (uint64_t{node.parent} << 32 | node.code) * 0x9E3779B97F4A7C15ULL;
      mixed = (mixed ^ mixed >> 29 ^ static_cast<uint32_t>(node.instruction)) * 0xBF58476D1CE4E5B9;
      return mixed ^ mixed >> 32;
    }
  };
  std::vector<Node> nodes_ = std::vector<Node>(1);
  std::unordered_map<Node, uint32_t, Hash> known_;
};

}  // namespace stepscope
