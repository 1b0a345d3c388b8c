// What the bridges touch of torch, for tools/torch_layouts.py: it compiles this file with debugging
// information and reads from that where everything stands.
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/record_function.h>
#include <c10/core/Allocator.h>

#ifdef STEPSCOPE_WITH_CUDA
#include <c10/cuda/CUDACachingAllocator.h>
#endif

// Used, so that the compiler describes them in full.
struct Everything {
  at::RecordFunction* function;
  at::RecordFunctionCallback* callback;
  at::RecordFunctionCallbacksEntry* callback_entry;
  at::RecordFunctionTLS* callbacks_of_thread;
  at::ObserverContext* context;
  c10::IValue* value;
  c10::detail::ListImpl* list;
  c10::TensorImpl* tensor;
  c10::Allocator* allocator;
  c10::DataPtr* data;
  c10::OpRegistrationListener* listener;
  c10::RegistrationHandleRAII* registration;
  c10::Type* type;
  c10::Layout layout;
  c10::ScalarType scalar;
  c10::DeviceType device;
#ifdef STEPSCOPE_WITH_CUDA
  c10::cuda::CUDACachingAllocator::TraceEntry* entry;
  c10::cuda::CUDACachingAllocator::CUDAAllocator* cuda_allocator;
#endif
} everything;
