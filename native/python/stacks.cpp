// Python stacks as small numbers: what an operator records instead of its frames.
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>
#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>

#include "core/recorder.h"
#include "core/stream.h"
#include "python/code_names.h"
#include "python/columns.h"
#include "python/frames.h"  // needs Python.h with its own macros
#include "python/module.h"
#include "python/stack_rows.h"

namespace nb = nanobind;

namespace stepscope {
namespace {

// ---- all stacks of the process, as a tree
//
// A node is a frame at a site, called from its parent. It keeps the code object alive, so that a
// known site needs no look at the frame. Nodes are added and removed with both the GIL and the
// mutex held; either is enough to read them. No thread waits for the GIL while it holds the mutex.
class StackTree {
 public:
  struct Node {
    uint32_t parent = 0;
    PyObject* keeper = nullptr;
    PyCodeObject* code = nullptr;  // null: a frame that is the interpreter's own
    int instruction = 0;
  };

  static StackTree& instance() {
    static auto* const only = new StackTree;  // threads may outlive static destructors
    return *only;
  }

  // Changes when the numbers that were given out lose their meaning.
  static uint32_t generation() { return generation_.load(std::memory_order_relaxed); }

  // The number of a stack whose frames are all known, else 0. The first site is the innermost.
  uint32_t find(std::span<const Site> sites) {
    const std::lock_guard lock(mutex_);
    uint32_t node = 0;
    for (size_t i = sites.size(); i-- > 0;) {
      const auto entry = children_.find({node, sites[i]});
      if (entry == children_.end()) return 0;
      node = entry->second;
    }
    return first_ + node;
  }

  // Its number, entered if it is new. Needs the GIL.
  uint32_t add(const std::vector<Frame>& frames) {
    const std::lock_guard lock(mutex_);
    uint32_t node = 0;
    for (size_t i = frames.size(); i-- > 0;) node = child(node, frames[i]);
    return first_ + node;
  }

  // Drops all nodes and their references to code. Numbers are not reused: one that a thread found
  // just before names no stack afterwards. Needs the GIL.
  void clear() {
    std::vector<Node> gone(1);
    {
      const std::lock_guard lock(mutex_);
      generation_.fetch_add(1, std::memory_order_relaxed);
      first_ += static_cast<uint32_t>(nodes_.size());
      children_ = {};
      std::swap(gone, nodes_);
    }
    for (const Node& node : gone) Py_XDECREF(node.keeper);
  }

  // A copy of all nodes (the parent before its children; node 0 is nothing), and what to take off a
  // number to find its node. Needs the GIL.
  std::pair<std::vector<Node>, uint32_t> nodes() const { return {nodes_, first_}; }

 private:
  struct Key {
    uint32_t parent;
    Site site;
    bool operator==(const Key&) const = default;
  };
  struct KeyHash {
    size_t operator()(const Key& key) const {
      return (key.site ^ (uint64_t{key.parent} << 40)) * 0x9E3779B97F4A7C15ULL >> 8;
    }
  };

  StackTree() {
    pthread_atfork([] { instance().mutex_.lock(); }, [] { instance().mutex_.unlock(); },
                   [] { instance().mutex_.unlock(); });
  }

  uint32_t child(uint32_t parent, const Frame& frame) {
    const Key key{parent, frame.site};
    if (const auto entry = children_.find(key); entry != children_.end()) return entry->second;
    // The node comes first: where memory ends in between, no number names one that is not there.
    const auto number = static_cast<uint32_t>(nodes_.size());
    nodes_.push_back({parent, frame.keeper, frame.code, frame.instruction});
    Py_INCREF(frame.keeper);
    children_.emplace(key, number);
    if (Stream::is_on()) note_in_stream(number);
    return number;
  }

  // Names the frame for a reader after our death.
  void note_in_stream(uint32_t number) const {
    const Node& node = nodes_[number];
    const std::string file = node.code ? file_of(node.code) : "";
    const std::string name = node.code ? place_name(node.code, node.instruction) : "";
    const uint32_t parent = node.parent ? first_ + node.parent : 0;
    const StackEntry entry{first_ + number, parent, static_cast<uint32_t>(file.size()), 0};
    Stream::instance().note(Entry::kStack, entry, file, name);
  }

