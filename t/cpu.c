/* The CPU backend as a good citizen: instruction sets, threads, forks, stacks, floating-point
 * modes. */
#include <config.h>

#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* sched.h */
#endif

#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#if defined _OPENMP
#include <omp.h>
#endif
#if defined __SSE__
#include <xmmintrin.h>
#endif

#include "backends/cpu/topology.h"
#include "t/cpu_work.h"
#include "t/tap.h"

static layerops_context *open_threads(int threads) {
  layerops_open_args args = {.device = "cpu", .threads = threads};
  layerops_context *ctx = NULL;
  if (layerops_open_with(&args, &ctx)) diag("%s", layerops_last_error());
  return ctx;
}

static work run_threads(int threads) {
  layerops_context *ctx = open_threads(threads);
  work w = {.status = LAYEROPS_ERROR_STATE};
  if (ctx) w = work_run(ctx);
  layerops_close(ctx);
  return w;
}

/* What one thread computes: what all others are compared with. */
static work expected;

static int same_as_expected(work w) {
  int same = work_same(&w, &expected);
  work_free(&w);
  return same;
}

/* ---- Instruction sets ---- */

/* The kernel that multiplies the number 2, stored in a type, by itself. */
static const char *kernel_of(layerops_context *ctx, layerops_type type) {
  enum { N = 16, K = 64 }; /* large enough for every main loop */
  static float f32[K * N];
  static uint16_t bf16[K * N];
  static int8_t i8[K * N];
  float c[N] = {0};
  for (int i = 0; i < K * N; i++) {
    f32[i] = 2;
    bf16[i] = 0x4000;
    i8[i] = 2;
  }
  const void *two = type == LAYEROPS_F32  ? (const void *)f32
                    : type == LAYEROPS_I8 ? (const void *)i8
                                          : bf16;
  layerops_gemm_args args = {.a = layerops_host_matrix(two, type, 1, K),
                             .b = layerops_host_matrix(two, type, K, N),
                             .c = layerops_host_matrix(c, LAYEROPS_F32, 1, N)};
  return layerops_gemm(ctx, &args) == LAYEROPS_OK && c[N - 1] == 4 * K ? layerops_last_kernel(ctx)
                                                                       : "";
}

/* What each choice means for f32, bf16 and i8: the beginnings of the kernels' names. */
static void test_kernels(layerops_context *ctx, const char *isa) {
  static const layerops_type types[] = {LAYEROPS_F32, LAYEROPS_BF16, LAYEROPS_I8};
  static const char *const names[][4] = {{"amx", "avx512_", "amx_bf16", "amx_int8"},
                                         {"avx512_bf16", "avx512_", "avx512_bf16", "avx512_vnni"},
                                         {"avx512_vnni", "avx512_", "avx512_", "avx512_vnni"},
                                         {"avx512", "avx512_", "avx512_", "avx512_int8"},
                                         {"avx2", "avx2_", "avx2_", "avx2_int8"},
                                         {"neon", "neon_", "neon_", "neon_int8"},
                                         {"portable", "portable_", "portable_", "portable_int8"}};
  int known = 0;
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    if (strcmp(names[i][0], isa)) continue;
    known = 1;
    for (int t = 0; t < 3; t++) {
      const char *kernel = ctx ? kernel_of(ctx, types[t]) : "", *want = names[i][t + 1];
      ok(!strncmp(kernel, want, strlen(want)) && !strstr(kernel, "bf16") == !strstr(want, "bf16"),
         "LAYEROPS_CPU_ISA=%s: %s by %s", isa, layerops_type_name(types[t]), kernel);
    }
  }
  ok(known, "%s is an instruction set that this test knows", isa);
}

/* Sums of integers are exact, so that all instruction sets give the same bits. */
static void test_integers(layerops_context *ctx, const char *isa) {
  enum { M = 37, N = 45, K = 203 };
  static float first[M * N], y[M * N];
  static int seen;
  work w = work_new();
  int8_t *x = work_take(&w, M * K), *weights = work_take(&w, N * K);
  for (int i = 0; i < M * K; i++) x[i] = (int8_t)(work_number(&w) * 128);
  for (int i = 0; i < N * K; i++) weights[i] = (int8_t)(work_number(&w) * 128);
  layerops_linear_args args = {.x = layerops_host_matrix(x, LAYEROPS_I8, M, K),
                               .w = layerops_host_matrix(weights, LAYEROPS_I8, N, K),
                               .scale_x = work_f32(&w, 1, M),
                               .scale_w = work_f32(&w, 1, N),
                               .bias = work_f32(&w, 1, N),
                               .y = layerops_host_matrix(y, LAYEROPS_F32, M, N)};
  int good = ctx && layerops_linear_forward(ctx, &args) == LAYEROPS_OK;
  if (!seen++) memcpy(first, y, sizeof y);
  ok(good && !memcmp(first, y, sizeof y), "%s: integers have the bits of all instruction sets",
     isa);
  work_free(&w);
}

