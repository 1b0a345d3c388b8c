#include <algorithm>
#include <atomic>
#include <string>
#include <string_view>
#include <utility>

#include "core/stream.h"
#include "python/sampler.h"

namespace stepscope {
namespace {

constexpr int64_t kEveryNs = 250'000'000;

std::atomic<SampleJournal*> streamed_journal{nullptr};

}  // namespace

SampleJournal::Written SampleJournal::written_;

SampleJournal::SampleJournal() { take_on(); }

void SampleJournal::end() {
  if (!std::exchange(is_streamed_, false)) return;
  written_.stacks = stacks_.written();
  written_.threads += static_cast<uint32_t>(threads_);
  written_.samples += samples_;
  streamed_journal = nullptr;
}

void SampleJournal::forget_after_fork() {
  streamed_journal = nullptr;
  written_ = {};
}

void SampleJournal::take_on() {
  SampleJournal* nobody = nullptr;
  if (!Stream::is_on() || !streamed_journal.compare_exchange_strong(nobody, this)) return;
  is_streamed_ = true;
  before_ = written_;
  stacks_ = StackJournal(StackJournal::kSampler, before_.stacks);
}

bool SampleJournal::is_on() {
  if (!is_streamed_) take_on();
  return is_streamed_ && Stream::is_on();
}

// The part of it that no journal before has written.
void SampleJournal::add(SampleStore& samples, int64_t place) {
  const Sample* const placed = samples.at(place);
  if (!placed) return;
  Sample sample = *placed;
  if (sample.time_ns < before_.until_ns) {
    sample.duration_ns -= before_.until_ns - sample.time_ns;
    sample.time_ns = before_.until_ns;
    if (sample.duration_ns <= 0) return;
  }
  sample.thread += before_.threads;
  sample.stack = stacks_.node_number(sample.stack);
  batch_.push_back({before_.samples + place, sample});
}

void SampleJournal::write(int64_t now_ns, const CodeCopies& codes, const StackNodes& stacks,
                          SampleStore& samples, const std::vector<int64_t>& growing,
                          const std::vector<SeenThread>& threads,
                          const std::vector<ResidentMemory>& resident) {
  due_ns_ = now_ns + kEveryNs;
  written_.until_ns = now_ns;
  Stream& stream = Stream::instance();
  stacks_.write(codes, stacks);
  for (; threads_ < threads.size(); ++threads_) {
    const auto number = before_.threads + static_cast<uint32_t>(threads_);
    const SampledThreadEntry entry{number, 0, threads[threads_].native_id};
    stream.note(Entry::kSampled, entry, threads[threads_].name);
  }
  const int64_t new_from = std::max(samples_, samples.begin());
  // One that ended since the last time is written once more, too: for how long it went on.
  unfinished_.insert(unfinished_.end(), growing.begin(), growing.end());
  std::ranges::sort(unfinished_);
  const auto repeated = std::ranges::unique(unfinished_);
  unfinished_.erase(repeated.begin(), repeated.end());
  for (const int64_t place : unfinished_) {
    if (place < new_from) add(samples, place);
  }
  unfinished_ = growing;
  for (samples_ = new_from; samples_ < samples.end(); ++samples_) add(samples, samples_);
  if (!batch_.empty()) stream.note(Entry::kSamples, now_ns, bytes_of(batch_));
  batch_.clear();
  resident_ = std::min(resident_, resident.size());  // a ring forgets
  std::vector<ResidentMemory> sizes(resident.begin() + static_cast<ptrdiff_t>(resident_),
                                    resident.end());
  resident_ = resident.size();
  std::erase_if(sizes, [&](const ResidentMemory& at) { return at.time_ns < before_.until_ns; });
  if (!sizes.empty()) stream.append(Entry::kResident, bytes_of(sizes), {}, {});
}

}  // namespace stepscope
