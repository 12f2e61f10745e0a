/* The ways of parallel work on the CPU, and the threads of a context's own: what they compute, how
 * they rest, how they end. */
#include <config.h>

#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* pthread_getname_np */
#endif

#include <dirent.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "backends/cpu/cpu.h"
#include "backends/cpu/modes.h"
#include "t/cpu_work.h"
#include "t/tap.h"

static layerops_context *open_threads(int threads) {
  layerops_open_args args = {.device = "cpu", .threads = threads};
  layerops_context *ctx = NULL;
  if (layerops_open_with(&args, &ctx)) diag("%s", layerops_last_error());
  return ctx;
}

static work expected;

static bool computes_the_same(layerops_context *ctx) {
  work w = work_run(ctx);
  const bool same = work_same(&w, &expected);
  work_free(&w);
  return same;
}

/* ---- What runs ---- */

enum { MOST = 64 };

typedef struct count {
  layerops_context *ctx;
  pthread_t caller;
  atomic_int ran[MOST], elsewhere, unblocked;
} count;

static void add_one(void *pointer, int64_t i) {
  count *c = pointer;
  atomic_fetch_add_explicit(&c->ran[i], 1, memory_order_relaxed);
  if (!pthread_equal(pthread_self(), c->caller)) atomic_fetch_add(&c->elsewhere, 1);
}

static bool each_ran(count *c, int n, int times) {
  bool right = true;
  for (int i = 0; i < MOST; i++) right = right && c->ran[i] == (i < n ? times : 0);
  return right;
}

static void *run_many(void *ok_) {
  enum { REGIONS = 100000 };
  layerops_context *ctx = open_threads(3);
  count c = {.ctx = ctx, .caller = pthread_self()};
  for (int i = 0; ctx && i < REGIONS; i++) lo_parallel(ctx, 1 + i % 5, add_one, &c);
  *(bool *)ok_ = ctx && c.ran[0] == REGIONS && c.ran[1] == REGIONS / 5 * 4 &&
                 c.ran[4] == REGIONS / 5 && c.ran[5] == 0;
  layerops_close(ctx);
  return NULL;
}

static void test_regions(void) {
  bool right = false;
  run_many(&right);
  ok(right, "in 100,000 regions of 1 to 5 tasks each task ran once");
}

/* Pauses around the time after which a worker falls asleep: each wake-up arrives. */
static void test_pauses(void) {
  enum { REGIONS = 3000 };
  layerops_context *ctx = open_threads(3);
  count c = {.ctx = ctx, .caller = pthread_self()};
  for (int i = 0; i < REGIONS; i++) {
    struct timespec pause = {0, i * 97 % 120000};
    nanosleep(&pause, NULL);
    lo_parallel(ctx, 3, add_one, &c);
  }
  ok(each_ran(&c, 3, REGIONS), "also where workers fall asleep in between");
  layerops_close(ctx);
}

static void *open_and_run(void *same) {
  layerops_context *ctx = open_threads(3);
  *(bool *)same = ctx && computes_the_same(ctx);
  layerops_close(ctx);
  return NULL;
}

static void in_threads(void *(*body)(void *), const char *what) {
  enum { THREADS = 6 };
  pthread_t thread[THREADS];
  bool right[THREADS] = {0};
  int started = 0, good = 0;
  while (started < THREADS && !pthread_create(&thread[started], NULL, body, &right[started]))
    started++;
  for (int i = 0; i < started; i++) {
    pthread_join(thread[i], NULL);
    good += right[i];
  }
  ok(good == THREADS, "%d of %d threads with a context each: %s", good, THREADS, what);
}

static void run_inside(void *pointer, int64_t i) {
  (void)i;
  count *outer = pointer, c = {.ctx = outer->ctx, .caller = pthread_self()};
  const int width = lo_parallel_width(c.ctx, 1e9);
  lo_parallel(c.ctx, 7, add_one, &c);
  if (width != 1 || !each_ran(&c, 7, 1) || c.elsewhere) atomic_fetch_add(&outer->elsewhere, 1);
}

