// When each node of a CUDA graph was added, on which thread, and with which Python stack. A replay
// only tells which nodes run.
#include <nanobind/nanobind.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <mutex>
#include <numeric>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/clock.h"
#include "core/interner.h"
#include "core/stream.h"
#include "cuda/graph_watch.h"
#include "python/columns.h"
#include "python/module.h"
#include "python/own_stacks.h"
#include "python/recovered_tables.h"
#include "python/stack_rows.h"
#include "python/text.h"

namespace nb = nanobind;

namespace stepscope {
namespace {

// No more nodes are kept: a program with so many replays only a few of its graphs.
constexpr size_t kMostNodes = size_t{1} << 22;

// The operator that runs on the calling thread, null for none; the bridge's, once it is loaded.
const char* (*current_operator)() = nullptr;

struct GraphNode {
  uint64_t ticks = 0;  // of the clock, which costs less to read than the time
  pid_t thread = 0;
  uint32_t stack = 0;
  uint32_t operator_name = 0;
};

struct NumberedNode : GraphNode {
  uint32_t number = 0;
};

using IndexOfId = std::unordered_map<uint64_t, uint32_t>;

// A copy of what is known of some nodes.
struct FoundNodes {
  std::vector<NumberedNode> nodes;
  std::vector<int64_t> rows;  // of `nodes`, by the ids that were asked for
  StackRows stacks;
  std::vector<uint32_t> row_of_stack;
  std::vector<std::string_view> operators;  // texts that stay
};

// The nodes with these ids. An id whose node was not seen being made has no row.
FoundNodes nodes_behind(std::span<const int64_t> ids, const std::vector<GraphNode>& nodes,
                        const IndexOfId& index_of_id) {
  FoundNodes out;
  std::unordered_map<uint32_t, int64_t> row_of_index;
  out.rows.reserve(ids.size());
  for (const int64_t id : ids) {
    const auto index = index_of_id.find(static_cast<uint64_t>(id));
    if (index == index_of_id.end()) {
      out.rows.push_back(-1);
      continue;
    }
    const auto [row, is_new] =
        row_of_index.try_emplace(index->second, static_cast<int64_t>(out.nodes.size()));
    if (is_new) out.nodes.push_back({nodes[index->second], index->second + 1});
    out.rows.push_back(row->second);
  }
  return out;
}

nb::dict table_of(FoundNodes found_nodes, const TickMap& clock) {
  using N = NumberedNode;
  Table<N> table(found_nodes.nodes);
  table.column<int64_t>("number", [](const N& node) { return node.number; });
  table.column<int64_t>("time_ns", [&](const N& node) { return clock.ns(node.ticks); });
  table.column<int64_t>("thread", [](const N& node) { return node.thread; });
  table.column<uint32_t>("stack",
                         [&](const N& node) { return found_nodes.row_of_stack[node.stack]; });
  table.column<uint32_t>("operator", [](const N& node) { return node.operator_name; });
  nb::dict out = table.columns;
  out["row"] = to_column(std::move(found_nodes.rows));
  add_stacks(out, std::move(found_nodes.stacks));
  out["operators"] = to_list(found_nodes.operators);
  return out;
}

// A capture waits for us, so nodes are only written down. They are sorted when they are asked for.
struct Noted {
  const void* node = nullptr;      // null: nodes may have come and gone unseen
  const void* original = nullptr;  // of a copy
  uint64_t id = 0;                 // of a copy
  GraphNode facts;                 // of one that is none
};

// One syscall a thread.
thread_local pid_t my_thread = 0;

class GraphNodes {
 public:
  // Never destroyed: CUPTI's callbacks may come until the process ends. Needs the GIL at first.
  static GraphNodes& instance() {
    static auto* const only = new GraphNodes;
    return *only;
  }

  // Nodes may have come and gone unseen: an address may now be another node's.
  void began() {
    const std::lock_guard lock(mutex_);
    if (!is_full()) noted_.push_back({});
  }

  void created(const void* node, bool copying) {
    if (!my_thread) my_thread = gettid();
    const std::lock_guard lock(mutex_);
    if (is_full()) return;
    // Copies are made in one call of the program's: as long as that lasts, nothing is looked up.
    if (!copying || !stacks_.stays()) last_ = facts();
    noted_.push_back({node, nullptr, 0, last_});
  }

  // A copy is what its original is.
  void cloned(const void* node, uint64_t id, const void* original) {
    const std::lock_guard lock(mutex_);
    if (!is_full()) noted_.push_back({node, original, id, {}});
  }

  // A table of the nodes with these ids, and the row of each id. Python objects are made without
  // the lock: that may release the GIL, or run a destructor of the program that captures.
  nb::dict find(const ColumnView<int64_t>& ids) {
    return table_of(nodes_of(as_span(ids)), TickMap().closed());
  }

  // Writes what is new to the stream.
  void write() {
    if (!Stream::is_on()) return;
    const std::lock_guard lock(mutex_);
    sort();
    Stream& stream = Stream::instance();
    stacks_.write();
    const std::vector<std::string_view> names = operators_.texts();
    for (; written_operators_ < names.size(); ++written_operators_) {
      const std::array<uint32_t, 2> number{static_cast<uint32_t>(written_operators_), 0};
      stream.note(Entry::kGraphOperator, number, names[written_operators_]);
    }
    std::vector<GraphNodeEntry> nodes;
    for (; written_nodes_ < nodes_.size(); ++written_nodes_) {
      const GraphNode& node = nodes_[written_nodes_];
      nodes.push_back({node.ticks, node.thread, static_cast<uint32_t>(written_nodes_),
                       stacks_.owner(), node.stack, node.operator_name});
    }
    if (!nodes.empty()) stream.append(Entry::kGraphNodes, bytes_of(nodes), {}, {});
    if (!new_copies_.empty()) stream.append(Entry::kGraphCopies, bytes_of(new_copies_), {}, {});
    new_copies_.clear();
  }

