#include "cuda/cupti_library.h"

#include <stdexcept>

#include "cuda/loaded_library.h"

namespace stepscope::cupti {

Library Library::open(const std::string& path) {
  const LoadedLibrary loaded(path);
  Library library{};
  loaded.require("cuptiGetVersion", &library.get_version);
  loaded.require("cuptiGetResultString", &library.get_result_string);
  loaded.require("cuptiGetCallbackName", &library.get_callback_name);
  loaded.require("cuptiActivityRegisterCallbacks", &library.register_callbacks);
  loaded.require("cuptiActivityRegisterTimestampCallback", &library.register_timestamp);
  loaded.require("cuptiActivityEnable", &library.enable);
  loaded.require("cuptiActivityDisable", &library.disable);
  loaded.require("cuptiActivityFlushAll", &library.flush_all);
  loaded.require("cuptiActivityGetNextRecord", &library.next_record);
  loaded.require("cuptiActivityGetNumDroppedRecords", &library.dropped_records);
  loaded.find("cuptiSetThreadIdType", &library.set_thread_id_type);
  loaded.find("cuptiGetThreadIdType", &library.get_thread_id_type);
  loaded.find("cuptiActivityEnableRuntimeApi", &library.enable_runtime_function);
  loaded.find("cuptiActivityEnableDriverApi", &library.enable_driver_function);
  loaded.find("cuptiActivityEnableAllSyncRecords", &library.enable_all_sync_records);
  loaded.find("cuptiActivityEnableCudaEventDeviceTimestamps", &library.enable_event_timestamps);
  loaded.find("cuptiSubscribe", &library.subscribe);
  loaded.find("cuptiUnsubscribe", &library.unsubscribe);
  loaded.find("cuptiEnableCallback", &library.enable_callback);
  loaded.find("cuptiGetGraphNodeId", &library.get_graph_node_id);
  loaded.find("cuptiSubscribe_v2", &library.subscribe_beside);
  loaded.find("cuptiActivityRegisterCallbacks_v2", &library.register_callbacks_of);
  loaded.find("cuptiActivityEnable_v2", &library.enable_of);
  loaded.find("cuptiActivityDisable_v2", &library.disable_of);
  loaded.find("cuptiActivityGetNextRecord_v2", &library.next_record_of);
  loaded.find("cuptiActivityGetNumDroppedRecords_v2", &library.dropped_records_of);
  loaded.find("cuptiActivitySetAttribute_v2", &library.set_attribute_of);
  loaded.find("cuptiActivityEnableRuntimeApi_v2", &library.enable_runtime_function_of);
  loaded.find("cuptiActivityEnableDriverApi_v2", &library.enable_driver_function_of);
  return library;
}

void Library::check(Result result, const char* what) const {
  if (result == kSuccess) return;
  const char* text = nullptr;
  get_result_string(result, &text);
  throw std::runtime_error(std::string(what) + ": " + (text ? text : std::to_string(result)));
}

}  // namespace stepscope::cupti
