/* An OpenMP region costs about 3 us; in a child whose parent ran one, libgomp waits for threads
 * that fork did not copy, for ever. So work below some 10 us, and all work in such a child or in a
 * region that is already parallel, stays on the caller. The tasks are the same either way, and so
 * are the bits. */
#include <config.h>

#include <omp.h>
#include <stdatomic.h>
#include <stdlib.h>

#if defined __SSE__
#include <xmmintrin.h>
#endif

#include "backends/cpu/cpu.h"
#include "common/process.h"

/* The fork generation + 1 of the process that last ran a region; 0: none did. */
static atomic_uint last_region;

static bool forked_from_region(void) {
  unsigned used = atomic_load_explicit(&last_region, memory_order_relaxed);
  return used && used != lo_fork_generation() + 1;
}

int lo_parallel_limit(const layerops_open_args *args) {
  if (args->threads) return args->threads;
  int cores = lo_topology_threads(), openmp = omp_get_max_threads();
  const char *wanted = getenv("OMP_NUM_THREADS");
  if (wanted && *wanted) return openmp;
  return openmp < cores ? openmp : cores;
}

int lo_parallel_width(layerops_context *ctx, double ns) {
  const double least = 5000; /* ns of work for each thread */
  int threads = lo_cpu_of(ctx)->threads;
  if (threads == 1 || ns < 2 * least) return 1;
  if (!ctx->args.parallel && (omp_in_parallel() || forked_from_region())) return 1;
  double width = ns / least;
  return width < threads ? (int)width : threads;
}

/* ---- Floating-point modes: a worker does not inherit what the caller set ---- */

#if defined __SSE__
typedef unsigned modes;
static inline modes get_modes(void) {
  return _mm_getcsr();
}
static inline void set_modes(modes m) {
  _mm_setcsr(m);
}
#elif defined __aarch64__
typedef uint64_t modes;
static inline modes get_modes(void) {
  modes m;
  __asm__ volatile("mrs %0, fpcr" : "=r"(m));
  return m;
}
static inline void set_modes(modes m) {
  __asm__ volatile("msr fpcr, %0" : : "r"(m));
}
#else
typedef int modes;
static inline modes get_modes(void) {
  return 0;
}
static inline void set_modes(modes m) {
  (void)m;
}
#endif

typedef struct work {
  void (*body)(void *arg, int64_t i);
  void *arg;
  modes caller;
} work;

static void run(void *pointer, int64_t i) {
  const work *w = pointer;
  modes own = get_modes();
  set_modes(w->caller);
  w->body(w->arg, i);
  set_modes(own);
}

void lo_parallel(layerops_context *ctx, int64_t n, void (*body)(void *arg, int64_t i), void *arg) {
  if (n == 1) {
    body(arg, 0);
    return;
  }
  work w = {body, arg, get_modes()};
  if (ctx->args.parallel) {
    ctx->args.parallel(ctx->args.parallel_user, n, run, &w);
    return;
  }
  if (omp_in_parallel() || forked_from_region()) {
    for (int64_t i = 0; i < n; i++) body(arg, i);
    return;
  }
  atomic_store_explicit(&last_region, lo_fork_generation() + 1, memory_order_relaxed);
#pragma omp parallel for schedule(static, 1) num_threads((int)n)
  for (int64_t i = 0; i < n; i++) run(&w, i);
}
