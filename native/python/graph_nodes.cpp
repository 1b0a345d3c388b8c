// Who put the nodes of CUDA graphs there: when, on which thread, with which Python stack. What a
// replay runs is known by its nodes alone.
#include <nanobind/nanobind.h>
#include <pthread.h>
#include <unistd.h>

#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/clock.h"
#include "cuda/graph_watch.h"
#include "python/columns.h"
#include "python/module.h"
#include "python/own_stacks.h"
#include "python/text.h"

namespace nb = nanobind;

namespace stepscope {
namespace {

// A program that captures more has graphs that nobody will ask for.
constexpr size_t kMostNodes = size_t{1} << 22;

struct GraphNode {
  int64_t time_ns = 0;
  pid_t thread = 0;
  uint32_t stack = 0;
};

class GraphNodes {
 public:
  // Never destroyed: CUPTI's callbacks may come until the process ends. Needs the GIL at first.
  static GraphNodes& instance() {
    static auto* const only = new GraphNodes;
    return *only;
  }

  void created(uint64_t id) {
    const std::lock_guard lock(mutex_);
    if (nodes_.size() >= kMostNodes) return;
    const uint32_t stack = OwnStacks::works() ? stacks_.current() : 0;
    index_of_.insert_or_assign(id, static_cast<uint32_t>(nodes_.size()));
    nodes_.push_back({Clock::now_ns(), gettid(), stack});
  }

  // A copy is what its original is.
  void cloned(uint64_t id, uint64_t original) {
    const std::lock_guard lock(mutex_);
    const auto found = index_of_.find(original);
    if (found == index_of_.end() || index_of_.size() >= 2 * kMostNodes) return;
    const uint32_t index = found->second;
    index_of_.insert_or_assign(id, index);
  }

  // The nodes behind some ids: for each id its row, and a table of those rows. An id that nobody
  // saw being made has no row.
  nb::dict find(const ColumnView<int64_t>& ids) {
    const std::lock_guard lock(mutex_);
    std::vector<uint32_t> found;  // indices
    std::unordered_map<uint32_t, int64_t> row_of_index;
    std::vector<int64_t> rows;
    rows.reserve(ids.shape(0));
    for (const int64_t id : as_span(ids)) {
      const auto index = index_of_.find(static_cast<uint64_t>(id));
      if (index == index_of_.end()) {
        rows.push_back(-1);
        continue;
      }
      const auto [row, is_new] =
          row_of_index.try_emplace(index->second, static_cast<int64_t>(found.size()));
      if (is_new) found.push_back(index->second);
      rows.push_back(row->second);
    }
    return table_of(found, std::move(rows));
  }

  // In a forked child: the graphs are the parent's.
  void forget_after_fork() {
    new (&mutex_) std::mutex;
    nodes_.clear();
    index_of_.clear();
  }

 private:
  nb::dict table_of(const std::vector<uint32_t>& found, std::vector<int64_t> rows) const {
    StackRows stack_rows;
    const std::vector<uint32_t> row_of = stacks_.add_rows(stack_rows);
    Table<uint32_t> table(found);
    table.column<int64_t>("number", [](uint32_t i) { return i + 1; });
    table.column<int64_t>("time_ns", [&](uint32_t i) { return nodes_[i].time_ns; });
    table.column<int64_t>("thread", [&](uint32_t i) { return nodes_[i].thread; });
    table.column<uint32_t>("stack", [&](uint32_t i) { return row_of[nodes_[i].stack]; });
    nb::list texts;
    for (const std::string& text : stack_rows.texts) texts.append(to_str(text));
    nb::dict out = table.columns;
    out["row"] = to_column(std::move(rows));
    out["parent"] = to_column(std::move(stack_rows.parent));
    out["frame"] = to_column(std::move(stack_rows.frame));
    out["texts"] = texts;
    return out;
  }

  std::mutex mutex_;
  OwnStacks stacks_;
  std::vector<GraphNode> nodes_;
  std::unordered_map<uint64_t, uint32_t> index_of_;  // of nodes_, by the id of a node or a copy
};

constexpr GraphNodeListener kListener = {
    .created = [](uint64_t id) { GraphNodes::instance().created(id); },
    .cloned = [](uint64_t id, uint64_t original) { GraphNodes::instance().cloned(id, original); },
};

void watch() {
  [[maybe_unused]] static const int registered =
      pthread_atfork(nullptr, nullptr, [] { GraphNodes::instance().forget_after_fork(); });
  GraphNodes::instance();
  GraphWatch::start(&kListener);
}

}  // namespace

void bind_graph_nodes(nb::module_& m) {
  m.def("watch_graphs", &watch);
  m.def("leave_graphs", &GraphWatch::stop);
  m.def(
      "graph_nodes",
      [](const ColumnView<int64_t>& ids) { return GraphNodes::instance().find(ids); },
      nb::arg("ids"));
  // For tests without a device.
  m.def("note_graph_node", [](uint64_t id) { GraphNodes::instance().created(id); }, nb::arg("id"));
  m.def(
      "note_graph_clone",
      [](uint64_t id, uint64_t original) { GraphNodes::instance().cloned(id, original); },
      nb::arg("id"), nb::arg("original"));
}

}  // namespace stepscope
