// CUDA's driver, if the program has loaded it.
#pragma once

#include <dlfcn.h>

#include <vector>

namespace stepscope {

// Does nothing, and knows of no device, before the program has used CUDA.
class Driver {
 public:
  Driver() {
    if (!handle_) return;
    find("cuDeviceGetCount", &count_);
    find("cuDevicePrimaryCtxGetState", &state_);
    find("cuDevicePrimaryCtxRetain", &retain_);
    find("cuDevicePrimaryCtxRelease_v2", &release_);
    find("cuCtxPushCurrent_v2", &push_);
    find("cuCtxPopCurrent_v2", &pop_);
    find("cuCtxSynchronize", &synchronize_);
  }
  ~Driver() {
    if (handle_) dlclose(handle_);  // the program's own use of it stays
  }
  Driver(const Driver&) = delete;
  Driver& operator=(const Driver&) = delete;

  // The devices that the program computes on.
  std::vector<int> devices_in_use() const {
    std::vector<int> in_use;
    int devices = 0;
    if (!count_ || !state_ || count_(&devices) != 0) return in_use;
    for (int device = 0; device < devices; ++device) {
      unsigned flags = 0;
      int is_active = 0;
      if (state_(device, &flags, &is_active) == 0 && is_active) in_use.push_back(device);
    }
    return in_use;
  }

  void wait_for_devices() const {
    if (!count_ || !state_ || !retain_ || !release_ || !push_ || !pop_ || !synchronize_) return;
    synchronize_();  // a context that is nobody's primary one; an error says there is none
    for (const int device : devices_in_use()) {
      void* context = nullptr;
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
  void find(const char* name, Function* function) {
    *function = reinterpret_cast<Function>(dlsym(handle_, name));
  }

  void* const handle_ = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  int (*count_)(int*) = nullptr;
  int (*state_)(int, unsigned*, int*) = nullptr;
  int (*retain_)(void**, int) = nullptr;
  int (*release_)(int) = nullptr;
  int (*push_)(void*) = nullptr;
  int (*pop_)(void**) = nullptr;
  int (*synchronize_)() = nullptr;
};

}  // namespace stepscope
