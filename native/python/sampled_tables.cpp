// The sampler for Python, and what it has found as columns.
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "python/code_names.h"
#include "python/columns.h"
#include "python/module.h"
#include "python/recovered_tables.h"
#include "python/sampler.h"
#include "python/stack_journal.h"
#include "python/stack_rows.h"
#include "python/text.h"
#include "sampler/line_table.h"

namespace nb = nanobind;

namespace stepscope {
namespace {

// ---- stacks

using CodeOf = std::function<const SampledCode&(uint32_t)>;

// A row for each stack that was sampled, with the names that a reader sees.
class NamedStacks {
 public:
  // `native_text` says in Python what native code an instruction runs; what it does not know gets
  // no frame.
  NamedStacks(const std::vector<StackNodes::Node>& nodes, const CodeOf& code_of,
              const nb::callable& native_text)
      : nodes_(nodes), code_of_(code_of), native_text_(native_text) {
    row_of.resize(nodes_.size(), 0);
    std::vector<bool> hidden(nodes_.size(), false);
    for (uint32_t i = 1; i < nodes_.size(); ++i) {
      const StackNodes::Node& node = nodes_[i];
      const uint32_t callers = row_of[node.parent];
      if (node.code == StackNodes::kLeftOut) {
        row_of[i] = rows.add(callers, kLeftOutText);
      } else if (node.code == StackNodes::kNativeCall) {
        row_of[i] = hidden[node.parent] ? callers : with_native(callers, node);
      } else {
        const SampledCode& code = code_of_(node.code);
        hidden[i] = is_hidden(code.file, hidden[node.parent]);
        const uint32_t shown_callers = begins_child(code.file, code.function) ? 0 : callers;
        row_of[i] = hidden[i] ? shown_callers : rows.add(shown_callers, name_of(node, code));
      }
    }
  }

  std::vector<uint32_t> row_of;
  StackRows rows;

 private:
  uint32_t with_native(uint32_t callers, const StackNodes::Node& node) {
    const uint32_t number = nodes_[node.parent].code;
    const auto [entry, is_new] = native_.try_emplace({number, node.instruction});
    if (is_new) {
      const SampledCode& code = code_of_(number);
      const SourceRange at = source_of(code.line_table, code.first_line, node.instruction);
      const int operation = code.operation_at(node.instruction);
      entry->second = nb::cast<std::string>(
          native_text_(operation, to_str(code.file),
                       nb::make_tuple(at.line, at.end_line, at.column, at.end_column)));
    }
    return entry->second.empty() ? callers : rows.add(callers, entry->second);
  }

  const std::vector<StackNodes::Node>& nodes_;
  const CodeOf code_of_;
  const nb::callable& native_text_;
  std::map<std::pair<uint32_t, int32_t>, std::string> native_;  // by code and instruction
};

// The samples and their stacks.
void add_samples(nb::dict& all, const std::vector<Sample>& samples, NamedStacks&& stacks) {
  Table<Sample> table(samples);
  table.column<int64_t>("time_ns", [](const Sample& sample) { return sample.time_ns; });
  table.column<int64_t>("duration_ns", [](const Sample& sample) { return sample.duration_ns; });
  table.column<uint32_t>("track", [](const Sample& sample) { return sample.thread; });
  table.column<uint32_t>("stack",
                         [&](const Sample& sample) { return stacks.row_of[sample.stack]; });
  table.column<uint8_t>("state", [](const Sample& sample) { return sample.state; });
  table.column<uint8_t>("wait", [](const Sample& sample) { return sample.wait; });
  all["samples"] = table.columns;
  nb::dict columns;
  add_stacks(columns, std::move(stacks.rows));
  all["stacks"] = columns;
}

// Of moments and bytes.
template <typename Sizes>
nb::tuple resident_columns(const Sizes& sizes) {
  std::vector<int64_t> time_ns;
  std::vector<int64_t> bytes;
  for (const auto& [moment, size] : sizes) {
    time_ns.push_back(moment);
    bytes.push_back(size);
  }
  return nb::make_tuple(to_column(std::move(time_ns)), to_column(std::move(bytes)));
}

// ---- the object

// A forked child has the parent's object without its thread: nothing of it can be used there, not
// even its end.
class PythonSampler {
 public:
  PythonSampler(int64_t interval_ns, double budget, size_t limit_bytes, bool keep_newest,
                const std::string& way, const std::vector<uint8_t>& operations, int64_t age_ns) {
    SamplerOptions options;
    options.interval_ns = interval_ns;
    options.budget = budget;
    options.limit_bytes = limit_bytes;
    options.keep_newest = keep_newest;
    options.age_ns = age_ns;
    options.way = way == "readv"  ? MemoryReader::Way::kVmReadv
                  : way == "file" ? MemoryReader::Way::kProcMemory
                                  : MemoryReader::best_way();
    for (size_t i = 0; i < std::min(operations.size(), options.operations.size()); ++i) {
      options.operations[i] = static_cast<Operation>(operations[i]);
    }
    way_ = options.way;
    sampler_ = std::make_unique<Sampler>(std::move(options));
  }

