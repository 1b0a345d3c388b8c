// CUDA's driver, if the program has loaded it.
#pragma once

#include <dlfcn.h>

namespace stepscope {

// The driver, as far as it is needed to wait for every device that the program uses.
class Driver {
 public:
  Driver() {
    void* const handle = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    if (!handle) return;
    find(handle, "cuDeviceGetCount", &count_);
    find(handle, "cuDevicePrimaryCtxGetState", &state_);
    find(handle, "cuDevicePrimaryCtxRetain", &retain_);
    find(handle, "cuDevicePrimaryCtxRelease_v2", &release_);
    find(handle, "cuCtxPushCurrent_v2", &push_);
    find(handle, "cuCtxPopCurrent_v2", &pop_);
    find(handle, "cuCtxSynchronize", &synchronize_);
  }

  void wait_for_devices() const {
    if (!count_ || !state_ || !retain_ || !release_ || !push_ || !pop_ || !synchronize_) return;
    synchronize_();  // a context that is nobody's primary one; an error says there is none
    int devices = 0;
    if (count_(&devices) != 0) return;
    for (int device = 0; device < devices; ++device) {
      unsigned flags = 0;
      int active = 0;
      void* context = nullptr;
      if (state_(device, &flags, &active) != 0 || !active) continue;
      if (retain_(&context, device) != 0) continue;
      if (push_(context) == 0) {
        synchronize_();
        pop_(&context);
      }
      release_(device);
    }
  }

 private:
  template <typename Function>
  static void find(void* library, const char* name, Function* function) {
    *function = reinterpret_cast<Function>(dlsym(library, name));
  }

  int (*count_)(int*) = nullptr;
  int (*state_)(int, unsigned*, int*) = nullptr;
  int (*retain_)(void**, int) = nullptr;
  int (*release_)(int) = nullptr;
  int (*push_)(void*) = nullptr;
  int (*pop_)(void**) = nullptr;
  int (*synchronize_)() = nullptr;
};

}  // namespace stepscope
