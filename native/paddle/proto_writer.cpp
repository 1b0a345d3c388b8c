#include "paddle/proto_writer.h"

#include <algorithm>

#include "core/column_checks.h"
#include "paddle/node_trees.h"
#include "protobuf/wire_writer.h"

namespace stepscope::paddle {
namespace {

uint64_t unsigned_of(int64_t value) { return value < 0 ? 0 : static_cast<uint64_t>(value); }

void check(const Result& result) {
  const size_t texts = result.texts.offsets.size() - 1;
  const size_t encoded = result.texts.encoded.size();
  const HostNodes& host = result.host;
  const size_t nodes = host.name.size();
  check_fits(host.type.size() == nodes && host.start_ns.size() == nodes &&
                 host.duration_ns.size() == nodes && host.parent.size() == nodes &&
                 host.supplement.size() == nodes && host.op_id.size() == nodes &&
                 host.thread.size() == nodes &&
                 std::is_sorted(host.thread.begin(), host.thread.end()),
             "host");
  check_ids(host.name, texts, "host name");
  check_ids(host.supplement, encoded, "supplement");
  check_ids(host.thread, result.threads.size(), "thread");
  const RuntimeNodes& runtime = result.runtime;
  const size_t calls = runtime.owner.size();
  check_fits(runtime.name.size() == calls && runtime.start_ns.size() == calls &&
                 runtime.duration_ns.size() == calls && runtime.correlation.size() == calls &&
                 runtime.callback.size() == calls &&
                 std::is_sorted(runtime.owner.begin(), runtime.owner.end()),
             "runtime");
  check_ids(runtime.owner, nodes, "runtime owner");
  check_ids(runtime.name, texts, "runtime name");
  const MemoryNodes& memory = result.memory;
  const size_t events = memory.owner.size();
  check_fits(memory.type.size() == events && memory.place.size() == events &&
                 memory.thread.size() == events && memory.time_ns.size() == events &&
                 memory.address.size() == events && memory.increase.size() == events &&
                 memory.allocated.size() == events && memory.reserved.size() == events &&
                 memory.peak_allocated.size() == events && memory.peak_reserved.size() == events &&
                 std::is_sorted(memory.owner.begin(), memory.owner.end()),
             "memory");
  check_ids(memory.owner, nodes, "memory owner");
  check_ids(memory.place, texts, "place");
  check_ids(memory.thread, result.threads.size(), "memory thread");
  const DeviceNodes& device = result.device;
  const size_t work = device.owner.size();
  check_fits(device.name.size() == work && device.type.size() == work &&
                 device.info.size() == work && device.start_ns.size() == work &&
                 device.duration_ns.size() == work && device.device.size() == work &&
                 device.context.size() == work && device.stream.size() == work &&
                 device.correlation.size() == work && device.details.size() == kDeviceDetails &&
                 std::all_of(device.details.begin(), device.details.end(),
                             [&](Numbers column) { return column.size() == work; }) &&
                 std::is_sorted(device.owner.begin(), device.owner.end()),
             "device");
  check_ids(device.owner, calls, "device owner");
  check_ids(device.name, texts, "device name");
  check_ids(device.info, encoded, "device info");
}

class Encoder {
 public:
  explicit Encoder(const Result& result) : in_(result) {}

  std::string encode() {
    const size_t nodes = in_.host.name.size();
    for (size_t node = 0; node < nodes;) {
      const uint32_t thread = in_.host.thread[node];
      tree_.clear();
      tree_.number(thread_tree::kThreadId, in_.threads[thread].id);
      for (first_ = node; node < nodes && in_.host.thread[node] == thread; ++node) put_host(node);
      file_.bytes(file::kThreadTree, tree_.view());
    }
    return file_.take();
  }

 private:
  void put_type(uint32_t field, uint32_t type) {
    // Paddle's reader refuses files with types above these, although Paddle writes them. Of a field
    // that stands twice the last value counts, and of an enumeration unknown values are passed
    // over: a reader that knows the type gets it, one that does not gets OperatorInner.
    if (type > kPythonUserDefined) event_.number(field, kOperatorInner);
    event_.number(field, type);
  }

  void put_host(size_t node) {
    const HostNodes& host = in_.host;
    const bool is_root = node == first_;
    const Thread thread = is_root ? Thread{} : in_.threads[host.thread[node]];
    node_.clear();
    node_.number(host_node::kId, node - first_);
    node_.number(host_node::kParentId,
                 static_cast<uint64_t>(is_root ? kNoParent : host.parent[node]));
    event_.clear();
    event_.text(host_event::kName, is_root ? kRootName : in_.texts[host.name[node]]);
    put_type(host_event::kType, is_root ? uint32_t{kUserDefined} : host.type[node]);
    event_.number(host_event::kStart, is_root ? 0 : unsigned_of(host.start_ns[node]));
    event_.number(host_event::kEnd,
                  is_root ? kEndOfTime : unsigned_of(host.start_ns[node] + host.duration_ns[node]));
    event_.number(host_event::kProcess, thread.process);
    event_.number(host_event::kThread, thread.id);
    node_.bytes(host_node::kEvent, event_.view());
    for (; call_ < in_.runtime.owner.size() && in_.runtime.owner[call_] == node; ++call_) {
      put_runtime(call_, in_.threads[host.thread[node]]);
    }
    for (; memory_ < in_.memory.owner.size() && in_.memory.owner[memory_] == node; ++memory_) {
      put_memory(memory_);
    }
    if (host.supplement[node] != 0 || host.op_id[node] != 0) put_supplement(node);
    tree_.bytes(thread_tree::kHostNode, node_.view());
  }

