// Nodes of CUDA graphs as they come: those that a capture adds, and their copies in what is
// launched later.
#pragma once

#include <cstdint>
#include <string>

namespace stepscope {

// Told on the thread that makes the node, which may hold the driver's locks.
struct GraphNodeListener {
  void (*created)(uint64_t node);
  void (*cloned)(uint64_t node, uint64_t original);
};

class GraphWatch {
 public:
  // Tell of nodes until stop() was called as often. Throws std::runtime_error when CUPTI refuses:
  // another tool may be subscribed to it, and there is but one subscriber.
  static void start(const GraphNodeListener* listener);
  static void stop();
};

}  // namespace stepscope
