/* The system's permission for AMX. Its registers are 8 KB more for each thread's context and signal
 * frame, so that Linux gives them to a process only on request; what does not use them should not
 * ask. Children inherit the permission. */
#include <config.h>

#include <pthread.h>
#include <stdbool.h>

#include "backends/cpu/cpu.h"

#if defined __linux__ && defined __x86_64__
#include <sys/syscall.h>
#include <unistd.h>

enum { ARCH_REQ_XCOMP_PERM = 0x1023, TILE_DATA = 18 };

static bool granted;

static void ask(void) {
  granted = syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, TILE_DATA) == 0;
}

const char *lo_refuses_amx(layerops_context *ctx, const void *problem) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  const lo_grouped_shape *shape = problem;
  (void)ctx;
  if (shape->n <= 4) return "n is so small that dot tiles are quicker";
  if (shape->k_bytes <= 4 * LO_GROUPED_SHORT) return "k is so short that w fits into registers";
  pthread_once(&once, ask);
  return granted ? NULL : "the system does not grant the tile registers";
}

#else

const char *lo_refuses_amx(layerops_context *ctx, const void *problem) {
  (void)ctx, (void)problem;
  return "this system is not asked for the tile registers";
}

#endif
