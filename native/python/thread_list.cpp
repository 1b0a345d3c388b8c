#include "python/thread_list.h"

#include <algorithm>

namespace stepscope {
namespace {

constexpr size_t kMostInterpreters = 1024;
constexpr size_t kMostThreads = 1 << 16;
constexpr uint32_t kCallsBetweenSearches = 128;  // an interpreter that ends is noticed then

}  // namespace

void ThreadList::find_new(std::vector<ThreadPlaces>& new_places) {
  if (calls_++ % kCallsBetweenSearches == 0 || newest_interpreter(memory_) != newest_)
    find_interpreters();
  for (Interpreter& interpreter : interpreters_) find_threads(interpreter, new_places);
}

void ThreadList::forget(const ThreadPlaces& gone, bool has_ended) {
  for (Interpreter& interpreter : interpreters_) {
    if (interpreter.address != gone.interpreter) continue;
    std::erase(interpreter.threads, Known{gone.thread, gone.id});
    if (has_ended) continue;
    interpreter.threads_made = 0;
    interpreter.search_all = true;
  }
}

void ThreadList::find_interpreters() {
  newest_ = newest_interpreter(memory_);
  std::vector<Interpreter> now;
  for (Address address = newest_; address && now.size() < kMostInterpreters;) {
    const auto same =
        std::find_if(interpreters_.begin(), interpreters_.end(),
                     [&](const auto& interpreter) { return interpreter.address == address; });
    now.push_back(same != interpreters_.end() ? std::move(*same) : Interpreter());
    now.back().address = address;
    // Its GIL is made some time after it is in the list, and another may take its place.
    now.back().gil = gil_of(address, memory_);
    if (!memory_.read(address + kLayout.interpreter_next, &address)) break;
  }
  interpreters_ = std::move(now);
}

// New threads are put before all others, so that the search ends at one that is known.
void ThreadList::find_threads(Interpreter& interpreter, std::vector<ThreadPlaces>& new_places) {
  struct {
    uint64_t made;
    Address first;
  } now;
  if (!memory_.read(interpreter.address + kLayout.threads_made, &now)) return;
  if (now.made == interpreter.threads_made) return;
  buffer_.resize(kLayout.thread_size);
  bool is_complete = true;
  const size_t known_before = interpreter.threads.size();
  for (Address thread = now.first; thread && interpreter.threads.size() < kMostThreads;
       thread = field<Address>(buffer_.data(), kLayout.thread_next)) {
    if (!memory_.read(thread, buffer_.data(), buffer_.size())) {
      is_complete = false;
      break;
    }
    const Known thread_key{thread, field<uint64_t>(buffer_.data(), kLayout.thread_id)};
    const auto owner = field<Address>(buffer_.data(), kLayout.thread_interpreter);
    if (owner != interpreter.address || thread_key.id > now.made) {  // the list changes under us
      is_complete = false;
      break;
    }
    const auto end = interpreter.threads.begin() + static_cast<ptrdiff_t>(known_before);
    if (std::find(interpreter.threads.begin(), end, thread_key) != end) {
      if (interpreter.search_all) continue;
      break;
    }
    const auto native_id = field<unsigned long>(buffer_.data(), kLayout.thread_native_id);
    if (native_id == 0) {  // it has not begun yet
      is_complete = false;
      continue;
    }
    ThreadPlaces& places = new_places.emplace_back();
    places.thread = thread;
    places.interpreter = interpreter.address;
    places.gil = interpreter.gil;
    places.id = thread_key.id;
    places.native_id = static_cast<pid_t>(native_id);
    interpreter.threads.push_back(thread_key);
  }
  if (is_complete) {
    interpreter.threads_made = now.made;
    interpreter.search_all = false;
  }
}

}  // namespace stepscope
