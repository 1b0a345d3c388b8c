#include "python/stack_journal.h"

#include <atomic>
#include <string>

#include "core/stream.h"

namespace stepscope {

uint32_t StackJournal::new_owner() {
  static std::atomic<uint32_t> last{kSampler};
  return ++last;
}

void StackJournal::write(const CodeCopies& codes, const StackNodes& stacks) {
  Stream& stream = Stream::instance();
  const auto size = [](const auto& text) { return static_cast<uint32_t>(text.size()); };
  for (; codes_ < codes.size(); ++codes_) {
    const auto number = static_cast<uint32_t>(codes_);
    const SampledCode& code = codes[number];
    const CodeEntry entry{owner_,
                          code_number(number),
                          code.first_line,
                          size(code.file),
                          size(code.function),
                          size(code.line_table),
                          size(code.operations),
                          0};
    std::string rest = code.file + code.function;
    rest.append(bytes_of(code.line_table)).append(bytes_of(code.operations));
    stream.note(Entry::kCode, entry, rest);
  }
  std::vector<NodeEntry> nodes;
  for (; nodes_ < stacks.nodes().size(); ++nodes_) {
    const StackNodes::Node& node = stacks.nodes()[nodes_];
    nodes.push_back({node_number(static_cast<uint32_t>(nodes_)), node_number(node.parent),
                     code_number(node.code), node.instruction});
  }
  if (!nodes.empty()) stream.note(Entry::kNodes, NodesEntry{owner_, 0}, bytes_of(nodes));
}

}  // namespace stepscope
