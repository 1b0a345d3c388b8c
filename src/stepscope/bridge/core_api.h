/* The C interface between the native core and a bridge that is compiled on the user's machine.
 * Plain C types only: the two sides may be built by different compilers and C++ libraries. */
#ifndef STEPSCOPE_CORE_API_H
#define STEPSCOPE_CORE_API_H

#include <stddef.h>
#include <stdint.h>

#define STEPSCOPE_CORE_API_VERSION 1

enum stepscope_kind { STEPSCOPE_OPERATOR = 1, STEPSCOPE_RANGE = 2 };
enum stepscope_flag { STEPSCOPE_BACKWARD = 4 };

/* A slice that has begun. The first words are the bridge's own, to build its context object in. */
struct stepscope_open_slice {
  void* client[2];
};

struct stepscope_begin {
  const char* name;
  /* Asked only for a name not seen before at its address: operators' names stay where they are. */
  const char* (*overload_of)(const void* function);
  const void* function;
  int64_t sequence;        /* -1: none */
  uint32_t thread;         /* the framework's own number of this thread */
  uint32_t forward_thread; /* 0: none */
  uint8_t kind;
  uint8_t flags;
};

struct stepscope_core_api {
  uint32_t version;
  /* NULL when nothing records. */
  struct stepscope_open_slice* (*begin)(const struct stepscope_begin* begin);
  /* Record the slice as ended now; release() follows. Both on whatever thread. */
  void (*end)(struct stepscope_open_slice* slice);
  /* The bridge's words are no longer in use. */
  void (*release)(struct stepscope_open_slice* slice);
};

#endif
