// Paddle's profiler result file: the numbers of its fields, and what a program knows about them.
//
// The file is a protobuf message, NodeTreesProto: for each thread a list of host nodes (each with
// its own number and its parent's), which hold the runtime calls, memory events and operator
// details that happened in them; runtime calls hold the device work that they launched.
#pragma once

#include <array>
#include <cstdint>

namespace stepscope::paddle {

namespace file {
enum : uint32_t { kVersion = 1, kSpanIndex, kThreadTree, kExtraInfo, kDeviceProperty };
}
namespace thread_tree {
enum : uint32_t { kThreadId = 1, kHostNode };
}
inline constexpr uint32_t kNodesEvent = 1;  // of every node but the host's

namespace host_node {
enum : uint32_t { kId = 1, kParentId, kEvent, kRuntimeNode, kMemoryNode, kSupplementNode };
}
namespace host_event {
enum : uint32_t { kName = 1, kType, kStart, kEnd, kProcess, kThread, kFields };
}
namespace runtime_node {
enum : uint32_t { kDeviceNode = 2 };
}
namespace runtime_event {
enum : uint32_t { kName = 1, kStart, kEnd, kProcess, kThread, kCorrelation, kCallback, kFields };
}
namespace device_event {
enum : uint32_t {
  kName = 1,
  kType,
  kStart,
  kEnd,
  kDevice,
  kContext,
  kStream,
  kCorrelation,
  kKernel,
  kMemcpy,
  kMemset,
  kFields
};
}
namespace kernel_info {
enum : uint32_t {
  kBlockX = 1,
  kBlockY,
  kBlockZ,
  kGridX,
  kGridY,
  kGridZ,
  kDynamicSharedMemory,
  kStaticSharedMemory,
  kRegisters,
  kLocalMemoryPerThread,
  kLocalMemoryTotal,
  kQueued,
  kSubmitted,
  kCompleted,
  kBlocksPerSm,
  kWarpsPerSm,
  kOccupancy,
  kFields
};
}
namespace memcpy_info {
enum : uint32_t { kBytes = 1, kCopyKind, kSourceKind, kTargetKind, kFields };
}
namespace memset_info {
enum : uint32_t { kBytes = 1, kMemoryKind, kValue, kFields };
}
namespace memory_event {
enum : uint32_t {
  kTime = 1,
  kType,
  kAddress,
  kProcess,
  kThread,
  kIncrease,
  kPlace,
  kAllocated,
  kReserved,
  kPeakAllocated,
  kPeakReserved,
  kFields
};
}
namespace supplement {
enum : uint32_t {
  kTime = 1,
  kOpType,
  kProcess,
  kThread,
  kShapes,
  kDtypes,
  kCallStack,
  kOpId,
  kFields
};
}
namespace keyed {  // of shapes and dtypes: names, and as many lists
enum : uint32_t { kKey = 1, kList };
}
namespace extra_info {
enum : uint32_t { kKey = 1, kValue, kFields };
}
namespace device_property {
enum : uint32_t { kId = 1, kName, kFirstNumber, kFields = 15 };
}

enum EventType : uint32_t {
  kCudaRuntime = 3,
  kKernelWork = 4,
  kMemcpyWork = 5,
  kMemsetWork = 6,
  kUserDefined = 7,
  kOperatorInner = 8,
  kPythonUserDefined = 14,  // the last that Paddle's own reader knows
  kEventTypes = 17,
};

inline constexpr std::array<const char*, kEventTypes> kEventTypeNames = {"Operator",
                                                                         "Dataloader",
                                                                         "ProfileStep",
                                                                         "CudaRuntime",
                                                                         "Kernel",
                                                                         "Memcpy",
                                                                         "Memset",
                                                                         "UserDefined",
                                                                         "OperatorInner",
                                                                         "Forward",
                                                                         "Backward",
                                                                         "Optimization",
                                                                         "Communication",
                                                                         "PythonOp",
                                                                         "PythonUserDefined",
                                                                         "DygraphKernelLaunch",
                                                                         "StaticKernelLaunch"};

enum MemoryType : uint32_t { kAllocate, kFree, kReservedAllocate, kReservedFree, kMemoryTypes };

// The topmost node of a thread stands for no event: it spans all of time.
inline constexpr const char* kRootName = "root node";
inline constexpr int64_t kNoParent = -1;
// A runtime call that our own files make up around device work whose launch is not known.
inline constexpr const char* kNoLaunch = "launch not recorded";
inline constexpr uint64_t kEndOfTime = ~uint64_t{0};

// A slice's integer arguments, under the words that Kineto uses where it has one.
enum class IntegerArg : uint8_t {
  kCorrelation,
  kDevice,
  kContext,
  kStream,
  kRegisters,
  kSharedMemory,
  kDynamicSharedMemory,
  kLocalMemoryPerThread,
  kLocalMemoryTotal,
  kQueued,
  kSubmitted,
  kCompleted,
  kBytes,
  kValue,
  kCallback,
  kOpId,
  kCount,
};

inline constexpr std::array<const char*, static_cast<size_t>(IntegerArg::kCount)> kIntegerArgNames =
    {"correlation",
     "device",
     "context",
     "stream",
     "registers per thread",
     "shared memory",
     "dynamic shared memory",
     "local memory per thread",
     "local memory total",
     "queued",
     "submitted",
     "completed",
     "bytes",
     "value",
     "callback id",
     "Op id"};

}  // namespace stepscope::paddle