static void test_nested(void) {
  layerops_context *ctx = open_threads(3);
  count c = {.ctx = ctx};
  lo_parallel(ctx, 3, run_inside, &c);
  ok(!c.elsewhere, "inside a task, the thread works alone");
  ok(lo_parallel_width(ctx, 1e9) == 3, "and after it, all are back");
  layerops_close(ctx);
}

/* ---- The ways ---- */

static void run_in_turn(void *user, int64_t n, void (*body)(void *arg, int64_t i), void *arg) {
  *(int *)user += 1;
  for (int64_t i = n - 1; i >= 0; i--) body(arg, i);
}

static void test_way(const char *way) {
  static const int threads[] = {1, 2, 3, 7};
  if (way)
    setenv("LAYEROPS_CPU_PARALLEL", way, 1);
  else
    unsetenv("LAYEROPS_CPU_PARALLEL");
  for (int i = 0; i < 4; i++) {
    layerops_context *ctx = open_threads(threads[i]);
    ok(ctx && computes_the_same(ctx), "%s: %d threads give the same bits", way ? way : "default",
       threads[i]);
    layerops_close(ctx);
  }
  unsetenv("LAYEROPS_CPU_PARALLEL");
}

static void test_callback(void) {
  static const int threads[] = {1, 2, 3, 7};
  for (int i = 0; i < 4; i++) {
    int calls = 0;
    layerops_open_args args = {
        .device = "cpu", .threads = threads[i], .parallel = run_in_turn, .parallel_user = &calls};
    layerops_context *ctx = NULL;
    const bool same = !layerops_open_with(&args, &ctx) && computes_the_same(ctx);
    ok(same && (calls > 0) == (threads[i] > 1) && !lo_cpu_of(ctx)->team,
       "the caller's own loop: %d threads give the same bits in %d calls", threads[i], calls);
    layerops_close(ctx);
  }
}

static void test_unknown_way(void) {
  layerops_context *ctx = NULL;
  setenv("LAYEROPS_CPU_PARALLEL", "fibers", 1);
  ok(layerops_open("cpu", &ctx) == LAYEROPS_ERROR_INVALID &&
         strstr(layerops_last_error(), "fibers") && strstr(layerops_last_error(), "threads"),
     "an unknown LAYEROPS_CPU_PARALLEL is an error: %s", layerops_last_error());
  unsetenv("LAYEROPS_CPU_PARALLEL");
}

/* ---- Good citizens ---- */

