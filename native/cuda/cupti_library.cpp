#include "cuda/cupti_library.h"

#include <stdexcept>

#include "cuda/loaded_library.h"

namespace stepscope::cupti {

Library Library::open(const std::string& path) {
  const LoadedLibrary found(path);
  Library library{};
  found.require("cuptiGetVersion", &library.get_version);
  found.require("cuptiGetResultString", &library.get_result_string);
  found.require("cuptiGetCallbackName", &library.get_callback_name);
  found.require("cuptiActivityRegisterCallbacks", &library.register_callbacks);
  found.require("cuptiActivityRegisterTimestampCallback", &library.register_timestamp);
  found.require("cuptiActivityEnable", &library.enable);
  found.require("cuptiActivityDisable", &library.disable);
  found.require("cuptiActivityFlushAll", &library.flush_all);
  found.require("cuptiActivityGetNextRecord", &library.next_record);
  found.require("cuptiActivityGetNumDroppedRecords", &library.dropped_records);
  found.find("cuptiSetThreadIdType", &library.set_thread_id_type);
  found.find("cuptiGetThreadIdType", &library.get_thread_id_type);
  found.find("cuptiActivityEnableRuntimeApi", &library.enable_runtime_function);
  found.find("cuptiActivityEnableDriverApi", &library.enable_driver_function);
  found.find("cuptiActivityEnableAllSyncRecords", &library.enable_all_sync_records);
  found.find("cuptiActivityEnableCudaEventDeviceTimestamps", &library.enable_event_timestamps);
  found.find("cuptiSubscribe", &library.subscribe);
  found.find("cuptiUnsubscribe", &library.unsubscribe);
  found.find("cuptiEnableCallback", &library.enable_callback);
  found.find("cuptiGetGraphNodeId", &library.get_graph_node_id);
  found.find("cuptiSubscribe_v2", &library.subscribe_beside);
  found.find("cuptiActivityRegisterCallbacks_v2", &library.register_callbacks_of);
  found.find("cuptiActivityEnable_v2", &library.enable_of);
  found.find("cuptiActivityDisable_v2", &library.disable_of);
  found.find("cuptiActivityGetNextRecord_v2", &library.next_record_of);
  found.find("cuptiActivityGetNumDroppedRecords_v2", &library.dropped_records_of);
  found.find("cuptiActivitySetAttribute_v2", &library.set_attribute_of);
  found.find("cuptiActivityEnableRuntimeApi_v2", &library.enable_runtime_function_of);
  found.find("cuptiActivityEnableDriverApi_v2", &library.enable_driver_function_of);
  return library;
}

void Library::check(Result result, const char* what) const {
  if (result == kSuccess) return;
  const char* text = nullptr;
  get_result_string(result, &text);
  throw std::runtime_error(std::string(what) + ": " + (text ? text : std::to_string(result)));
}

}  // namespace stepscope::cupti