/* The same bits with any number of threads, on the instruction set that LAYEROPS_CPU_ISA now names.
 */
static void test_threads(const char *isa) {
  static const int threads[] = {2, 3, 7};
  work_free(&expected);
  expected = run_threads(1);
  ok(expected.status == LAYEROPS_OK, "%s: every operation runs", isa);
  if (expected.status) diag("%s", layerops_last_error());
  for (int i = 0; i < 3; i++)
    ok(same_as_expected(run_threads(threads[i])), "%s: %d threads give the bits of one", isa,
       threads[i]);
}

static void test_isas(void) {
  const char *before = getenv("LAYEROPS_CPU_ISA");
  char *kept = before ? strdup(before) : NULL, isas[128], *save, *isa;
  layerops_context *ctx = open_threads(1);
  layerops_device_info info = {0};
  ok(ctx && !layerops_context_info(ctx, &info), "cpu opens");
  layerops_close(ctx);
  diag("%s: %s", info.description, info.isa);
  memcpy(isas, info.isa, sizeof isas);
  ok(strstr(isas, "portable") != NULL, "every machine has the portable kernels");
  for (isa = strtok_r(isas, " ", &save); isa; isa = strtok_r(NULL, " ", &save)) {
    setenv("LAYEROPS_CPU_ISA", isa, 1);
    ctx = open_threads(1);
    test_kernels(ctx, isa);
    test_integers(ctx, isa);
    layerops_close(ctx);
    test_threads(isa);
  }
  setenv("LAYEROPS_CPU_ISA", "z80", 1);
  ok(layerops_open("cpu", &ctx) == LAYEROPS_ERROR_INVALID,
     "an unknown LAYEROPS_CPU_ISA is an error");
  ok(strstr(layerops_last_error(), "z80") && strstr(layerops_last_error(), info.isa),
     "it names the choices: %s", layerops_last_error());
  unsetenv("LAYEROPS_CPU_ISA");
  if (kept) setenv("LAYEROPS_CPU_ISA", kept, 1);
  free(kept);
  work_free(&expected);
  expected = run_threads(1);
}

/* A row's bits depend neither on the other rows nor on their number. */
static void test_rows_of(layerops_type type) {
  enum { M = 64, N = 96, K = 300 };
  static const int64_t rows[] = {1, 2, 13, 14, 15};
  layerops_context *ctx = open_threads(1);
  work w = work_new();
  layerops_linear_args args = {.x = work_cast(ctx, &w, type, work_f32(&w, M, K)),
                               .w = work_cast(ctx, &w, type, work_f32(&w, N, K)),
                               .y = work_output(&w, LAYEROPS_F32, M, N),
                               .activation = LAYEROPS_GELU_TANH,
                               .flags = LAYEROPS_BATCH_INVARIANT};
  int failed = layerops_linear_forward(ctx, &args) != LAYEROPS_OK;
  const char *all = args.y.host;
  for (int i = 0; i < 5; i++) {
    args.x.rows = rows[i];
    args.y = work_output(&w, LAYEROPS_F32, rows[i], N);
    failed += layerops_linear_forward(ctx, &args) != LAYEROPS_OK ||
              memcmp(args.y.host, all, (size_t)rows[i] * N * sizeof(float)) != 0;
  }
  ok(!failed, "%s: a row of 1, 2, 13, 14, 15 or 64 has the same bits", layerops_type_name(type));
  work_free(&w);
  layerops_close(ctx);
}

static void test_rows(void) {
  test_rows_of(LAYEROPS_F32);
  test_rows_of(LAYEROPS_F16);
  test_rows_of(LAYEROPS_BF16);
  test_rows_of(LAYEROPS_I8);
}

/* ---- Processes and threads ---- */

