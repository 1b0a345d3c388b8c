// Loaded before the C library: makes one call that touches a folder fail, and counts them all.
//
// Calls count when their path is below FAIL_BELOW, or their descriptor was opened there. With
// FAIL_AT=n and FAIL_ERRNO=e, call n fails with e, once; fail_arm() sets both anew.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

enum { kDescriptors = 4096 };

static char below[4096];
static size_t below_length;
static unsigned char ours[kDescriptors];
static int calls;
static int fail_at = -1;
static int fail_errno;

void fail_arm(int at, int error) {
  __atomic_store_n(&calls, 0, __ATOMIC_SEQ_CST);
  fail_at = at;
  fail_errno = error;
}

int fail_calls(void) { return __atomic_load_n(&calls, __ATOMIC_SEQ_CST); }

__attribute__((constructor)) static void begin(void) {
  const char* folder = getenv("FAIL_BELOW");
  if (folder != NULL && folder[0] == '/') {
    strncpy(below, folder, sizeof below - 1);
    below_length = strlen(below);
  }
  const char* at = getenv("FAIL_AT");
  const char* error = getenv("FAIL_ERRNO");
  if (at != NULL && error != NULL) fail_arm(atoi(at), atoi(error));
}

// How many calls there were, for whoever started the process.
__attribute__((destructor)) static void end(void) {
  const char* report = getenv("FAIL_REPORT");
  FILE* file = report == NULL ? NULL : fopen(report, "w");
  if (file == NULL) return;
  fprintf(file, "%d", fail_calls());
  fclose(file);
}

static int is_below(int folder, const char* path) {
  if (below_length == 0 || path == NULL) return 0;
  if (path[0] == '/') return strncmp(path, below, below_length) == 0;
  char place[4096];
  if (folder == AT_FDCWD) {
    if (getcwd(place, sizeof place) == NULL) return 0;
  } else {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", folder);
    const ssize_t size = readlink(link, place, sizeof place - 1);
    if (size < 0) return 0;
    place[size] = 0;
  }
  return strncmp(place, below, below_length) == 0;
}

// Whether this call is the one that fails.
static int fails(int counts) {
  if (!counts) return 0;
  const int number = __atomic_fetch_add(&calls, 1, __ATOMIC_SEQ_CST);
  if (number != fail_at) return 0;
  errno = fail_errno;
  return 1;
}

static int has(int descriptor) {
  return descriptor >= 0 && descriptor < kDescriptors && ours[descriptor];
}

#define REAL(name)                        \
  static __typeof__(&(name)) real = NULL; \
  if (real == NULL) real = (__typeof__(&(name)))dlsym(RTLD_NEXT, #name)

#define OPEN(name)                                                            \
  int name(const char* path, int flags, ...) {                                \
    REAL(name);                                                               \
    va_list more;                                                             \
    va_start(more, flags);                                                    \
    const mode_t mode = va_arg(more, mode_t);                                 \
    va_end(more);                                                             \
    const int counts = is_below(AT_FDCWD, path);                              \
    if (fails(counts)) return -1;                                             \
    const int file = real(path, flags, mode);                                 \
    if (file >= 0 && file < kDescriptors) ours[file] = (unsigned char)counts; \
    return file;                                                              \
  }
OPEN(open)
OPEN(open64)

#define OPEN_AT(name)                                                         \
  int name(int folder, const char* path, int flags, ...) {                    \
    REAL(name);                                                               \
    va_list more;                                                             \
    va_start(more, flags);                                                    \
    const mode_t mode = va_arg(more, mode_t);                                 \
    va_end(more);                                                             \
    const int counts = is_below(folder, path);                                \
    if (fails(counts)) return -1;                                             \
    const int file = real(folder, path, flags, mode);                         \
    if (file >= 0 && file < kDescriptors) ours[file] = (unsigned char)counts; \
    return file;                                                              \
  }
OPEN_AT(openat)
OPEN_AT(openat64)

int close(int file) {
  REAL(close);
  if (file >= 0 && file < kDescriptors) ours[file] = 0;
  return real(file);
}

ssize_t write(int file, const void* data, size_t size) {
  REAL(write);
  return fails(has(file)) ? -1 : real(file, data, size);
}

ssize_t writev(int file, const struct iovec* parts, int count) {
  REAL(writev);
  return fails(has(file)) ? -1 : real(file, parts, count);
}

ssize_t read(int file, void* data, size_t size) {
  REAL(read);
  return fails(has(file)) ? -1 : real(file, data, size);
}

int fsync(int file) {
  REAL(fsync);
  return fails(has(file)) ? -1 : real(file);
}

int mkdir(const char* path, mode_t mode) {
  REAL(mkdir);
  return fails(is_below(AT_FDCWD, path)) ? -1 : real(path, mode);
}

int mkdirat(int folder, const char* path, mode_t mode) {
  REAL(mkdirat);
  return fails(is_below(folder, path)) ? -1 : real(folder, path, mode);
}

int rename(const char* from, const char* to) {
  REAL(rename);
  return fails(is_below(AT_FDCWD, to)) ? -1 : real(from, to);
}

int renameat(int from_folder, const char* from, int to_folder, const char* to) {
  REAL(renameat);
  return fails(is_below(to_folder, to)) ? -1 : real(from_folder, from, to_folder, to);
}

int unlink(const char* path) {
  REAL(unlink);
  return fails(is_below(AT_FDCWD, path)) ? -1 : real(path);
}

int unlinkat(int folder, const char* path, int flags) {
  REAL(unlinkat);
  return fails(is_below(folder, path)) ? -1 : real(folder, path, flags);
}

int rmdir(const char* path) {
  REAL(rmdir);
  return fails(is_below(AT_FDCWD, path)) ? -1 : real(path);
}