  static inline constinit std::atomic<uint32_t> generation_{1};

  std::mutex mutex_;
  uint32_t first_ = 0;
  std::vector<Node> nodes_ = std::vector<Node>(1);
  std::unordered_map<Key, uint32_t, KeyHash> children_;
};

// ---- what a thread knows of them
//
// Whole stacks by the print of their sites. Each thread has its own cache, so that a known stack
// takes no lock.
class StackCache {
 public:
  // Null when the thread is already shutting down.
  static StackCache* mine();

  // Null: it has none.
  PyThreadState* thread() const {
    return lasting_thread_ ? lasting_thread_ : PyGILState_GetThisThreadState();
  }
  // Asking Python for the thread costs more than the walk. Null: ask again.
  void set_lasting_thread(PyThreadState* thread) { lasting_thread_ = thread; }

  uint32_t number_of(PyThreadState* thread) {
    const uint32_t generation = StackTree::generation();
    if (generation != generation_) [[unlikely]]
      reset(generation);
    walk(thread, sites_);
    const std::span<const Site> sites = sites_.span();
    if (sites.empty()) return 0;
    for (size_t at = first_place(sites_.print());; ++at) {
      const Slot& slot = slots_[at & mask_];
      if (!slot.number) break;
      if (slot.print == sites_.print() && slot.depth == sites.size()) return slot.number;
    }
    return learn(thread);
  }

 private:
  struct alignas(32) Slot {
    StackPrint print;
    size_t depth = 0;
    uint32_t number = 0;  // 0: a free slot
  };
  static constexpr size_t kFirstSlots = 256;
  static constexpr size_t kMostSlots = size_t{1} << 16;

  // As in grow(), memory is taken first: if there is none, nothing changes.
  void reset(uint32_t generation) {
    slots_ = std::vector<Slot>(kFirstSlots);
    mask_ = kFirstSlots - 1;
    used_ = 0;
    generation_ = generation;
  }

  [[gnu::noinline]] uint32_t learn(PyThreadState* thread);

  // Sites are even and near each other: the upper half has what tells them apart.
  static size_t first_place(const StackPrint& print) { return print.first ^ print.first >> 32; }

  void remember(const Slot& slot) {
    if (used_ >= kMostSlots / 2) reset(generation_);
    if (2 * used_ >= slots_.size()) grow();
    place(slot);
    ++used_;
  }

  void place(const Slot& slot) {
    size_t at = first_place(slot.print);
    while (slots_[at & mask_].number) ++at;
    slots_[at & mask_] = slot;
  }

  void grow() {
    const std::vector<Slot> old = std::exchange(slots_, std::vector<Slot>(2 * slots_.size()));
    mask_ = slots_.size() - 1;
    for (const Slot& slot : old) {
      if (slot.number) place(slot);
    }
  }

