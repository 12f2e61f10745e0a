#include <config.h>

#include <pthread.h>
#include <stdatomic.h>

#include "common/process.h"

static atomic_uint generation;

static void in_child(void) {
  atomic_fetch_add(&generation, 1);
}
static void install(void) {
  pthread_atfork(NULL, NULL, in_child);
}

unsigned lo_fork_generation(void) {
  return atomic_load_explicit(&generation, memory_order_relaxed);
}

void lo_watch_forks(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, install);
}
