#include "core/own_threads.h"

#include <csignal>
#include <utility>

namespace stepscope {

bool Worker::begin(void* (*run)(void*), void* self, size_t stack_bytes) {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  for (const int own : {SIGSEGV, SIGBUS, SIGFPE, SIGILL}) sigdelset(&all, own);  // our own faults
  pthread_attr_t about;
  pthread_attr_init(&about);
  if (stack_bytes) pthread_attr_setstacksize(&about, stack_bytes);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  const bool is_started = pthread_create(&thread_, &about, run, self) == 0;
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  pthread_attr_destroy(&about);
  if (is_started) started_in_ = getpid();
  return is_started;
}

void Worker::join() {
  if (std::exchange(started_in_, 0) == getpid()) pthread_join(thread_, nullptr);
}

}  // namespace stepscope
