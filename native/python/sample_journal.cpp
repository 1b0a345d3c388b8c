#include "python/sample_journal.h"

#include <algorithm>
#include <atomic>
#include <string>
#include <string_view>

#include "python/sampler.h"
#include "stream/stream.h"

namespace stepscope {
namespace {

constexpr int64_t kEveryNs = 250'000'000;

std::atomic<SampleJournal*> streamed_journal{nullptr};

template <typename T>
std::string_view bytes_of(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

}  // namespace

SampleJournal::SampleJournal() {
  SampleJournal* nobody = nullptr;
  is_first_ = Stream::is_on() && streamed_journal.compare_exchange_strong(nobody, this);
}

SampleJournal::~SampleJournal() {
  if (is_first_) streamed_journal = nullptr;
}

bool SampleJournal::is_on() const { return is_first_ && Stream::is_on(); }

void SampleJournal::add(SampleStore& samples, int64_t place) {
  if (const Sample* const sample = samples.at(place)) batch_.push_back({place, *sample});
}

void SampleJournal::write(int64_t now_ns, const CodeCopies& codes, const StackNodes& stacks,
                          SampleStore& samples, const std::vector<int64_t>& growing,
                          const std::vector<SeenThread>& threads,
                          const std::vector<ResidentMemory>& resident) {
  due_ns_ = now_ns + kEveryNs;
  Stream& stream = Stream::instance();
  const auto size = [](const auto& text) { return static_cast<uint32_t>(text.size()); };
  for (; codes_ < codes.size(); ++codes_) {
    const auto number = static_cast<uint32_t>(codes_);
    const SampledCode& code = codes[number];
    const CodeEntry entry{number,
                          code.first_line,
                          size(code.file),
                          size(code.function),
                          size(code.line_table),
                          size(code.operations)};
    std::string rest = code.file + code.function;
    rest.append(bytes_of(code.line_table)).append(bytes_of(code.operations));
    stream.note(Entry::kCode, entry, rest);
  }
  std::vector<NodeEntry> nodes;
  for (; nodes_ < stacks.nodes().size(); ++nodes_) {
    const StackNodes::Node& node = stacks.nodes()[nodes_];
    nodes.push_back({static_cast<uint32_t>(nodes_), node.parent, node.code, node.instruction});
  }
  if (!nodes.empty()) stream.append(Entry::kNode, bytes_of(nodes), {}, {});
  for (; threads_ < threads.size(); ++threads_) {
    const SampledThreadEntry entry{static_cast<uint32_t>(threads_), 0, threads[threads_].native_id};
    stream.note(Entry::kSampled, entry, threads[threads_].name);
  }
  const int64_t new_from = std::max(samples_, samples.begin());
  for (const int64_t place : growing) {
    if (place < new_from) add(samples, place);
  }
  for (samples_ = new_from; samples_ < samples.end(); ++samples_) add(samples, samples_);
  if (!batch_.empty()) stream.append(Entry::kSamples, bytes_of(batch_), {}, {});
  batch_.clear();
  resident_ = std::min(resident_, resident.size());  // a ring forgets
  std::vector<ResidentMemory> sizes(resident.begin() + static_cast<ptrdiff_t>(resident_),
                                    resident.end());
  resident_ = resident.size();
  if (!sizes.empty()) stream.append(Entry::kResident, bytes_of(sizes), {}, {});
}

}  // namespace stepscope
