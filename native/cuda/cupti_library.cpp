#include "cuda/cupti_library.h"

#include <dlfcn.h>

#include <stdexcept>

namespace stepscope::cupti {
namespace {

template <typename Function>
void find(void* library, const char* name, Function* function) {
  *function = reinterpret_cast<Function>(dlsym(library, name));
}

template <typename Function>
void require(void* library, const char* name, Function* function) {
  find(library, name, function);
  if (!*function) throw std::runtime_error(std::string("it has no ") + name);
}

}  // namespace

Library Library::open(const std::string& path) {
  // Never closed: CUPTI has threads of its own.
  void* const handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle) throw std::runtime_error(dlerror());
  Library library{};
  require(handle, "cuptiGetVersion", &library.get_version);
  require(handle, "cuptiGetResultString", &library.get_result_string);
  require(handle, "cuptiGetCallbackName", &library.get_callback_name);
  require(handle, "cuptiActivityRegisterCallbacks", &library.register_callbacks);
  require(handle, "cuptiActivityRegisterTimestampCallback", &library.register_timestamp);
  require(handle, "cuptiActivityEnable", &library.enable);
  require(handle, "cuptiActivityDisable", &library.disable);
  require(handle, "cuptiActivityFlushAll", &library.flush_all);
  require(handle, "cuptiActivityGetNextRecord", &library.next_record);
  require(handle, "cuptiActivityGetNumDroppedRecords", &library.dropped_records);
  find(handle, "cuptiSetThreadIdType", &library.set_thread_id_type);
  find(handle, "cuptiGetThreadIdType", &library.get_thread_id_type);
  find(handle, "cuptiActivityEnableRuntimeApi", &library.enable_runtime_function);
  find(handle, "cuptiActivityEnableDriverApi", &library.enable_driver_function);
  find(handle, "cuptiActivityEnableAllSyncRecords", &library.enable_all_sync_records);
  find(handle, "cuptiActivityEnableCudaEventDeviceTimestamps", &library.enable_event_timestamps);
  find(handle, "cuptiSubscribe", &library.subscribe);
  find(handle, "cuptiUnsubscribe", &library.unsubscribe);
  find(handle, "cuptiEnableCallback", &library.enable_callback);
  find(handle, "cuptiGetGraphNodeId", &library.get_graph_node_id);
  find(handle, "cuptiSubscribe_v2", &library.subscribe_beside);
  find(handle, "cuptiActivityRegisterCallbacks_v2", &library.register_callbacks_of);
  find(handle, "cuptiActivityEnable_v2", &library.enable_of);
  find(handle, "cuptiActivityDisable_v2", &library.disable_of);
  find(handle, "cuptiActivityGetNextRecord_v2", &library.next_record_of);
  find(handle, "cuptiActivityGetNumDroppedRecords_v2", &library.dropped_records_of);
  find(handle, "cuptiActivitySetAttribute_v2", &library.set_attribute_of);
  find(handle, "cuptiActivityEnableRuntimeApi_v2", &library.enable_runtime_function_of);
  find(handle, "cuptiActivityEnableDriverApi_v2", &library.enable_driver_function_of);
  return library;
}

void Library::check(Result result, const char* what) const {
  if (result == kSuccess) return;
  const char* text = nullptr;
  get_result_string(result, &text);
  throw std::runtime_error(std::string(what) + ": " + (text ? text : std::to_string(result)));
}

}  // namespace stepscope::cupti
