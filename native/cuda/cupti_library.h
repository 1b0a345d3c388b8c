// CUPTI as it was found at run time; nothing is linked.
#pragma once

#include <cstdint>
#include <string>

#include "cuda/cupti_abi.h"

namespace stepscope::cupti {

// The functions that are used. Those marked optional may be null: not every version has them.
struct Library {
  Result (*get_version)(uint32_t* version);
  Result (*get_result_string)(Result result, const char** text);
  Result (*get_callback_name)(uint32_t domain, uint32_t function, const char** name);
  Result (*register_callbacks)(BufferRequested requested, BufferCompleted completed);
  Result (*register_timestamp)(Timestamp timestamp);
  Result (*enable)(ActivityKind kind);
  Result (*disable)(ActivityKind kind);
  Result (*flush_all)(uint32_t flags);
  Result (*next_record)(uint8_t* buffer, size_t valid_size, Activity** record);
  Result (*dropped_records)(void* context, uint32_t stream, size_t* dropped);
  Result (*set_thread_id_type)(uint32_t type);                           // optional
  Result (*get_thread_id_type)(uint32_t* type);                          // optional
  Result (*enable_runtime_function)(uint32_t function, uint8_t enable);  // optional
  Result (*enable_driver_function)(uint32_t function, uint8_t enable);   // optional

  // Optional. A CUPTI that has it numbers each record of an event (CUDA 12.8).
  Result (*enable_all_sync_records)(uint8_t enable);
  Result (*enable_event_timestamps)(uint8_t enable);  // optional

  Result (*subscribe)(Subscriber* subscriber, Callback callback, void* user);  // optional
  Result (*unsubscribe)(Subscriber subscriber);                                // optional
  Result (*enable_callback)(uint32_t enable, Subscriber subscriber, uint32_t domain,
                            uint32_t what);               // optional
  Result (*get_graph_node_id)(void* node, uint64_t* id);  // optional

  // For one subscriber of several; all or none of them, see allows_several().
  Result (*subscribe_beside)(Subscriber* subscriber, Callback callback, void* user,
                             SubscriberParams* params);
  Result (*register_callbacks_of)(Subscriber subscriber, BufferRequestedOfOne requested,
                                  BufferCompletedOfOne completed);
  Result (*enable_of)(Subscriber subscriber, ActivityKind kind, void* config);
  Result (*disable_of)(Subscriber subscriber, ActivityKind kind, void* config);
  Result (*next_record_of)(Subscriber subscriber, uint8_t* buffer, size_t valid_size,
                           Activity** record);
  Result (*dropped_records_of)(Subscriber subscriber, void* context, uint32_t stream,
                               size_t* dropped);
  Result (*set_attribute_of)(Subscriber subscriber, uint32_t attribute, size_t* bytes, void* value);
  Result (*enable_runtime_function_of)(Subscriber subscriber, uint32_t function, uint8_t enable);
  Result (*enable_driver_function_of)(Subscriber subscriber, uint32_t function, uint8_t enable);

  // Whether several tools may record at once: since CUDA 13.3, and if its driver does, too.
  bool allows_several() const {
    return subscribe_beside && unsubscribe && register_callbacks_of && enable_of && disable_of &&
           next_record_of && dropped_records_of && set_attribute_of && enable_runtime_function_of &&
           enable_driver_function_of;
  }

  // Load the library at `path`; throws std::runtime_error saying what is wrong with it.
  static Library open(const std::string& path);

  // Throws std::runtime_error with CUPTI's own words when `result` is an error.
  void check(Result result, const char* what) const;
};

}  // namespace stepscope::cupti
