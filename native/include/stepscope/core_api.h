// The interface between the native core and a bridge that is compiled on the user's machine.
//
// Plain layouts only: the two sides may be built by different compilers and C++ libraries.
#pragma once

#include <cstddef>
#include <cstdint>

#include "stepscope/record.h"

#define STEPSCOPE_CORE_API_VERSION 10

/* Whether the text at a name's address is always the same. */
enum stepscope_name_kind {
  STEPSCOPE_NAME_UNKNOWN = 0,
  STEPSCOPE_NAME_LASTS = 1,  /* until names_changed() says otherwise: it is read once */
  STEPSCOPE_NAME_PASSES = 2, /* it was made for this call */
};

/* How the inputs of an operator are encoded, one after the other. Numbers are little-endian, a
 * count is 4 bytes. */
enum stepscope_input {
  STEPSCOPE_INPUT_OTHER = 0,
  STEPSCOPE_INPUT_TENSOR = 1,      /* type 1 byte, rank 1 byte, sizes and strides 8 bytes each */
  STEPSCOPE_INPUT_TENSOR_LIST = 2, /* count, then the tensors, each with its own mark */
  STEPSCOPE_INPUT_INT = 3,         /* 8 bytes */
  STEPSCOPE_INPUT_DOUBLE = 4,      /* 8 bytes */
  STEPSCOPE_INPUT_BOOL = 5,        /* 1 byte */
  STEPSCOPE_INPUT_INT_LIST = 6,    /* count, values */
  STEPSCOPE_INPUT_DOUBLE_LIST = 7,
  STEPSCOPE_INPUT_BOOL_LIST = 8,
  STEPSCOPE_INPUT_SIZED = 9,      /* a tensor without strides (a sparse one): type, rank, sizes */
  STEPSCOPE_INPUT_KEYWORD = 10,   /* the name of the value that follows: a text */
  STEPSCOPE_INPUT_TEXT = 11,      /* of a keyword: count, bytes */
  STEPSCOPE_INPUT_TEXT_LIST = 12, /* of a keyword: count, then the texts, each with its own mark */
};

/* A slice that has begun. The first word is the bridge's own, to build its context object in; the
   core never writes it. */
struct stepscope_open_slice {
  void* client;
};

struct stepscope_begin {
  const char* name;
  const void* function;
  /* Both are asked only for a name that is not known to last at its address; no name_kind: the name
     was made for this call. An overload of NULL: do not record this function. */
  uint8_t (*name_kind)(const void* function);
  const char* (*overload)(const void* function);
  const char* inputs; /* encoded */
  size_t inputs_size; /* 0: not asked for */
  uint32_t thread;    /* the framework's own number of this thread */
  /* All but the label, detail, context and stack, which the core finds. */
  stepscope::SliceFacts facts;
};

namespace stepscope {
struct Lane;
}  // namespace stepscope

struct stepscope_core_api {
  uint32_t version;
  /* For the fast path, see lane.h. The lane of the calling thread, NULL when it is already shutting
     down; the slot is cleared when it does. */
  stepscope::Lane* (*lane)(stepscope::Lane** slot);
  /* The label of a name that is not known to last at its address, and the number of an operator's
     encoded inputs. Both only while the lane is inside and open. */
  uint32_t (*label)(stepscope::Lane* lane, const struct stepscope_begin* what);
  uint32_t (*inputs)(stepscope::Lane* lane, const char* encoded, size_t size);
  /* NULL when nothing records. */
  struct stepscope_open_slice* (*begin)(const struct stepscope_begin* begin);
  /* Record the slice as ended now, on whatever thread; it may be given out again from here on. */
  void (*end)(struct stepscope_open_slice* slice);
  /* The encoded inputs of the operator that the calling thread began last: of one that is looked at
     more closely than most. */
  void (*sampled_inputs)(const char* encoded, size_t size);
  /* An operator that began at a time uses the data of a tensor. */
  void (*tensor_used)(const stepscope::TensorUse* use, uint64_t ticks);
  /* The time now. */
  uint64_t (*ticks)(void);
  /* A name that was said to last is gone: another may come to stand at its address. */
  void (*names_changed)(void);
  /* A block of memory was handed out, or is about to be given back. */
  void (*allocated)(const void* address, size_t bytes, uint8_t device_type, int8_t device_index);
  void (*released)(const void* address);
  /* The same, by an allocator that keeps its own books: signed bytes, and its totals after it. */
  void (*memory_changed)(const void* address, int64_t bytes, int64_t allocated, int64_t reserved,
                         uint8_t device_type, int8_t device_index);
  /* A block of memory that is one of many, and is held for as many bytes of them; and that it is
     about to be given back. On the thread that does so. */
  void (*block_sampled)(const void* address, int64_t bytes, uint8_t device_type,
                        int8_t device_index);
  void (*sampled_block_released)(const void* address);
  /* What the type of a tensor is called; tells the encoded number's meaning. */
  void (*name_type)(uint8_t type, const char* name);
  /* Make every other thread pass a full barrier, or see the fence that its lane says it needs. */
  void (*order_with_others)(void);
};
