#include "cuda/graph_watch.h"

#include <mutex>
#include <new>
#include <stdexcept>

#include "cuda/cupti_library.h"
#include "cuda/device_collector.h"

namespace stepscope {
namespace {

struct Watching {
  std::mutex mutex;  // of starting and stopping
  int watchers = 0;
  const cupti::Library* library = nullptr;
  cupti::Subscriber subscriber = nullptr;
  const GraphNodeListener* listener = nullptr;
};

// Never destroyed: threads may outlive the exit of the program.
Watching& watching() {
  static Watching* const instance = new Watching;
  return *instance;
}

// The last graph whose nodes were copies: CUPTI reports a copy twice, first as any other node.
thread_local const void* copied_graph = nullptr;

void on_graph_node(void*, uint32_t domain, uint32_t what, const void* data) {
  if (domain != cupti::kResourceDomain) return;
  const Watching& w = watching();
  const auto* const graph = static_cast<const cupti::GraphData*>(
      static_cast<const cupti::ResourceData*>(data)->descriptor);
  if (!graph) return;
  if (what == cupti::kGraphNodeCreated) {
    w.listener->created(graph->node, graph->graph == copied_graph);
    return;
  }
  copied_graph = graph->graph;
  uint64_t id = 0;
  if (w.library->get_graph_node_id(graph->node, &id) == cupti::kSuccess) {
    w.listener->cloned(graph->node, id, graph->original_node);
  }
}

void unsubscribe(Watching& w) {
  w.library->unsubscribe(w.subscriber);
  w.subscriber = nullptr;
}

}  // namespace

void GraphWatch::start(const GraphNodeListener* listener) {
  Watching& w = watching();
  const std::lock_guard lock(w.mutex);
  if (w.watchers > 0) {
    ++w.watchers;
    return;
  }
  w.library = DeviceCollector::library();
  if (!w.library) throw std::runtime_error("CUPTI is not loaded");
  const cupti::Library& library = *w.library;
  if (!library.subscribe || !library.unsubscribe || !library.enable_callback ||
      !library.get_graph_node_id) {
    throw std::runtime_error("this CUPTI does not tell of graphs");
  }
  w.listener = listener;
  listener->began();
  library.check(library.subscribe(&w.subscriber, &on_graph_node, nullptr), "cuptiSubscribe");
  try {
    for (const uint32_t what : {cupti::kGraphNodeCreated, cupti::kGraphNodeCloned}) {
      library.check(library.enable_callback(1, w.subscriber, cupti::kResourceDomain, what),
                    "cuptiEnableCallback");
    }
  } catch (...) {
    unsubscribe(w);  // others may have better luck
    throw;
  }
  w.watchers = 1;
}

void GraphWatch::stop() {
  Watching& w = watching();
  const std::lock_guard lock(w.mutex);
  if (w.watchers == 0) return;
  w.listener->noted();
  if (--w.watchers > 0) return;
  unsubscribe(w);
}

// Does not wait for a start or a stop.
void GraphWatch::deliver() {
  Watching& w = watching();
  const std::unique_lock lock(w.mutex, std::try_to_lock);
  if (lock && w.watchers > 0) w.listener->noted();
}

void GraphWatch::forget_after_fork() {
  Watching& w = watching();
  new (&w.mutex) std::mutex;  // a thread that no longer exists may hold it
  w.watchers = 0;
}

}  // namespace stepscope
