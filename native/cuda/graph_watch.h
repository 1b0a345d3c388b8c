// Nodes of CUDA graphs as they come: those that a capture adds, and their copies in what is
// launched later.
#pragma once

#include <cstdint>
#include <string>

namespace stepscope {

// Called on the thread that makes the node, which may hold locks of the driver. A node is
// identified by its address while it lives. Only copies are ever run, and their work is recorded
// with their ids; asking for an id takes half a microsecond.
struct GraphNodeListener {
  void (*began)();  // earlier nodes were not reported
  // ``copying``: nodes of this graph were copies so far; what this one is, if it is one, comes
  // next.
  void (*created)(const void* node, bool copying);
  void (*cloned)(const void* node, uint64_t id, const void* original);
  void (*noted)();  // write what was reported to the stream; on any thread
};

class GraphWatch {
 public:
  // Reports nodes until stop() was called as often. Throws std::runtime_error if CUPTI refuses:
  // another tool may be its only subscriber.
  static void start(const GraphNodeListener* listener);
  static void stop();
  // Has the listener write what it has to the stream; called now and then.
  static void deliver();
  // In a forked child: CUPTI is the parent's.
  static void forget_after_fork();
};

}  // namespace stepscope
