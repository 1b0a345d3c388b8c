// The numbers of Perfetto's protobuf fields that are read or written here, by message. They are
// stated in Perfetto's protos/perfetto/trace/*.proto and never change their meaning.
#pragma once

#include <cstdint>

namespace stepscope::perfetto {

constexpr uint32_t kPacket = 1;  // of the file

namespace packet {
constexpr uint32_t kFtraceEvents = 1;
constexpr uint32_t kProcessTree = 2;
constexpr uint32_t kClockSnapshot = 6;
constexpr uint32_t kTimestamp = 8;
constexpr uint32_t kSequence = 10;
constexpr uint32_t kTrackEvent = 11;
constexpr uint32_t kInternedData = 12;
constexpr uint32_t kSequenceFlags = 13;
constexpr uint32_t kStateCleared = 41;  // the older form of kFlagCleared
constexpr uint32_t kProcessDescriptor = 43;
constexpr uint32_t kThreadDescriptor = 44;
constexpr uint32_t kCompressed = 50;
constexpr uint32_t kClock = 58;
constexpr uint32_t kDefaults = 59;
constexpr uint32_t kTrackDescriptor = 60;
constexpr uint32_t kOwn = 77'000'021;  // ours: what others do not know, as JSON
constexpr uint64_t kFlagCleared = 1;
constexpr uint64_t kFlagNeedsState = 2;
}  // namespace packet

namespace defaults {
constexpr uint32_t kTrackEvent = 11;
constexpr uint32_t kTrack = 11;  // inside of kTrackEvent
constexpr uint32_t kClock = 58;
}  // namespace defaults

namespace event {
constexpr uint32_t kTimeDelta = 1;
constexpr uint32_t kCategory = 3;
constexpr uint32_t kAnnotation = 4;
constexpr uint32_t kLegacy = 6;
constexpr uint32_t kType = 9;
constexpr uint32_t kName = 10;
constexpr uint32_t kTrack = 11;
constexpr uint32_t kTimeAbsolute = 16;
constexpr uint32_t kCategoryText = 22;
constexpr uint32_t kNameText = 23;
constexpr uint32_t kCounter = 30;
constexpr uint32_t kOldFlow = 36;
constexpr uint32_t kOldLastFlow = 42;
constexpr uint32_t kDoubleCounter = 44;
constexpr uint32_t kFlow = 47;
constexpr uint32_t kLastFlow = 48;
enum Type : uint8_t { kUnknown = 0, kBegin = 1, kEnd = 2, kInstant = 3, kCounterType = 4 };
}  // namespace event

namespace legacy {
constexpr uint32_t kName = 1;
constexpr uint32_t kPhase = 2;
constexpr uint32_t kDurationUs = 3;
constexpr uint32_t kUnscopedId = 6;
constexpr uint32_t kBindId = 8;
constexpr uint32_t kLocalId = 10;
constexpr uint32_t kGlobalId = 11;
constexpr uint32_t kProcess = 18;
constexpr uint32_t kThread = 19;
constexpr uint32_t kFields = 20;
}  // namespace legacy

namespace annotation {
constexpr uint32_t kName = 1;
constexpr uint32_t kBool = 2;
constexpr uint32_t kUnsigned = 3;
constexpr uint32_t kInteger = 4;
constexpr uint32_t kDouble = 5;
constexpr uint32_t kText = 6;
constexpr uint32_t kPointer = 7;
constexpr uint32_t kJson = 9;
constexpr uint32_t kNameText = 10;
constexpr uint32_t kEntry = 11;  // of a dictionary: an annotation with a name
constexpr uint32_t kItem = 12;   // of a list: an annotation without
constexpr uint32_t kTextId = 17;
}  // namespace annotation

namespace interned {
constexpr uint32_t kCategory = 1;
constexpr uint32_t kEventName = 2;
constexpr uint32_t kAnnotationName = 3;
constexpr uint32_t kText = 29;
constexpr uint32_t kId = 1;  // of each
constexpr uint32_t kName = 2;
}  // namespace interned

namespace track {
constexpr uint32_t kUuid = 1;
constexpr uint32_t kName = 2;
constexpr uint32_t kProcess = 3;
constexpr uint32_t kThread = 4;
constexpr uint32_t kParent = 5;
constexpr uint32_t kCounter = 8;
constexpr uint32_t kStaticName = 10;
constexpr uint32_t kProcessId = 1;  // of kProcess
constexpr uint32_t kProcessName = 6;
constexpr uint32_t kThreadProcess = 1;  // of kThread
constexpr uint32_t kThreadId = 2;
constexpr uint32_t kThreadName = 5;
constexpr uint32_t kReferenceUs = 6;
constexpr uint32_t kUnitMultiplier = 4;  // of kCounter
constexpr uint32_t kIsIncremental = 5;
}  // namespace track

namespace clock {
constexpr uint32_t kClocks = 1;
constexpr uint32_t kPrimary = 2;
constexpr uint32_t kId = 1;  // of each of kClocks
constexpr uint32_t kTimestamp = 2;
constexpr uint32_t kIsIncremental = 3;
constexpr uint32_t kMultiplier = 4;
constexpr uint64_t kRealtime = 1;
constexpr uint64_t kMonotonic = 3;
constexpr uint64_t kBoottime = 6;
constexpr uint64_t kFirstOfSequence = 64;  // up to 127: known to one sequence only
constexpr uint64_t kLastOfSequence = 127;
}  // namespace clock

namespace process_tree {
constexpr uint32_t kProcess = 1;
constexpr uint32_t kThread = 2;
constexpr uint32_t kProcessId = 1;
constexpr uint32_t kCommand = 3;
constexpr uint32_t kThreadId = 1;
constexpr uint32_t kThreadName = 2;
}  // namespace process_tree

}  // namespace stepscope::perfetto
