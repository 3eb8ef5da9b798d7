/* Preloaded by a test: the wall clock of one process, moved by the nanoseconds that a file holds.
 * Only clock_gettime(CLOCK_REALTIME) moves; every other clock, and every timer, stays. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

static const volatile int64_t *moved_ns;

static void open_file(void)
{
  const char *path = getenv("VIG_TEST_WALL_CLOCK");
  int file = path == NULL ? -1 : open(path, O_RDONLY | O_CLOEXEC);
  if (file >= 0) {
    void *memory = mmap(NULL, sizeof(int64_t), PROT_READ, MAP_SHARED, file, 0);
    moved_ns = memory == MAP_FAILED ? NULL : memory;
    close(file);
  }
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
  static int (*real)(clockid_t, struct timespec *);
  if (real == NULL) {
    open_file();
    real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
  }
  int result = real(clock, now);
  if (result == 0 && clock == CLOCK_REALTIME && moved_ns != NULL) {
    int64_t total = now->tv_sec * INT64_C(1000000000) + now->tv_nsec + *moved_ns;
    now->tv_sec = total / INT64_C(1000000000);
    now->tv_nsec = total % INT64_C(1000000000);
  }
  return result;
}
