// The threads of all interpreters, followed as they come and go.
#pragma once

#include <cstdint>
#include <vector>

#include "python/stack_reader.h"
#include "sampler/memory_reader.h"

namespace stepscope {

class ThreadList {
 public:
  explicit ThreadList(const MemoryReader& memory) : memory_(memory) {}

  // Append the places of the threads that are new since the last call.
  void find_new(std::vector<ThreadPlaces>& new_places);
  // To be called for each thread that is gone. If the system's thread has not ended with it, the
  // interpreter may have put another one in its place.
  void forget(const ThreadPlaces& gone, bool has_ended);
  // The next call of find_new() returns all threads.
  void forget_all() {
    interpreters_.clear();
    newest_ = 0;
  }

 private:
  struct Known {
    Address thread = 0;
    uint64_t id = 0;
    bool operator==(const Known&) const = default;
  };
  struct Interpreter {
    Address address = 0;
    Address gil = 0;
    uint64_t threads_made = 0;
    bool search_all = false;
    std::vector<Known> threads;
  };

  void find_interpreters();
  void find_threads(Interpreter& interpreter, std::vector<ThreadPlaces>& new_places);

  const MemoryReader& memory_;
  Address newest_ = 0;
  std::vector<Interpreter> interpreters_;
  std::vector<char> buffer_;
  uint32_t calls_ = 0;
};

}  // namespace stepscope