  PyThreadState* lasting_thread_ = nullptr;
  Sites sites_;
  uint32_t generation_ = 0;
  size_t used_ = 0;
  size_t mask_ = 0;
  std::vector<Slot> slots_;
};

bool is_finalizing() {
#if PY_VERSION_HEX >= 0x030D0000
  return Py_IsFinalizing();
#else
  return _Py_IsFinalizing();
#endif
}

uint32_t StackCache::learn(PyThreadState* thread) {
  StackTree& tree = StackTree::instance();
  uint32_t number = tree.find(sites_.span());
  if (!number) {
    const PyGILState_STATE state = PyGILState_Ensure();
    number = tree.add(frames_of(thread));
    PyGILState_Release(state);
  }
  remember({sites_.print(), sites_.span().size(), number});
  return number;
}

// One pointer in static TLS; what it points to goes with the thread.
thread_local StackCache* my_cache __attribute__((tls_model("initial-exec"))) = nullptr;
thread_local bool thread_exited = false;

struct CacheOwner {
  std::unique_ptr<StackCache> cache = std::make_unique<StackCache>();
  ~CacheOwner() {
    my_cache = nullptr;
    thread_exited = true;
  }
};

StackCache* StackCache::mine() {
  if (my_cache) [[likely]]
    return my_cache;
  if (thread_exited) return nullptr;
  thread_local CacheOwner owner;
  my_cache = owner.cache.get();
  return my_cache;
}

// The number of the calling thread's Python stack; 0 if it has none. The thread may hold the GIL or
// not. A stack with a new frame waits for the GIL: the caller must hold nothing that a thread with
// the GIL may wait for.
uint32_t current_stack() {
  if (is_finalizing()) return 0;  // thread states are going
  StackCache* const cache = StackCache::mine();
  if (!cache) return 0;
  PyThreadState* const thread = cache->thread();
  return thread ? cache->number_of(thread) : 0;
}

// ---- on and off

int stack_users = 0;  // guarded by the GIL

void forget_thread() {
  if (my_cache) my_cache->set_lasting_thread(nullptr);
}

bool is_fork = false;  // its main thread is whichever forked

void forget_users_after_fork() {
  stack_users = 0;
  is_fork = true;
  forget_thread();
  Recorder::set_stack_source(nullptr);
}

// The calling thread's state, where that is there until Python ends; else null.
PyThreadState* lasting_thread() {
  static const bool end_is_heard = Py_AtExit(&forget_thread) == 0;
  PyThreadState* const thread = PyGILState_GetThisThreadState();
  const bool lasts = end_is_heard && !is_fork && is_main_thread() && thread &&
                     PyThreadState_GetInterpreter(thread) == PyInterpreterState_Main();
  return lasts ? thread : nullptr;
}

void start_stacks() {
  [[maybe_unused]] static const int registered =
      pthread_atfork(nullptr, nullptr, &forget_users_after_fork);
  if (StackCache* const cache = StackCache::mine()) cache->set_lasting_thread(lasting_thread());
  if (stack_users++ == 0) Recorder::set_stack_source(&current_stack);
}

void stop_stacks() {
  if (stack_users > 0 && --stack_users == 0) Recorder::set_stack_source(nullptr);
}

void clear_stacks() {
  if (stack_users == 0 && !Recorder::recording()) StackTree::instance().clear();
}

// ---- the table

// Adds rows for the nodes that are used; returns the row of each node.
std::vector<uint32_t> add_rows(const std::vector<StackTree::Node>& nodes,
                               const std::vector<bool>& used, StackRows& rows) {
  std::vector<uint32_t> row_of(nodes.size(), 0);
  std::vector<bool> hidden(nodes.size(), false);
  for (uint32_t i = 1; i < nodes.size(); ++i) {
    if (!used[i]) continue;
    const StackTree::Node& node = nodes[i];
    row_of[i] = row_of[node.parent];
    hidden[i] = hidden[node.parent];
    if (!node.code) continue;
    const std::string file = file_of(node.code);
    hidden[i] = is_hidden(file, hidden[node.parent]);
    if (begins_child(file, function_of(node.code))) row_of[i] = 0;
    if (!hidden[i]) row_of[i] = rows.add(row_of[i], place_name(node.code, node.instruction));
  }
  return row_of;
}

nb::tuple stack_table(const ColumnView<uint32_t>& numbers) {
  const auto [nodes, first] = StackTree::instance().nodes();
  std::vector<uint32_t> node_of;
  node_of.reserve(numbers.shape(0));
  std::vector<bool> used(nodes.size(), false);
  for (const uint32_t number : as_span(numbers)) {
    const uint32_t node = number - first < nodes.size() ? number - first : 0;
    node_of.push_back(number ? node : 0);
    for (uint32_t i = node_of.back(); i && !used[i]; i = nodes[i].parent) used[i] = true;
  }
  StackRows rows;
  const std::vector<uint32_t> row_of = add_rows(nodes, used, rows);
  for (uint32_t& node : node_of) node = row_of[node];
  return stack_tuple(std::move(node_of), std::move(rows));
}

}  // namespace

void bind_stacks(nb::module_& m) {
  use_public_frames(false);
  m.def("set_paths", &set_paths, nb::arg("prefixes"), nb::arg("own_folder"),
        nb::arg("library_folder"));
  m.def("start_stacks", &start_stacks);
  m.def("stop_stacks", &stop_stacks);
  m.def("clear_stacks", &clear_stacks);
  m.def("stack_table", &stack_table, nb::arg("numbers"));
  m.def(
      "use_public_frames",
      [](bool only_public) {
        use_public_frames(only_public);
        StackTree::instance().clear();
        return !uses_public_frames();
      },
      nb::arg("only_public"));
}

}  // namespace stepscope