  void put_runtime(size_t call, Thread thread) {
    namespace e = runtime_event;
    const RuntimeNodes& runtime = in_.runtime;
    event_.clear();
    event_.text(e::kName, in_.texts[runtime.name[call]]);
    event_.number(e::kStart, unsigned_of(runtime.start_ns[call]));
    event_.number(e::kEnd, unsigned_of(runtime.start_ns[call] + runtime.duration_ns[call]));
    event_.number(e::kProcess, thread.process);
    event_.number(e::kThread, thread.id);
    event_.number(e::kCorrelation, static_cast<uint32_t>(runtime.correlation[call]));
    event_.number(e::kCallback, static_cast<uint32_t>(runtime.callback[call]));
    call_node_.clear();
    call_node_.bytes(kNodesEvent, event_.view());
    for (; work_ < in_.device.owner.size() && in_.device.owner[work_] == call; ++work_) {
      put_device(work_);
    }
    node_.bytes(host_node::kRuntimeNode, call_node_.view());
  }

  void put_device(size_t work) {
    namespace e = device_event;
    const DeviceNodes& device = in_.device;
    const uint32_t type = device.type[work];
    event_.clear();
    event_.text(e::kName, in_.texts[device.name[work]]);
    put_type(e::kType, type);
    event_.number(e::kStart, unsigned_of(device.start_ns[work]));
    event_.number(e::kEnd, unsigned_of(device.start_ns[work] + device.duration_ns[work]));
    event_.number(e::kDevice, unsigned_of(device.device[work]));
    event_.number(e::kContext, unsigned_of(device.context[work]));
    event_.number(e::kStream, unsigned_of(device.stream[work]));
    event_.number(e::kCorrelation, static_cast<uint32_t>(device.correlation[work]));
    if (type >= kKernelWork && type <= kMemsetWork) {
      info_.clear();
      info_.encoded(in_.texts.encoded[device.info[work]]);
      put_details(type, work);
      event_.bytes(e::kKernel + (type - kKernelWork), info_.view());
    }
    inner_.clear();
    inner_.bytes(kNodesEvent, event_.view());
    call_node_.bytes(runtime_node::kDeviceNode, inner_.view());
  }

  void put_details(uint32_t type, size_t work) {
    const auto put = [&](uint32_t field, size_t detail) {
      info_.number(field, unsigned_of(in_.device.details[detail][work]));
    };
    if (type == kKernelWork) {
      namespace k = kernel_info;
      put(k::kRegisters, 0);
      put(k::kStaticSharedMemory, 1);
      put(k::kDynamicSharedMemory, 2);
      put(k::kLocalMemoryPerThread, 3);
      put(k::kLocalMemoryTotal, 4);
      put(k::kQueued, 5);
      put(k::kSubmitted, 6);
      put(k::kCompleted, 7);
      return;
    }
    put(memcpy_info::kBytes, 8);  // the same field in both
    if (type == kMemsetWork) put(memset_info::kValue, 9);
  }

  void put_memory(size_t at) {
    namespace e = memory_event;
    const MemoryNodes& memory = in_.memory;
    const Thread thread = in_.threads[memory.thread[at]];
    event_.clear();
    event_.number(e::kTime, unsigned_of(memory.time_ns[at]));
    event_.number(e::kType, memory.type[at]);
    event_.number(e::kAddress, static_cast<uint64_t>(memory.address[at]));
    event_.number(e::kProcess, thread.process);
    event_.number(e::kThread, thread.id);
    event_.number(e::kIncrease, static_cast<uint64_t>(memory.increase[at]));
    event_.text(e::kPlace, in_.texts[memory.place[at]]);
    event_.number(e::kAllocated, unsigned_of(memory.allocated[at]));
    event_.number(e::kReserved, unsigned_of(memory.reserved[at]));
    event_.number(e::kPeakAllocated, unsigned_of(memory.peak_allocated[at]));
    event_.number(e::kPeakReserved, unsigned_of(memory.peak_reserved[at]));
    inner_.clear();
    inner_.bytes(kNodesEvent, event_.view());
    node_.bytes(host_node::kMemoryNode, inner_.view());
  }

  void put_supplement(size_t node) {
    namespace e = supplement;
    const HostNodes& host = in_.host;
    const Thread thread = in_.threads[host.thread[node]];
    event_.clear();
    event_.number(e::kTime, unsigned_of(host.start_ns[node]));
    event_.number(e::kProcess, thread.process);
    event_.number(e::kThread, thread.id);
    // What a fragment says may follow; every field must be there.
    for (const uint32_t field : {e::kOpType, e::kShapes, e::kDtypes, e::kCallStack}) {
      event_.bytes(field, {});
    }
    event_.encoded(in_.texts.encoded[host.supplement[node]]);
    event_.number(e::kOpId, static_cast<uint64_t>(host.op_id[node]));
    inner_.clear();
    inner_.bytes(kNodesEvent, event_.view());
    node_.bytes(host_node::kSupplementNode, inner_.view());
  }

  const Result& in_;
  size_t first_ = 0;  // the root of the thread at hand
  size_t call_ = 0;
  size_t memory_ = 0;
  size_t work_ = 0;
  protobuf::WireWriter file_, tree_, node_, call_node_, inner_, event_, info_;
};

}  // namespace

std::string encode_trees(const Result& result) {
  check(result);
  return Encoder(result).encode();
}

}  // namespace stepscope::paddle
