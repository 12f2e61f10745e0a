/* The tasks are the same whoever runs them, and so are the bits. */
#include <config.h>

#include <stdlib.h>
#include <string.h>

#if defined _OPENMP
#include <omp.h>
#endif

#include "backends/cpu/cpu.h"
#include "backends/cpu/modes.h"
#include "backends/cpu/team.h"
#include "backends/cpu/wait.h"
#include "common/process.h"

typedef struct work {
  void (*body)(void *arg, int64_t i);
  void *arg;
  lo_modes caller;
} work;

/* This thread is running a task. */
static _Thread_local bool inside;

static void run(void *pointer, int64_t i) {
  const work *w = pointer;
  const lo_modes own = lo_get_modes();
  const bool before = inside;
  inside = true;
  lo_set_modes(w->caller);
  w->body(w->arg, i);
  lo_set_modes(own);
  inside = before;
}

/* ---- The ways ---- */

struct lo_parallel_way {
  const char *name; /* in LAYEROPS_CPU_PARALLEL */
  double least;     /* ns of work for each thread, below which dividing it does not pay at best */
  void (*run)(layerops_context *ctx, int64_t n, work *w);
};

/* At the first region, the second, the fourth, ...: until the team was there and awake for once. */
static void learn(lo_cpu *cpu) {
  if (cpu->hand_over > 0) return;
  const uint64_t before = cpu->regions++;
  if (!(before & cpu->regions) && lo_team_awake(cpu->team))
    cpu->hand_over = (double)lo_team_hand_over(cpu->team);
}

static void run_by_team(layerops_context *ctx, int64_t n, work *w) {
  lo_cpu *cpu = lo_cpu_of(ctx);
  if (!cpu->team) cpu->team = lo_team_start(cpu->threads - 1, cpu->bind);
  if (cpu->team) learn(cpu);
  if (cpu->team)
    lo_team_run(cpu->team, n, run, w);
  else
    for (int64_t i = 0; i < n; i++) run(w, i);
}

static void run_by_caller(layerops_context *ctx, int64_t n, work *w) {
  ctx->args.parallel(ctx->args.parallel_user, n, run, w);
}

#if defined _OPENMP
/* The fork generation + 1 of the process that last ran an OpenMP region; 0: none did. In its
 * children libgomp waits for ever for threads that fork did not copy. */
static atomic_uint last_region;

static bool forked_from_region(void) {
  unsigned used = atomic_load_explicit(&last_region, memory_order_relaxed);
  return used && used != lo_fork_generation() + 1;
}

static void run_by_openmp(layerops_context *ctx, int64_t n, work *w) {
  (void)ctx;
  atomic_store_explicit(&last_region, lo_fork_generation() + 1, memory_order_relaxed);
#pragma omp parallel for schedule(static, 1) num_threads((int)n)
  for (int64_t i = 0; i < n; i++) run(w, i);
}
#endif

static const lo_parallel_way ways[] = {
    {"threads", 1000, run_by_team}, /* awake; else see worth_waking */
#if defined _OPENMP
    {"openmp", 5000, run_by_openmp}, /* a region costs 3 us */
#endif
};
static const lo_parallel_way callers = {"", 5000, run_by_caller};
enum { WAYS = sizeof ways / sizeof *ways };

layerops_status lo_parallel_choose(const layerops_open_args *args, const lo_parallel_way **way) {
  const char *wanted = getenv("LAYEROPS_CPU_PARALLEL");
  int i = 0;
  if (wanted && *wanted)
    while (i < WAYS && strcmp(wanted, ways[i].name)) i++;
  if (i == WAYS)
    return lo_fail(LAYEROPS_ERROR_INVALID,
                   "open: LAYEROPS_CPU_PARALLEL is \"%s\"; this build has: threads%s", wanted,
                   WAYS > 1 ? " openmp" : "");
  *way = args->parallel ? &callers : &ways[i];
  return LAYEROPS_OK;
}

/* ---- How many, and where ---- */

/* More threads than the machine can run at once are of use to tests. */
enum { THREADS = 64 };