 private:
  GraphNodes() {
    pthread_atfork([] { instance().mutex_.lock(); }, [] { instance().mutex_.unlock(); },
                   [] { instance().forget_after_fork(); });
  }

  // The graphs are the parent's.
  void forget_after_fork() {
    my_thread = 0;
    noted_.clear();
    nodes_.clear();
    index_of_id_.clear();
    index_of_node_.clear();
    new_copies_.clear();
    written_nodes_ = 0;
    written_operators_ = 1;
    stacks_.forget_after_fork();
    mutex_.unlock();
  }

  GraphNode facts() {
    const char* const running = current_operator ? current_operator() : nullptr;
    const uint32_t stack = OwnStacks::works() ? stacks_.current() : 0;
    const uint32_t name = running ? operators_.intern(running).first : 0;
    return {Clock::ticks(), my_thread, stack, name};
  }

  bool is_full() const { return noted_.size() + index_of_id_.size() >= 2 * kMostNodes; }

  void sort() {
    for (const Noted& noted : noted_) {
      if (!noted.node) {
        index_of_node_.clear();
      } else if (!noted.original) {
        index_of_node_.insert_or_assign(noted.node, static_cast<uint32_t>(nodes_.size()));
        nodes_.push_back(noted.facts);
      } else if (const auto original = index_of_node_.find(noted.original);
                 original != index_of_node_.end()) {
        const uint32_t index = original->second;
        index_of_node_.insert_or_assign(noted.node, index);
        index_of_id_.insert_or_assign(noted.id, index);
        if (Stream::is_on()) new_copies_.push_back({noted.id, index, 0});
      }
    }
    noted_.clear();
  }

  FoundNodes nodes_of(std::span<const int64_t> ids) {
    const std::lock_guard lock(mutex_);
    sort();
    FoundNodes out = nodes_behind(ids, nodes_, index_of_id_);
    out.row_of_stack = stacks_.rows(out.stacks);
    out.operators = operators_.texts();
    return out;
  }

  std::mutex mutex_;
  OwnStacks stacks_;
  Interner operators_;
  GraphNode last_;
  std::vector<Noted> noted_;
  std::vector<GraphNode> nodes_;
  IndexOfId index_of_id_;  // of nodes_, by the id of a copy
  std::unordered_map<const void*, uint32_t> index_of_node_;
  // What the stream has of it.
  size_t written_nodes_ = 0;
  size_t written_operators_ = 1;  // 0 is none
  std::vector<GraphCopyEntry> new_copies_;
};

constexpr GraphNodeListener kListener = {
    .began = [] { GraphNodes::instance().began(); },
    .created = [](const void* node,
                  bool copying) { GraphNodes::instance().created(node, copying); },
    .cloned = [](const void* node, uint64_t id,
                 const void* original) { GraphNodes::instance().cloned(node, id, original); },
    .noted = [] { GraphNodes::instance().write(); },
};

const void* as_node(uintptr_t address) { return reinterpret_cast<const void*>(address); }

void watch() {
  GraphNodes::instance();
  GraphWatch::start(&kListener);
}

}  // namespace

nb::dict graph_node_tables(const Recovered& recovered, const ColumnView<int64_t>& ids) {
  RecoveredRows stacks(recovered);
  std::vector<GraphNode> nodes;
  const size_t operators = std::max<size_t>(recovered.graph_operators.size(), 1);
  for (const GraphNodeEntry& node : recovered.graph_nodes) {
    nodes.push_back({node.ticks, static_cast<pid_t>(node.thread), stacks.of(node.owner, node.stack),
                     node.operator_name < operators ? node.operator_name : 0});
  }
  IndexOfId index_of_id;
  for (const GraphCopyEntry& copy : recovered.graph_copies) {
    if (copy.number < nodes.size()) index_of_id.insert_or_assign(copy.id, copy.number);
  }
  FoundNodes out = nodes_behind(as_span(ids), nodes, index_of_id);
  out.operators.assign(recovered.graph_operators.begin(), recovered.graph_operators.end());
  out.operators.resize(operators);
  out.stacks = std::move(stacks.rows);
  out.row_of_stack.resize(out.stacks.parent.size());
  std::iota(out.row_of_stack.begin(), out.row_of_stack.end(), 0U);
  return table_of(std::move(out), recovered.tick_map);
}

void bind_graph_nodes(nb::module_& m) {
  m.def("watch_graphs", &watch);
  m.def("leave_graphs", &GraphWatch::stop);
  m.def(
      "graph_nodes",
      [](const ColumnView<int64_t>& ids) { return GraphNodes::instance().find(ids); },
      nb::arg("ids"));
  // The address of a function of the bridge's that stays for good.
  m.def(
      "set_current_operator",
      [](uintptr_t function) { current_operator = reinterpret_cast<const char* (*)()>(function); },
      nb::arg("function"));
  // For tests without a device, where a node's id is its address, too.
  m.def(
      "note_graph_node",
      [](uintptr_t node, bool copying) { kListener.created(as_node(node), copying); },
      nb::arg("node"), nb::arg("copying") = false);
  m.def(
      "note_graph_clone",
      [](uintptr_t node, uintptr_t original) {
        kListener.cloned(as_node(node), node, as_node(original));
      },
      nb::arg("node"), nb::arg("original"));
  m.def("note_graph_watch", [] { kListener.began(); });
}

}  // namespace stepscope
