// Nodes of CUDA graphs as they come: those that a capture adds, and their copies in what is
// launched later.
#pragma once

#include <cstdint>
#include <string>

namespace stepscope {

// Told on the thread that makes the node, which may hold the driver's locks. A node is known by its
// address while it lives. Only copies are ever run, and what they do is recorded with their ids: to
// ask for one takes half a microsecond.
struct GraphNodeListener {
  void (*began)();  // nodes were not told of until now
  // ``copying``: nodes of this graph were copies so far; what this one is, if it is one, comes
  // next.
  void (*created)(const void* node, bool copying);
  void (*cloned)(const void* node, uint64_t id, const void* original);
  void (*noted)();  // what was told of is to outlive the process; on any thread
};

class GraphWatch {
 public:
  // Tell of nodes until stop() was called as often. Throws std::runtime_error when CUPTI refuses:
  // another tool may be subscribed to it, and there is but one subscriber.
  static void start(const GraphNodeListener* listener);
  static void stop();
  // Have the listener keep what it was told of; called now and then.
  static void deliver();
  // In a forked child: CUPTI is the parent's.
  static void forget_after_fork();
};

}  // namespace stepscope