int lo_parallel_limit(const layerops_open_args *args) {
  const char *variable = getenv("OMP_NUM_THREADS"); /* "4", or "4,2": by levels of nesting */
  const long openmp = variable ? strtol(variable, NULL, 10) : 0;
  const int64_t wanted = args->threads ? args->threads : openmp;
  if (wanted <= 0) return lo_topology_threads();
  if (wanted <= THREADS || args->parallel) return (int)lo_least(wanted, 4096);
  return (int)lo_least(wanted, lo_most(lo_topology_hardware_threads(), THREADS));
}

static const char *const binds[LAYEROPS_BIND_COUNT] = {"", "none", "compact", "spread"};

static layerops_status bind_wanted(const layerops_open_args *args, layerops_bind *bind) {
  const char *wanted = getenv("LAYEROPS_CPU_BIND");
  *bind = (layerops_bind)args->bind;
  if (*bind != LAYEROPS_BIND_DEFAULT) return LAYEROPS_OK;
  *bind = LAYEROPS_BIND_NONE;
  if (!wanted || !*wanted || args->parallel) return LAYEROPS_OK;
  while (*bind < LAYEROPS_BIND_COUNT && strcmp(wanted, binds[*bind])) (*bind)++;
  if (*bind < LAYEROPS_BIND_COUNT) return LAYEROPS_OK;
  return lo_fail(LAYEROPS_ERROR_INVALID,
                 "open: LAYEROPS_CPU_BIND is \"%s\"; there are: none compact spread", wanted);
}

layerops_status lo_parallel_bind(const layerops_open_args *args, const lo_parallel_way *way,
                                 layerops_bind *bind) {
  LO_TRY(bind_wanted(args, bind));
  if (*bind == LAYEROPS_BIND_NONE) return LAYEROPS_OK;
  if (way->run != run_by_team)
    return lo_fail(LAYEROPS_ERROR_INVALID,
                   "open: bind is %s, but the threads are not the context's own: they come from %s",
                   binds[*bind], args->parallel ? "open_args.parallel" : "OpenMP");
  if (!lo_topology_binds())
    return lo_fail(LAYEROPS_ERROR_UNSUPPORTED,
                   "open: bind is %s, but this system cannot bind threads", binds[*bind]);
  return LAYEROPS_OK;
}

/* ---- Whether and where ---- */

static bool alone(layerops_context *ctx) {
  const lo_cpu *cpu = lo_cpu_of(ctx);
  if (cpu->threads == 1 || inside) return true;
  if (cpu->way == &callers) return false;
#if defined _OPENMP
  if (omp_in_parallel()) return true;
  if (cpu->way->run == run_by_openmp) return forked_from_region();
#endif
  return ctx->fork_generation != lo_fork_generation();
}

/* Waking a worker takes the caller some 7 us, and the worker comes 20 us later: only for work that
 * is long, or that comes thick and fast. */
static bool worth_waking(lo_cpu *cpu, double ns) {
  if (ns > 25000) return true;
  const int64_t now = lo_now(), since = now - cpu->last_short;
  cpu->last_short = now;
  return since < LO_SPIN_NS;
}

/* A hand-over of two numbers is 0.15 us between cores that share a cache, and more than 0.5 us
 * between others. One of work costs between three and four times that: the work's description, the
 * operands and the result move too. */
double lo_parallel_least(layerops_context *ctx) {
  const lo_cpu *cpu = lo_cpu_of(ctx);
  const double learnt = 4 * cpu->hand_over;
  return learnt > cpu->way->least ? learnt : cpu->way->least;
}

int lo_parallel_width(layerops_context *ctx, double ns) {
  lo_cpu *cpu = lo_cpu_of(ctx);
  const double least = lo_parallel_least(ctx);
  if (ns < 2 * least || alone(ctx)) return 1;
  const bool asleep = cpu->way->run == run_by_team && !(cpu->team && lo_team_awake(cpu->team));
  if (asleep && !worth_waking(cpu, ns)) return 1;
  return ns / least < cpu->threads ? (int)(ns / least) : cpu->threads;
}

void lo_parallel(layerops_context *ctx, int64_t n, void (*body)(void *arg, int64_t i), void *arg) {
  if (n <= 1 || alone(ctx)) {
    for (int64_t i = 0; i < n; i++) body(arg, i);
    return;
  }
  work w = {body, arg, lo_get_modes()};
  lo_cpu_of(ctx)->way->run(ctx, n, &w);
}