static uint64_t digest(const work *w) {
  uint64_t h = 14695981039346656037u + (uint64_t)w->status;
  for (size_t i = 0; i < w->used; i++) h = (h ^ (unsigned char)w->bytes[i]) * 1099511628211u;
  return h;
}

/* A child of a process that has not used the library yet; its results come through a pipe. */
static uint64_t fork_first(void) {
  int ends[2];
  uint64_t result = 0;
  if (pipe(ends)) return 0;
  pid_t child = fork();
  if (child == 0) {
    alarm(120);
    work w = run_threads(3);
    result = digest(&w);
    _exit(write(ends[1], &result, sizeof result) != sizeof result);
  }
  close(ends[1]);
  if (child < 0 || read(ends[0], &result, sizeof result) != sizeof result) result = 0;
  close(ends[0]);
  waitpid(child, NULL, 0);
  return result;
}

static void test_fork(const char *when) {
  fflush(stdout);
  pid_t child = fork();
  if (child == 0) {
    alarm(120); /* a hang ends here */
    _exit(same_as_expected(run_threads(3)) ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  ok(WIFEXITED(status) && WEXITSTATUS(status) == 0, "a child after fork computes the same, %s",
     when);
}

static void *fork_here(void *unused) {
  (void)unused;
  work w = run_threads(3);
  work_free(&w);
  test_fork("forked by another thread");
  return NULL;
}

#if defined _OPENMP
static void test_nested(int levels) {
  enum { TEAM = 4 };
  int team = 0, same = 0;
  omp_set_max_active_levels(levels);
#pragma omp parallel num_threads(TEAM) reduction(+ : team, same)
  {
    team += 1;
    same += same_as_expected(run_threads(3));
  }
  omp_set_max_active_levels(1);
  ok(same == team, "inside a parallel region, %d levels: %d of %d threads compute the same", levels,
     same, team);
}
#endif

static void *run_small(void *same) {
  *(int *)same = same_as_expected(run_threads(3));
  return NULL;
}

static void test_small_stack(void) {
  pthread_attr_t attributes;
  pthread_t thread;
  int same = 0;
  long least = sysconf(_SC_THREAD_STACK_MIN); /* 128 KB on some processors */
  const size_t size = least > 64 << 10 ? (size_t)least : 64 << 10;
  pthread_attr_init(&attributes);
  int refused = pthread_attr_setstacksize(&attributes, size);
  ok(!refused && !pthread_create(&thread, &attributes, run_small, &same) &&
         !pthread_join(thread, NULL) && same,
     "%zu KB of stack are enough", size >> 10);
  pthread_attr_destroy(&attributes);
}

/* ---- The caller's own threads ---- */

typedef struct pool {
  atomic_int calls, tasks, wrong_modes;
} pool;

typedef struct one {
  pool *pool;
  void (*body)(void *arg, int64_t i);
  void *arg;
  int64_t i;
} one;

static unsigned modes(void) {
#if defined __SSE__
  return _mm_getcsr();
#else
  return 0;
#endif
}

static void *run_one(void *pointer) {
  one *o = pointer;
  unsigned before = modes();
  o->body(o->arg, o->i);
  atomic_fetch_add(&o->pool->wrong_modes, modes() != before);
  atomic_fetch_add(&o->pool->tasks, 1);
  return NULL;
}

/* Each task on a thread of its own, the last first. */
static void run_in_pool(void *user, int64_t n, void (*body)(void *arg, int64_t i), void *arg) {
  one tasks[16];
  pthread_t threads[16];
  pool *p = user;
  atomic_fetch_add(&p->calls, 1);
  for (int64_t i = n - 1; i >= 0; i--) {
    tasks[i] = (one){p, body, arg, i};
    if (i >= 16 || pthread_create(&threads[i], NULL, run_one, &tasks[i])) abort();
  }
  for (int64_t i = 0; i < n; i++) pthread_join(threads[i], NULL);
}

static layerops_context *open_pool(pool *p) {
  layerops_open_args args = {
      .device = "cpu", .threads = 3, .parallel = run_in_pool, .parallel_user = p};
  layerops_context *ctx = NULL;
  if (layerops_open_with(&args, &ctx)) diag("%s", layerops_last_error());
  return ctx;
}

static void test_callback(void) {
  pool p = {0};
  layerops_context *ctx = open_pool(&p);
  ok(ctx && same_as_expected(work_run(ctx)), "the caller's own parallel-for gives the same bits");
  layerops_close(ctx);
  ok(p.calls > 0 && p.tasks > p.calls, "it ran %d tasks in %d calls", (int)p.tasks, (int)p.calls);
}

#if defined __SSE__
/* Whether flushing works here: an emulator may ignore it. */
static bool flushes(unsigned bits) {
  const unsigned before = modes();
  volatile float small = 0x1p-120f, product;
  _mm_setcsr(before | bits);
  product = small * 0x1p-10f;
  _mm_setcsr(before);
  return product == 0;
}

/* Subnormal sums: what becomes of them depends on the caller's modes, whoever computes them. */
static void test_modes(void) {
  enum { FLUSH = 0x8040, M = 128, K = 4096 }; /* flush to zero, denormals are zero */
  work w = work_new();
  layerops_gemm_args args = {
      .a = work_f32(&w, M, K), .b = work_f32(&w, K, M), .alpha = layerops_value(1e-38)};
  const unsigned before = modes();
  int same = 1, unchanged = 1;
  pool p = {0};
  for (int flush = 0; flush < 2; flush++) {
    layerops_context *list[] = {open_threads(1), open_threads(3), open_pool(&p)};
    layerops_matrix first = {0};
    for (int i = 0; i < 3; i++) {
      args.c = work_output(&w, LAYEROPS_F32, M, M);
      _mm_setcsr((before & ~0x3fu) | (flush ? FLUSH : 0));
      const unsigned mine = modes();
      same &= layerops_gemm(list[i], &args) == LAYEROPS_OK;
      unchanged &= (modes() & ~0x3fu) == (mine & ~0x3fu); /* but for the exception flags */
      _mm_setcsr(before);
      if (!i) first = args.c;
      same &= !memcmp(first.host, args.c.host, M * M * sizeof(float));
      layerops_close(list[i]);
    }
    int subnormal = 0;
    for (int i = 0; i < M * M; i++)
      subnormal += fpclassify(((const float *)first.host)[i]) == FP_SUBNORMAL;
    if (flush && !flushes(FLUSH))
      skip("flushing", "this processor (or what emulates it) does not");
    else
      ok(flush ? !subnormal : subnormal > 0, "%d subnormal results when the caller %s", subnormal,
         flush ? "flushes them" : "keeps them");
  }
  ok(same, "all threads run under the caller's floating-point modes");
  ok(unchanged, "which stay as they were");
  ok(!p.wrong_modes, "a worker has its own again");
  work_free(&w);
}
#endif

/* ---- The machine ---- */

static void *look_from_one_cpu(void *threads) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(sched_getcpu(), &set);
  *(int *)threads = sched_setaffinity(0, sizeof set, &set) ? -1 : lo_topology_threads();
  return NULL;
}

static void test_topology(void) {
  layerops_device_info info[8] = {0};
  size_t count = 0, at = 0;
  layerops_devices(info, 8, &count);
  while (at < count && at < 8 && strcmp(info[at].name, "cpu")) at++;
  ok(at < count && info[at].units >= 1 && info[at].memory > 0 && *info[at].description,
     "%s: %d cores, %lld bytes of memory", info[at].description, (int)info[at].units,
     (long long)info[at].memory);
  lo_caches caches = lo_topology_caches();
  ok(caches.l1 > 0 && caches.l2 >= caches.l1, "caches: %lld, %lld, %lld", (long long)caches.l1,
     (long long)caches.l2, (long long)caches.l3);
  cpu_set_t set;
  int allowed = sched_getaffinity(0, sizeof set, &set) ? 1 : CPU_COUNT(&set);
  ok(lo_topology_cores() <= allowed, "%d cores of %d CPUs allowed", lo_topology_cores(), allowed);
  pthread_t thread;
  int threads = 0;
  ok(!pthread_create(&thread, NULL, look_from_one_cpu, &threads) && !pthread_join(thread, NULL) &&
         threads == 1,
     "a thread bound to one CPU uses one");
}

int main(void) {
  const uint64_t first = fork_first();
  test_topology();
  test_isas();
  ok(first == digest(&expected), "a child after fork computes the same, before the parent does");
  test_rows();
  test_fork("after the parent's parallel work");
  pthread_t thread;
  if (!pthread_create(&thread, NULL, fork_here, NULL)) pthread_join(thread, NULL);
#if defined _OPENMP
  test_nested(1);
  test_nested(2);
#endif
  test_small_stack();
  test_callback();
#if defined __SSE__
  test_modes();
#endif
  work_free(&expected);
  return done();
}
