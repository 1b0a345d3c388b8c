// The sampler for Python, and what it has found as columns.

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>
#include <pthread.h>
#include <unistd.h>

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "python/code_names.h"
#include "python/columns.h"
#include "python/module.h"
#include "python/sampler.h"
#include "python/stack_rows.h"
#include "python/text.h"
#include "sampler/line_table.h"

namespace nb = nanobind;

namespace stepscope {
namespace {

// ---- stacks

// A row for each node. `callee` says in Python what a call is of, by its place in the source; what
// it does not know gets no frame.
std::vector<uint32_t> add_rows(const Sampler& sampler, const nb::callable& callee,
                               StackRows& rows) {
  const auto& nodes = sampler.stacks().nodes();
  std::vector<uint32_t> row_of(nodes.size(), 0);
  std::vector<bool> hidden(nodes.size(), false);
  std::map<std::pair<uint32_t, int32_t>, std::string> callees;
  for (uint32_t i = 1; i < nodes.size(); ++i) {
    const StackNodes::Node& node = nodes[i];
    row_of[i] = row_of[node.parent];
    hidden[i] = hidden[node.parent];
    if (node.code == StackNodes::kLeftOut) {
      row_of[i] = rows.add(row_of[i], "<frames that are left out>");
      continue;
    }
    const bool is_native = node.code == StackNodes::kNativeCall;
    const uint32_t number = is_native ? nodes[node.parent].code : node.code;
    const CodeCopy& code = sampler.codes()[number];
    const auto source = source_of(code.line_table, code.first_line, node.instruction);
    if (is_native) {
      if (hidden[i]) continue;
      const auto [known, is_new] = callees.try_emplace({number, node.instruction});
      if (is_new) {
        known->second = nb::cast<std::string>(callee(
            to_str(code.file), source.line, source.end_line, source.column, source.end_column));
      }
      if (!known->second.empty()) row_of[i] = rows.add(row_of[i], known->second);
      continue;
    }
    hidden[i] = is_hidden(code.file, hidden[node.parent]);
    if (is_launcher(code.file)) row_of[i] = 0;
    if (hidden[i]) continue;
    const int line = source.line > 0 ? source.line : code.first_line;
    row_of[i] = rows.add(row_of[i], place_name(code.file, line, code.function));
  }
  return row_of;
}

nb::dict stack_columns(StackRows&& rows) {
  nb::dict columns;
  nb::list texts;
  for (const std::string& text : rows.texts) texts.append(to_str(text));
  columns["parent"] = to_column(std::move(rows.parent));
  columns["frame"] = to_column(std::move(rows.frame));
  columns["texts"] = texts;
  return columns;
}

// ---- the object

// A forked child has the parent's object without its thread: nothing of it can be used there, not
// even its end.
class PythonSampler {
 public:
  PythonSampler(int64_t interval_ns, double budget, size_t limit_bytes, bool keep_newest,
                const std::string& way, const std::vector<int>& call_instructions) {
    SamplerOptions options;
    options.interval_ns = interval_ns;
    options.budget = budget;
    options.limit_bytes = limit_bytes;
    options.keep_newest = keep_newest;
    options.way = way == "readv"  ? MemoryReader::Way::kVmReadv
                  : way == "file" ? MemoryReader::Way::kProcMemory
                                  : MemoryReader::best_way();
    options.is_call.resize(256);
    for (const int each : call_instructions) options.is_call.at(static_cast<size_t>(each)) = true;
    way_ = options.way;
    sampler_ = std::make_unique<Sampler>(std::move(options));
  }

  ~PythonSampler() {
    if (!is_mine()) [[maybe_unused]]
      auto* const left = sampler_.release();
  }

  // Empty when it runs, else why it does not.
  std::string start() {
    if (!MemoryReader::works(way_)) {
      return "the kernel lets no process read its own memory (process_vm_readv, /proc/self/mem)";
    }
    if (!sampler_->reads_truly()) return "this release of Python keeps its frames in another way";
    return sampler_->start() ? "" : "the system gives no further thread";
  }

  void stop() {
    if (is_mine()) sampler_->stop();
  }

  nb::dict collect(const nb::callable& callee) {
    const std::vector<Sample> samples =
        is_mine() ? sampler_->take_samples() : std::vector<Sample>();
    StackRows rows;
    std::vector<uint32_t> row_of;
    if (is_mine()) row_of = add_rows(*sampler_, callee, rows);
    Table<Sample> table(samples);
    table.column<int64_t>("time_ns", [](const Sample& each) { return each.time_ns; });
    table.column<int64_t>("duration_ns", [](const Sample& each) { return each.duration_ns; });
    table.column<uint32_t>("track", [](const Sample& each) { return each.thread; });
    table.column<uint32_t>("stack", [&](const Sample& each) { return row_of[each.stack]; });
    table.column<uint8_t>("state", [](const Sample& each) { return each.state; });
    table.column<uint8_t>("wait", [](const Sample& each) { return each.wait; });
    nb::dict all;
    all["samples"] = table.columns;
    all["stacks"] = stack_columns(std::move(rows));
    nb::list threads;
    for (const SeenThread& each : sampler_->threads()) {
      threads.append(nb::make_tuple(static_cast<int>(each.native_id), to_str(each.name)));
    }
    all["threads"] = threads;
    nb::list resident;
    for (const ResidentMemory& each : sampler_->resident()) {
      resident.append(nb::make_tuple(each.time_ns, each.bytes));
    }
    all["resident"] = resident;
    const Sampler::Counts& counts = sampler_->counts();
    all["looks"] = counts.looks;
    all["torn"] = counts.torn;
    all["passes"] = counts.passes;
    all["cpu_ns"] = counts.cpu_ns;
    all["wall_ns"] = counts.wall_ns;
    all["lost"] = sampler_->lost();
    all["sees_waits"] = sampler_->sees_waits();
    all["one_by_one"] = way_ == MemoryReader::Way::kProcMemory;
    return all;
  }

 private:
  bool is_mine() const { return getpid() == pid_; }

  std::unique_ptr<Sampler> sampler_;
  MemoryReader::Way way_;
  pid_t pid_ = getpid();
};

}  // namespace

void bind_sampler(nb::module_& m) {
  [[maybe_unused]] static const int registered =
      pthread_atfork(nullptr, nullptr, &CodeCopies::forget_after_fork);
  nb::class_<PythonSampler>(m, "Sampler")
      .def(nb::init<int64_t, double, size_t, bool, const std::string&, const std::vector<int>&>(),
           nb::arg("interval_ns"), nb::arg("budget"), nb::arg("limit_bytes"),
           nb::arg("keep_newest"), nb::arg("way"), nb::arg("call_instructions"))
      .def("start", &PythonSampler::start)
      .def("stop", &PythonSampler::stop)
      .def("collect", &PythonSampler::collect, nb::arg("callee"));
}

}  // namespace stepscope
