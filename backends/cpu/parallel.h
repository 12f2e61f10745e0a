/* The one door for parallel work on the CPU. */
#ifndef LO_CPU_PARALLEL_H
#define LO_CPU_PARALLEL_H

#include "common/context.h"

/* Who runs the tasks: the context's own team of threads (team.h), OpenMP
 * (LAYEROPS_CPU_PARALLEL=openmp), or the caller (open_args.parallel). */
typedef struct lo_parallel_way lo_parallel_way;

layerops_status lo_parallel_choose(const layerops_open_args *args, const lo_parallel_way **way);

/* Threads that a context may use: open_args.threads, else OMP_NUM_THREADS, else the cores it may
 * have. */
int lo_parallel_limit(const layerops_open_args *args);

/* Where a context's threads run, as open_args.bind or LAYEROPS_CPU_BIND say. */
layerops_status lo_parallel_bind(const layerops_open_args *args, const lo_parallel_way *way,
                                 layerops_bind *bind);

/* Among how many tasks work of about `ns` nanoseconds on one core should be divided: 1 where
 * threads would not pay or cannot be used. */
int lo_parallel_width(layerops_context *ctx, double ns);

/* ns of work for each thread of a region, below which it does not pay. */
double lo_parallel_least(layerops_context *ctx);

/* Runs body(arg, i) for each i in [0, n), on as many threads as lo_parallel_width says for n tasks,
 * all under the floating-point modes of the caller. Inside a task, in an OpenMP region of the
 * caller's, and in a child that inherited the context by fork, the caller runs them alone. */
void lo_parallel(layerops_context *ctx, int64_t n, void (*body)(void *arg, int64_t i), void *arg);

/* The part [*begin, *end) of [0, total) that belongs to task i of n: contiguous, sizes differ by at
 * most 1. */
static inline void lo_share(int64_t total, int64_t n, int64_t i, int64_t *begin, int64_t *end) {
  int64_t each = n == 1 ? total : total / n, more = total - each * n;
  *begin = i * each + (i < more ? i : more);
  *end = *begin + each + (i < more);
}

#endif
