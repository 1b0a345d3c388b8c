/* A CUPTI for machines without a device: whoever asks for a kind of record gets one of it when the
 * buffers are flushed, laid out as CUPTI's headers have it. With ONE, it is of before CUDA 13.3;
 * with BUSY, another tool is subscribed and allows nobody else; with DEAF, it tells of no graph's
 * nodes of that kind. */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

typedef void* subscriber;
struct params { size_t size; const char* name; char* other; size_t other_bytes; uint8_t several; };
typedef void (*requested)(uint8_t**, size_t*, size_t*, void*);
typedef void (*completed)(uint8_t*, size_t, size_t, void*);

static struct {
  requested request;
  completed complete;
  void (*complete_alone)(void*, uint32_t, uint8_t*, size_t, size_t);
  uint64_t (*clock)(void);
  int on[64], several, subscribed, asked_alone;
} state;
static const struct { uint32_t kind, bytes; } records[] = {{10, 160}, {36, 56}, {38, 56}, {49, 80}, {50, 72}};

static void put32(uint8_t* at, size_t offset, uint32_t value) { memcpy(at + offset, &value, 4); }
static void put64(uint8_t* at, size_t offset, uint64_t value) { memcpy(at + offset, &value, 8); }

static void fill(uint8_t* at, uint32_t kind, uint64_t now) {
  static const char name[] = "some_kernel";
  put32(at, 0, kind);
  switch (kind) {
    case 10: /* CUpti_ActivityKernel */
      put64(at, 16, now), put64(at, 24, now + 1), put32(at, 40, 1), put32(at, 44, 5), put32(at, 48, 7);
      put32(at, 92, 11), put64(at, 104, (uint64_t)(uintptr_t)name);
      put64(at, 144, 0x9000), put32(at, 156, 3); /* of a graph */
      break;
    case 36: /* CUpti_ActivityCudaEvent2 */
      put32(at, 4, 12), put32(at, 8, 5), put32(at, 12, 7), put32(at, 16, 33), put32(at, 24, 1), put64(at, 48, 70);
      break;
    case 38: /* CUpti_ActivitySynchronization2: a stream waits for an event */
      put32(at, 4, 2), put64(at, 8, now), put64(at, 16, now + 1), put32(at, 24, 13), put32(at, 28, 5);
      put32(at, 32, 9), put32(at, 36, 33), put64(at, 40, 70);
      break;
    case 49: /* CUpti_ActivityMemory4 */
      put32(at, 4, 1), put32(at, 8, 3), put32(at, 12, 14), put64(at, 16, 0x7000), put64(at, 24, 4096);
      put64(at, 32, now), put32(at, 52, 1), put32(at, 60, 0xFFFFFFFF);
      break;
    case 50: /* CUpti_ActivityMemoryPool3 */
      put32(at, 4, 3), put32(at, 12, 15), put32(at, 20, 1), put64(at, 32, 0x8000), put64(at, 40, 1 << 20), put64(at, 56, now);
  }
}

int cuptiGetVersion(uint32_t* version) { *version = 130300; return 0; }
int cuptiGetResultString(int result, const char** text) { *text = result == 39 ? "MULTIPLE" : "ERROR"; return 0; }
int cuptiGetCallbackName(uint32_t domain, uint32_t function, const char** name) { return 1; }
int cuptiActivityRegisterCallbacks(void* request, void* complete) {
  state.request = (requested)request; /* the last argument is not looked at */
  state.complete_alone = (void (*)(void*, uint32_t, uint8_t*, size_t, size_t))complete;
  ++state.asked_alone;
  return 0;
}
int cuptiActivityRegisterTimestampCallback(uint64_t (*clock)(void)) { state.clock = clock; return 0; }
int cuptiActivityEnable(uint32_t kind) { state.on[kind] = 1; return 0; }
int cuptiActivityDisable(uint32_t kind) { state.on[kind] = 0; return 0; }
static int next(uint8_t* buffer, size_t valid, uint8_t** record) {
  uint8_t* at = *record ? *record : buffer;
  if (*record) {
    uint32_t kind, i = 0;
    memcpy(&kind, at, 4);
    while (records[i].kind != kind) ++i;
    at += records[i].bytes;
  }
  if (at >= buffer + valid) return 12;
  *record = at;
  return 0;
}
int cuptiActivityGetNextRecord(uint8_t* buffer, size_t valid, uint8_t** record) { return next(buffer, valid, record); }
int cuptiActivityGetNumDroppedRecords(void* context, uint32_t stream, size_t* dropped) { *dropped = 0; return 0; }
int cuptiActivityEnableAllSyncRecords(uint8_t enable) { return 0; }
int cuptiActivityFlushAll(uint32_t flags) {
  uint8_t* buffer = NULL;
  size_t size = 0, most = 0, used = 0;
  if (flags || !state.request) return 0;
  state.request(&buffer, &size, &most, NULL);
  for (size_t i = 0; i < sizeof(records) / sizeof(*records); ++i) {
    if (!state.on[records[i].kind]) continue;
    memset(buffer + used, 0, records[i].bytes);
    fill(buffer + used, records[i].kind, state.clock());
    used += records[i].bytes;
  }
  if (state.several) state.complete(buffer, size, used, NULL);
  else state.complete_alone(NULL, 0, buffer, size, used);
  return 0;
}
int cuptiUnsubscribe(subscriber who) {
  --state.subscribed;
  if (state.several) state.several = 0, state.request = NULL;
  return 0;
}
int cuptiSubscribe(subscriber* who, void* callback, void* user) { ++state.subscribed; *who = &state; return 0; }
int cuptiGetGraphNodeId(void* node, uint64_t* id) { return 0; }
int cuptiEnableCallback(uint32_t enable, subscriber who, uint32_t domain, uint32_t what) {
#ifdef DEAF
  return what == DEAF;
#endif
  return 0;
}
int stub_subscribed(void) { return state.subscribed; }
int stub_asked_alone(void) { return state.asked_alone; }
#ifndef ONE
int cuptiSubscribe_v2(subscriber* who, void* callback, void* user, struct params* params) {
  if (params->size != 40 || !params->several) return 1;
#ifdef BUSY
  snprintf(params->other, params->other_bytes, "CUPTI for Other");
  return 39;
#endif
  state.several = ++state.subscribed;
  *who = &state;
  return 0;
}
int cuptiActivityRegisterCallbacks_v2(subscriber who, requested request, completed complete) {
  state.request = request, state.complete = complete;
  return who != &state;
}
int cuptiActivityEnable_v2(subscriber who, uint32_t kind, void* config) { state.on[kind] = 1; return who != &state; }
int cuptiActivityDisable_v2(subscriber who, uint32_t kind, void* config) { state.on[kind] = 0; return who != &state; }
int cuptiActivityGetNextRecord_v2(subscriber who, uint8_t* buffer, size_t valid, uint8_t** record) {
  return who == &state ? next(buffer, valid, record) : 1;
}
int cuptiActivityGetNumDroppedRecords_v2(subscriber who, void* context, uint32_t stream, size_t* dropped) { *dropped = 0; return 0; }
int cuptiActivitySetAttribute_v2(subscriber who, uint32_t attribute, size_t* bytes, void* value) {
  if (attribute == 22 && *bytes == sizeof(void*)) memcpy(&state.clock, value, sizeof(void*));
  return 0;
}
int cuptiActivityEnableRuntimeApi_v2(subscriber who, uint32_t function, uint8_t enable) { return 0; }
int cuptiActivityEnableDriverApi_v2(subscriber who, uint32_t function, uint8_t enable) { return 0; }
#endif
