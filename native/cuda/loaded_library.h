// A library as it was found at run time; nothing is linked.
#pragma once

#include <dlfcn.h>

#include <stdexcept>
#include <string>
#include <utility>

namespace stepscope {

// Never closed: NVIDIA's libraries have threads and state of their own.
class LoadedLibrary {
 public:
  // Throws std::runtime_error where it cannot be loaded. `name` and `hint` are for what is said of
  // a function that it lacks.
  explicit LoadedLibrary(const std::string& path, std::string name = "it", std::string hint = "")
      : name_(std::move(name)),
        hint_(std::move(hint)),
        handle_(dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) {
    if (!handle_) throw std::runtime_error(dlerror());
  }

  // Null where the library does not have it.
  template <typename Function>
  void find(const char* name, Function* function) const {
    *function = reinterpret_cast<Function>(dlsym(handle_, name));
  }

  template <typename Function>
  void require(const char* name, Function* function) const {
    find(name, function);
    if (!*function) throw std::runtime_error(name_ + " has no " + name + hint_);
  }

 private:
  std::string name_;
  std::string hint_;
  void* handle_;
};

}  // namespace stepscope
