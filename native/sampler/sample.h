// What the sampler keeps.
#pragma once

#include <cstdint>

namespace stepscope {

// ThreadState and WaitReason of stepscope.trace.kinds; a test compares them.
enum class SampleState : uint8_t { kPython = 0, kNative, kGil, kBlocked, kReady };
enum class WaitReason : uint8_t {
  kUnknown = 0,
  kSleep,
  kLock,
  kFile,
  kSocket,
  kPipe,
  kProcess,
  kPoll
};

constexpr bool is_running(SampleState state) {
  return state == SampleState::kPython || state == SampleState::kNative;
}

struct Sample {
  int64_t time_ns = 0;
  int64_t duration_ns = 0;  // until the thread was looked at again
  uint32_t thread = 0;
  uint32_t stack = 0;
  SampleState state = SampleState::kNative;
  WaitReason wait = WaitReason::kUnknown;
};

// A sample as the stream has it. A later state of the sample with the same place replaces it.
struct PlacedSample {
  int64_t place = 0;  // among all samples of the recording
  Sample sample;
};

}  // namespace stepscope
