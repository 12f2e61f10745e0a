/* An OpenMP region costs about 3 us; in a child whose parent ran one, libgomp waits for threads
 * that fork did not copy, for ever. So work below some 10 us, and all work in such a child or in a
 * region that is already parallel, stays on the caller. The tasks are the same either way, and so
 * are the bits. */
#include <config.h>

#include <omp.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

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

/* ---- A crowded machine ---- */

static int64_t now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* A region that lasted `elapsed` ns. An estimate may be far off and a page fault comes in between,
 * so it takes two in a row, each 16 times and a millisecond over. */
static void judge(lo_crowd *crowd, int64_t end, int64_t elapsed) {
  const int64_t shortest = 20000000, longest = 1000000000;
  if ((double)elapsed < 16 * crowd->expected + 1000000) {
    crowd->late = 0;
    crowd->alone = 0;
  } else if (++crowd->late >= 2) {
    crowd->alone = crowd->alone ? 2 * crowd->alone : shortest;
    if (crowd->alone > longest) crowd->alone = longest;
    crowd->alone_until = end + crowd->alone;
    crowd->late = 1; /* one more decides after the pause */
  }
}

int lo_parallel_width(layerops_context *ctx, double ns) {
  const double least = 5000; /* ns of work for each thread */
  lo_cpu *cpu = lo_cpu_of(ctx);
  if (cpu->threads == 1 || ns < 2 * least) return 1;
  if (!ctx->args.parallel) {
    if (omp_in_parallel() || forked_from_region()) return 1;
    if (cpu->crowd.alone_until && now() < cpu->crowd.alone_until) return 1;
  }
  int width = ns / least < cpu->threads ? (int)(ns / least) : cpu->threads;
  cpu->crowd.expected = ns / width;
  return width;
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
  int64_t start = now();
#pragma omp parallel for schedule(static, 1) num_threads((int)n)
  for (int64_t i = 0; i < n; i++) run(&w, i);
  int64_t end = now();
  judge(&lo_cpu_of(ctx)->crowd, end, end - start);
}