static int64_t used(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Of all threads of this process, those with our name. */
static int count_threads(void) {
  DIR *tasks = opendir("/proc/self/task");
  int found = 0;
  for (struct dirent *entry; tasks && (entry = readdir(tasks));) {
    char path[300], name[32] = "";
    snprintf(path, sizeof path, "/proc/self/task/%s/comm", entry->d_name);
    FILE *file = fopen(path, "re");
    if (!file) continue;
    if (fgets(name, sizeof name, file)) found += !strcmp(name, "layerops\n");
    fclose(file);
  }
  if (tasks) closedir(tasks);
  return found;
}

static void test_rest(void) {
  enum { WORKERS = 4, TIMES = 20 };
  const struct timespec pause = {0, 10000000};
  layerops_context *ctx = open_threads(WORKERS + 1);
  count c = {.caller = pthread_self()};
  int64_t spent = 0;
  for (int i = 0; i < TIMES; i++) {
    lo_parallel(ctx, WORKERS + 1, add_one, &c);
    const int64_t before = used();
    nanosleep(&pause, NULL);
    spent += used() - before;
  }
  ok(spent < (int64_t)TIMES * WORKERS * 1000000,
     "after a call %d threads run for %.3f ms together, then rest", WORKERS,
     (double)spent / TIMES / 1e6);
  layerops_close(ctx);
}

static void look(void *pointer, int64_t i) {
  count *c = pointer;
  sigset_t blocked;
  struct timespec pause = {0, 2000000}; /* for the others to begin */
  nanosleep(&pause, NULL);
  add_one(pointer, i);
  if (pthread_equal(pthread_self(), c->caller)) return;
  pthread_sigmask(SIG_SETMASK, NULL, &blocked);
  for (int s = 1; s < 32; s++) /* above, the C library has some of its own */
    if (s != SIGKILL && s != SIGSTOP) atomic_fetch_add(&c->unblocked, !sigismember(&blocked, s));
}

/* Asleep since the last region, the others are woken for the next. */
static void test_waking(void) {
  const struct timespec pause = {0, 5000000};
  layerops_context *ctx = open_threads(3);
  count c = {.caller = pthread_self()};
  lo_parallel(ctx, 3, look, &c);
  int woken = 0;
  for (int i = 0; i < 200 && woken != 2; i++) {
    nanosleep(&pause, NULL);
    const int before = c.elsewhere;
    lo_parallel(ctx, 3, look, &c);
    woken = c.elsewhere - before;
  }
  ok(woken == 2, "2 of 3 threads were asleep and are woken");
  layerops_close(ctx);
}

#if defined __SSE__ || defined __aarch64__
typedef struct modes {
  lo_modes expected;
  count count;
  atomic_int wrong;
} modes;

static void look_at_modes(void *pointer, int64_t i) {
  modes *m = pointer;
  look(&m->count, i);
  atomic_fetch_add(&m->wrong, lo_get_modes() != m->expected);
}

static void test_modes(void) {
#if defined __SSE__
  enum { TOWARDS_ZERO = 3 << 13 };
#else
  enum { TOWARDS_ZERO = 3 << 22 };
#endif
  const lo_modes before = lo_get_modes();
  layerops_context *ctx = open_threads(3);
  modes m = {.count = {.caller = pthread_self()}};
  for (int i = 0; i < 200 && m.count.elsewhere < 6; i++) {
    m.expected = i % 2 ? before | TOWARDS_ZERO : before;
    lo_set_modes(m.expected);
    lo_parallel(ctx, 3, look_at_modes, &m);
    if (lo_get_modes() != m.expected) m.wrong++;
  }
  lo_set_modes(before);
  ok(!m.wrong && m.count.elsewhere >= 6,
     "tasks run under the caller's rounding mode of each region");
  layerops_close(ctx);
}
#endif

static void test_life(void) {
  sigset_t before, after;
  count c = {.caller = pthread_self()};
  layerops_context *ctx = open_threads(3);
  ok(count_threads() == 0, "a context that has done nothing has no threads");
  pthread_sigmask(SIG_SETMASK, NULL, &before);
  for (int i = 0; i < 200 && !c.elsewhere; i++) lo_parallel(ctx, 3, look, &c);
  pthread_sigmask(SIG_SETMASK, NULL, &after);
  ok(c.elsewhere > 0 && !c.unblocked, "other threads take part; they block all signals");
  int changed = 0;
  for (int s = 1; s < 32; s++) changed += sigismember(&before, s) != sigismember(&after, s);
  ok(!changed, "the caller's mask stays");
  ok(count_threads() == 2, "of 3 threads 2 are called layerops: %d", count_threads());
  layerops_close(ctx);
  /* joined threads leave /proc a moment later */
  for (int i = 0; i < 1000 && count_threads(); i++) usleep(1000);
  ok(count_threads() == 0, "none is left after close");
}

/* More than a thread's stack is large, which the C library puts these variables on. */
static _Thread_local char locals[300 << 10];

static void fill_locals(void *pointer, int64_t i) {
  memset(locals, (int)i, sizeof locals);
  look(pointer, i);
}

static void test_locals(void) {
  layerops_context *ctx = open_threads(3);
  count c = {.caller = pthread_self()};
  for (int i = 0; i < 200 && !c.elsewhere; i++) lo_parallel(ctx, 3, fill_locals, &c);
  ok(count_threads() == 2 && computes_the_same(ctx),
     "a program with large thread-local variables has its threads: %d", count_threads());
  layerops_close(ctx);
}

/* In a child that may have no more threads. */
static int without_threads(void) {
  const struct rlimit none = {0, 0};
  if (setrlimit(RLIMIT_NPROC, &none) || (!getuid() && setuid(65534))) return 2;
  pthread_t thread;
  bool same;
  if (!pthread_create(&thread, NULL, open_and_run, &same)) return 2;
  layerops_context *ctx = open_threads(3);
  const bool right = ctx && computes_the_same(ctx) && count_threads() == 0;
  layerops_close(ctx);
  return !right;
}

/* ---- How many ---- */

static void test_many(void) {
  const int hardware = lo_topology_hardware_threads(), most = hardware > 64 ? hardware : 64;
  layerops_context *ctx = open_threads(4096);
  ok(ctx && lo_cpu_of(ctx)->threads == (most < 4096 ? most : 4096),
     "of 4096 threads a context has %d", lo_cpu_of(ctx)->threads);
  ok(computes_the_same(ctx) && count_threads() < most, "and with these it computes the same");
  layerops_close(ctx);
  setenv("OMP_NUM_THREADS", "4096", 1);
  ctx = open_threads(0);
  ok(ctx && lo_cpu_of(ctx)->threads <= most, "as with OMP_NUM_THREADS=4096");
  layerops_close(ctx);
  setenv("OMP_NUM_THREADS", "5,2", 1);
  ctx = open_threads(0);
  ok(ctx && lo_cpu_of(ctx)->threads == 5, "OMP_NUM_THREADS=5,2 means 5");
  layerops_close(ctx);
  unsetenv("OMP_NUM_THREADS");
}

/* ---- What a hand-over costs ---- */

static void test_learning(void) {
  layerops_context *ctx = open_threads(2);
  count c = {.caller = pthread_self()};
  for (int i = 0; i < 1000000 && lo_cpu_of(ctx)->hand_over <= 0; i++) {
    lo_cpu_of(ctx)->regions = 0; /* each region is the first: a busy machine needs many */
    lo_parallel(ctx, 2, add_one, &c);
  }
  const double learnt = lo_cpu_of(ctx)->hand_over;
  ok(learnt > 0 && learnt < 1e5, "a context learns what a hand-over costs: %.0f ns", learnt);
  lo_cpu_of(ctx)->hand_over = 10000;
  ok(lo_parallel_width(ctx, 79999) == 1 && lo_parallel_width(ctx, 80000) == 2,
     "where it is dear, small work is not divided");
  layerops_close(ctx);
}

/* ---- Where ---- */

#if defined __linux__
typedef struct places {
  pthread_t caller;
  atomic_int count;
  cpu_set_t set[8];
} places;

static void look_where(void *pointer, int64_t i) {
  places *p = pointer;
  const struct timespec pause = {0, 2000000}; /* for the others to begin */
  (void)i;
  nanosleep(&pause, NULL);
  if (!pthread_equal(pthread_self(), p->caller))
    sched_getaffinity(0, sizeof *p->set, &p->set[atomic_fetch_add(&p->count, 1)]);
}

/* Where the workers of a context are, each once. */
static places find(int threads, layerops_bind bind) {
  layerops_open_args args = {.device = "cpu", .threads = threads, .bind = (int32_t)bind};
  layerops_context *ctx = NULL;
  places p = {.caller = pthread_self()};
  if (layerops_open_with(&args, &ctx)) diag("%s", layerops_last_error());
  for (int i = 0; ctx && i < 200 && p.count != threads - 1; i++) {
    p.count = 0;
    lo_parallel(ctx, threads, look_where, &p);
  }
  layerops_close(ctx);
  return p;
}

static bool within(const cpu_set_t *a, const cpu_set_t *b) {
  cpu_set_t both;
  CPU_AND(&both, a, b);
  return CPU_EQUAL(&both, a) && CPU_COUNT(a) > 0;
}

static void test_bind(void) {
  static const char *const name[] = {"default", "none", "compact", "spread"};
  cpu_set_t all, one, both;
  sched_getaffinity(0, sizeof all, &all);
  const int cores = lo_topology_cores(), threads = cores < 4 ? cores : 4;
  for (int bind = 0; bind < LAYEROPS_BIND_COUNT; bind++) {
    const bool bound = bind > LAYEROPS_BIND_NONE;
    const places p = find(threads, (layerops_bind)bind);
    bool right = p.count == threads - 1;
    for (int i = 0; i < p.count; i++) {
      right = right && within(&p.set[i], &all) && CPU_EQUAL(&p.set[i], &all) == (!bound);
      for (int j = 0; j < i && bound; j++) {
        CPU_AND(&both, &p.set[i], &p.set[j]);
        right = right && !CPU_COUNT(&both);
      }
    }
    ok(right, "%s: %d threads are %s", name[bind], threads - 1,
       bound ? "on a core each" : "where the caller is");
  }
  setenv("LAYEROPS_CPU_BIND", "compact", 1);
  ok(cores == 1 || CPU_COUNT(&find(2, LAYEROPS_BIND_DEFAULT).set[0]) < CPU_COUNT(&all),
     "LAYEROPS_CPU_BIND=compact binds");
  ok(CPU_EQUAL(&find(2, LAYEROPS_BIND_NONE).set[0], &all), "but open_args.bind comes first");
  unsetenv("LAYEROPS_CPU_BIND");
  CPU_ZERO(&one);
  CPU_SET(sched_getcpu(), &one);
  sched_setaffinity(0, sizeof one, &one);
  const places p = find(3, LAYEROPS_BIND_SPREAD);
  ok(p.count == 2 && CPU_EQUAL(&p.set[0], &one) && CPU_EQUAL(&p.set[1], &one),
     "no thread leaves the cores of the caller");
  sched_setaffinity(0, sizeof all, &all);
}

static int64_t resident(layerops_context *ctx, int64_t bytes) {
  layerops_buffer *buffer = NULL;
  int64_t found = 0;
  if (layerops_buffer_create(ctx, bytes, &buffer)) return -1;
  const int64_t page = sysconf(_SC_PAGESIZE), pages = bytes / page;
  unsigned char *in = calloc((size_t)pages, 1);
  const uintptr_t start = (uintptr_t)layerops_buffer_native(buffer);
  if (mincore((void *)((start + (uintptr_t)page - 1) / (uintptr_t)page * (uintptr_t)page),
              (size_t)((pages - 1) * page), in))
    found = -1;
  for (int64_t i = 0; i < pages && found >= 0; i++) found += in[i] & 1;
  free(in);
  layerops_buffer_destroy(buffer);
  return found;
}

static void test_touch(void) {
  enum { BYTES = 64 << 20 };
  layerops_open_args args = {.device = "cpu", .threads = 2, .bind = LAYEROPS_BIND_COMPACT};
  layerops_context *ctx = NULL;
  const int64_t pages = BYTES / sysconf(_SC_PAGESIZE) - 1;
  layerops_open_with(&args, &ctx);
  ok(resident(ctx, BYTES) == pages, "bound threads touch the pages of a large buffer");
  layerops_close(ctx);
  ctx = open_threads(2);
  ok(resident(ctx, BYTES) < pages, "others leave them to who writes first");
  layerops_close(ctx);
}
#endif

static void test_places(void) {
  static const struct {
    layerops_bind how;
    int first, place, places, cores, core;
  } cases[] = {
      {LAYEROPS_BIND_COMPACT, 0, 1, 2, 8, 1},  {LAYEROPS_BIND_COMPACT, 6, 3, 4, 8, 1},
      {LAYEROPS_BIND_COMPACT, 1, 9, 10, 8, 2}, {LAYEROPS_BIND_SPREAD, 0, 1, 2, 8, 4},
      {LAYEROPS_BIND_SPREAD, 5, 1, 2, 8, 1},   {LAYEROPS_BIND_SPREAD, 0, 2, 3, 8, 5},
      {LAYEROPS_BIND_SPREAD, 0, 7, 8, 8, 7},   {LAYEROPS_BIND_SPREAD, 0, 8, 9, 8, 0},
      {LAYEROPS_BIND_SPREAD, 0, 3, 4, 1, 0},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const int core = lo_topology_place(cases[i].how, cases[i].first, cases[i].place,
                                       cases[i].places, cases[i].cores);
    ok(core == cases[i].core, "%s: thread %d of %d is on core %d of %d",
       cases[i].how == LAYEROPS_BIND_SPREAD ? "spread" : "compact", cases[i].place, cases[i].places,
       core, cases[i].cores);
  }
}

static bool refused(layerops_open_args args, const char *what) {
  layerops_context *ctx = NULL;
  args.device = "cpu";
  const layerops_status status = layerops_open_with(&args, &ctx);
  layerops_close(ctx);
  return status == LAYEROPS_ERROR_INVALID && strstr(layerops_last_error(), what);
}

static void test_bind_refused(void) {
  int calls = 0;
  layerops_open_args args = {.parallel = run_in_turn, .parallel_user = &calls};
  args.bind = LAYEROPS_BIND_SPREAD;
  ok(refused(args, "bind is spread") && strstr(layerops_last_error(), "parallel"),
     "bind beside parallel: %s", layerops_last_error());
  args.bind = LAYEROPS_BIND_NONE;
  ok(!refused(args, ""), "none is not to bind");
  setenv("LAYEROPS_CPU_BIND", "tight", 1);
  ok(refused((layerops_open_args){0}, "\"tight\""), "an unknown LAYEROPS_CPU_BIND: %s",
     layerops_last_error());
  unsetenv("LAYEROPS_CPU_BIND");
#if defined _OPENMP
  setenv("LAYEROPS_CPU_PARALLEL", "openmp", 1);
  ok(refused((layerops_open_args){.bind = LAYEROPS_BIND_COMPACT}, "OpenMP"),
     "bind of OpenMP's threads: %s", layerops_last_error());
  unsetenv("LAYEROPS_CPU_PARALLEL");
#endif
}

/* ---- Forks ---- */

static int in_child(int (*body)(void)) {
  int status = -1;
  fflush(stdout);
  pid_t child = fork();
  if (child == 0) {
    alarm(60); /* a hang ends here */
    _exit(body());
  }
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 255;
}

static layerops_context *inherited;

static int use_inherited(void) {
  count c = {.caller = pthread_self()};
  lo_parallel(inherited, 7, add_one, &c);
  const bool right = each_ran(&c, 7, 1) && !c.elsewhere && lo_parallel_width(inherited, 1e9) == 1 &&
                     computes_the_same(inherited);
  layerops_close(inherited);
  return !right;
}

static int close_inherited(void) {
  layerops_close(inherited);
  return 0;
}

static int open_own(void) {
  bool same = false;
  open_and_run(&same);
  return !same;
}

static int open_then_fork_again(void) {
  inherited = open_threads(3);
  count c = {0};
  lo_parallel(inherited, 3, add_one, &c);
  return in_child(use_inherited);
}

static void fork_in_task(void *pointer, int64_t i) {
  (void)i;
  if (in_child(open_own)) atomic_fetch_add(&((count *)pointer)->elsewhere, 1);
}

static void test_forks(void) {
  count c = {.caller = pthread_self()};
  inherited = open_threads(3);
  ok(in_child(use_inherited) == 0, "a child works alone on a context that has not worked yet");
  lo_parallel(inherited, 3, add_one, &c);
  ok(in_child(close_inherited) == 0, "a child closes what it inherited");
  ok(in_child(use_inherited) == 0, "it works alone on what it inherited");
  ok(in_child(open_own) == 0, "it opens a context of its own");
  ok(in_child(open_then_fork_again) == 0, "whose child works alone again");
  count failed = {0};
  lo_parallel(inherited, 3, fork_in_task, &failed);
  ok(!failed.elsewhere, "a child that is forked by a task computes the same");
  ok(computes_the_same(inherited), "the parent goes on");
  layerops_close(inherited);
}

int main(void) {
  alarm(600); /* a hang ends here */
  layerops_context *ctx = open_threads(1);
  expected = work_run(ctx);
  ok(!expected.status && !lo_cpu_of(ctx)->team, "one thread needs no others");
  layerops_close(ctx);
  test_life();
  test_locals();
  test_rest();
  test_waking();
#if defined __SSE__ || defined __aarch64__
  test_modes();
#endif
  test_regions();
  test_pauses();
  in_threads(open_and_run, "the same bits");
  in_threads(run_many, "each task runs once");
  test_nested();
  test_way(NULL);
  test_way("threads");
#if defined _OPENMP
  test_way("openmp");
#endif
  test_callback();
  test_unknown_way();
  test_many();
  test_learning();
#if defined __linux__
  test_bind();
  test_touch();
#endif
  test_places();
  test_bind_refused();
  test_forks();
  const int limited = in_child(without_threads);
  if (limited == 2)
    skip("without threads", "RLIMIT_NPROC does not hold here");
  else
    ok(limited == 0, "where no thread can be had, the caller computes the same");
  work_free(&expected);
  return done();
}
