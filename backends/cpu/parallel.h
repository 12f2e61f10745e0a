/* The one door for parallel work on the CPU. */
#ifndef LO_CPU_PARALLEL_H
#define LO_CPU_PARALLEL_H

#include "common/context.h"

/* How a context gets on with the machine's other work. OpenMP's threads spin while they wait (gcc's
 * for some 10 ms); where others hold the cores, a region lasts as long as the scheduler's turn of
 * the thread that is waited for, and two threads were seen to be 16 times slower than one. So where
 * regions last far longer than their work should, the context works alone for a while: from 20 ms,
 * doubled each time that the next try ends the same way, to 1 s. */
typedef struct lo_crowd {
  double expected;            /* ns of the region that lo_parallel_width was last asked about */
  int64_t alone_until, alone; /* ns of the monotonic clock; ns */
  int late;                   /* regions in a row that lasted too long */
} lo_crowd;

/* Threads that a context may use: open_args.threads, else OMP_NUM_THREADS, else the cores it may
 * have. */
int lo_parallel_limit(const layerops_open_args *args);

/* Among how many tasks work of about `ns` nanoseconds on one core should be divided: 1 where
 * threads would not pay or cannot be used. */
int lo_parallel_width(layerops_context *ctx, double ns);

/* Runs body(arg, i) for each i in [0, n), on as many threads as lo_parallel_width says for n tasks:
 * OpenMP's, or the caller's own (open_args.parallel). All of them run under the floating-point
 * modes of the caller. */
void lo_parallel(layerops_context *ctx, int64_t n, void (*body)(void *arg, int64_t i), void *arg);

/* The part [*begin, *end) of [0, total) that belongs to task i of n: contiguous, sizes differ by at
 * most 1. */
static inline void lo_share(int64_t total, int64_t n, int64_t i, int64_t *begin, int64_t *end) {
  int64_t each = total / n, more = total % n;
  *begin = i * each + (i < more ? i : more);
  *end = *begin + each + (i < more);
}

#endif