  ~PythonSampler() {
    if (!is_mine()) [[maybe_unused]]
      auto* const in_parent = sampler_.release();
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

  void rest() { sampler_->rest(); }
  void go_on() { sampler_->start(); }

  // How often it has looked at all threads, and at one, so far.
  nb::tuple progress() const {
    const Sampler::Counts& counts = sampler_->counts();
    return nb::make_tuple(counts.passes.load(), counts.looks.load());
  }

  // Once; nothing in a forked child.
  nb::dict collect(const nb::callable& native_text) {
    nb::dict all;
    if (!is_mine()) return all;
    const std::vector<Sample> samples = sampler_->take_samples();
    const CodeOf code_of = [&](uint32_t number) -> const SampledCode& {
      return sampler_->codes()[number];
    };
    add_samples(all, samples, NamedStacks(sampler_->stacks().nodes(), code_of, native_text));
    all["threads"] = threads();
    all["resident"] = resident_columns(sampler_->resident());
    all["counts"] = counts();
    return all;
  }

 private:
  nb::list threads() const {
    nb::list all;
    for (const SeenThread& thread : sampler_->threads()) {
      all.append(nb::make_tuple(static_cast<int>(thread.native_id), to_str(thread.name)));
    }
    return all;
  }

  nb::dict counts() const {
    nb::dict all;
    sampler_->each_count([&](const char* name, int64_t value) { all[name] = value; });
    return all;
  }

  bool is_mine() const { return getpid() == pid_; }

  std::unique_ptr<Sampler> sampler_;
  MemoryReader::Way way_;
  pid_t pid_ = getpid();
};

}  // namespace

CopiedStacks copied_stacks(const Recovered& recovered, uint32_t owner) {
  const auto entry = recovered.copied_stacks.find(owner);
  CopiedStacks stacks = entry == recovered.copied_stacks.end() ? CopiedStacks{} : entry->second;
  const size_t codes = stacks.codes.size();
  std::vector<StackNodes::Node>& nodes = stacks.nodes;
  if (nodes.empty()) nodes.emplace_back();
  for (uint32_t i = 0; i < nodes.size(); ++i) {
    StackNodes::Node& node = nodes[i];
    const bool is_known = node.code >= StackNodes::kLeftOut || node.code < codes;
    const bool has_caller = node.code != StackNodes::kNativeCall ||
                            (node.parent < i && nodes[node.parent].code < codes);
    if (i && node.parent >= i) node.parent = 0;
    if (!is_known || !has_caller) node.code = StackNodes::kLeftOut;
  }
  return stacks;
}

nb::dict sampled_tables(const Recovered& recovered, const nb::callable& native_text) {
  const CopiedStacks stacks = copied_stacks(recovered, StackJournal::kSampler);
  const std::vector<StackNodes::Node>& nodes = stacks.nodes;
  std::vector<Sample> samples;
  for (const Sample& sample : recovered.samples) {
    if (sample.stack < nodes.size() && sample.thread < recovered.sampled.size())
      samples.push_back(sample);
  }
  nb::dict all;
  const CodeOf code_of = [&](uint32_t number) -> const SampledCode& {
    return stacks.codes[number];
  };
  add_samples(all, samples, NamedStacks(nodes, code_of, native_text));
  nb::list threads;
  for (const RecoveredThread& thread : recovered.sampled) {
    threads.append(nb::make_tuple(thread.os_id, to_str(thread.name)));
  }
  all["threads"] = threads;
  all["resident"] = resident_columns(recovered.resident);
  return all;
}

void bind_sampler(nb::module_& m) {
  [[maybe_unused]] static const int registered =
      pthread_atfork(nullptr, nullptr, &SampleJournal::forget_after_fork);
  nb::class_<PythonSampler>(m, "Sampler")
      .def(nb::init<int64_t, double, size_t, bool, const std::string&, const std::vector<uint8_t>&,
                    int64_t>(),
           nb::arg("interval_ns"), nb::arg("budget"), nb::arg("limit_bytes"),
           nb::arg("keep_newest"), nb::arg("way"), nb::arg("operations"), nb::arg("age_ns") = 0)
      .def("start", &PythonSampler::start)
      .def("progress", &PythonSampler::progress)
      .def("stop", &PythonSampler::stop)
      .def("rest", &PythonSampler::rest)
      .def("go_on", &PythonSampler::go_on)
      .def("collect", &PythonSampler::collect, nb::arg("native_text"));
}

}  // namespace stepscope
