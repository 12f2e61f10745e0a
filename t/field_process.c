/* Inputs that broke other libraries: threads, fork, memory, what a call must leave as it was. */
#include <config.h>

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>
#ifdef __SSE__
#include <xmmintrin.h>
#endif
#ifdef _OPENMP
#include <omp.h>
#endif
#include <dirent.h>

#include "t/field.h"

/* Runs body in a child, which must end well within some seconds. */
static int in_child(int (*body)(void), unsigned seconds) {
  fflush(stdout);
  pid_t pid = fork();
  if (pid < 0) return 0;
  if (!pid) {
    alarm(seconds); /* a hang ends by SIGALRM */
    _exit(body() ? 0 : 1);
  }
  int status;
  if (waitpid(pid, &status, 0) != pid) return 0;
  if (WIFSIGNALED(status)) diag("the child ended by signal %d", WTERMSIG(status));
  return WIFEXITED(status) && !WEXITSTATUS(status);
}

/* ---- before anything has opened a device ---- */

static int without_icd(void) {
  layerops_device_info list[DEVICES_MAX];
  size_t count = 0;
  const char *tmp = getenv("TMPDIR");
  char empty[4096];
  snprintf(empty, sizeof empty, "%s/layerops-test-XXXXXX", tmp && *tmp ? tmp : "/tmp");
  if (!mkdtemp(empty)) return 0;
  setenv("OCL_ICD_VENDORS", empty, 1);
  FILE *quiet = freopen("/dev/null", "w", stderr); /* what it says there does not reach the log */
  int good = quiet && !layerops_devices(list, DEVICES_MAX, &count);
  int absent = 0;
  for (size_t i = 0; i < count && i < DEVICES_MAX; i++)
    absent |= !strncmp(list[i].name, "opencl", 6) && !list[i].available && list[i].reason[0];
  rmdir(empty);
  return good && absent && !layerops_open("cpu", &ctx) && product(ctx, 9, 9, 9, 0);
}

static int fork_first(void) {
  return !layerops_open("cpu", &ctx) && product(ctx, 64, 64, 64, 0) &&
         product(ctx, 300, 300, 300, 0);
}

/* ---- threads ---- */

enum { THREADS = 8 };
static pthread_barrier_t barrier;
static atomic_int failures;
static layerops_bsr *shared;

static void *first_call(void *arg) {
  (void)arg;
  layerops_context *own = NULL;
  int opened = !layerops_open(device, &own);
  pthread_barrier_wait(&barrier);
  for (int i = 0; i < 5; i++) failures += !opened || !product(own, 64, 64, 64, i % 4);
  layerops_close(own);
  return NULL;
}

static void *share(void *arg) {
  (void)arg;
  layerops_context *own = NULL;
  float x[3 * 32], y[3 * 32];
  for (int i = 0; i < 96; i++) x[i] = 1;
  int opened = !layerops_open(device, &own);
  pthread_barrier_wait(&barrier);
  for (int i = 0; i < 50 && opened; i++) {
    layerops_bsr_linear_forward_args args = {.x = mat(x, 3, 32), .w = shared, .y = mat(y, 3, 32)};
    memset(y, 0, sizeof y);
    failures += layerops_bsr_linear_forward(own, &args) || y[0] != 16 || y[95] != 16;
  }
  failures += !opened;
  layerops_close(own);
  return NULL;
}

static int in_threads(void *(*body)(void *)) {
  pthread_t threads[THREADS];
  int started = 0;
  failures = 0;
  pthread_barrier_init(&barrier, NULL, THREADS);
  while (started < THREADS && !pthread_create(&threads[started], NULL, body, NULL)) started++;
  if (started < THREADS) abort(); /* the barrier would wait for ever */
  for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
  pthread_barrier_destroy(&barrier);
  return !failures;
}

static void test_threads(void) {
  CASE(in_threads(first_call), "F066 CLBlast #486: the first calls of 8 threads at once");
  static const int32_t start[] = {0, 1, 2}, column[] = {0, 1};
  float *ones = constant(2 * 256, 1);
  layerops_bsr_args a = {.rows = 32,
                         .cols = 32,
                         .block = 16,
                         .count = 2,
                         .row_start = start,
                         .column = column,
                         .values = ones,
                         .type = LAYEROPS_F32};
  int good = !layerops_bsr_create(ctx, &a, &shared) && in_threads(share);
  CASE(good, "F070 oneDNN #4381: 8 threads share one sparse matrix");
  layerops_bsr_destroy(shared);
  free(ones);
}

static void test_reopening(void) {
  int good = 1;
  for (int i = 0; i < 30 && good; i++) {
    layerops_context *own = NULL;
    good = !layerops_open(device, &own) && product(own, 17, 19, 23, i % 4);
    layerops_close(own);
  }
  CASE(good, "F068 CLBlast #47: open, multiply, close, 30 times");
}

/* ---- memory ---- */

#ifndef __SANITIZE_ADDRESS__
static long resident(void) { /* KB */
  char line[256];
  long kb = -1;
  FILE *f = fopen("/proc/self/status", "r");
  while (f && fgets(line, sizeof line, f))
    if (sscanf(line, "VmRSS: %ld", &kb) == 1) break;
  if (f) fclose(f);
  return kb;
}
#endif

static void test_leaks(void) {
#ifdef __SANITIZE_ADDRESS__
  skip("F081 CLBlast #74: memory does not grow", "the address sanitizer keeps what is freed");
#else
  int64_t calls = on_host() ? 50000 : 3000;
  layerops_buffer *a = NULL, *c = NULL;
  int good = !layerops_buffer_create(ctx, 4096, &a) && !layerops_buffer_create(ctx, 4096, &c);
  layerops_fill_args zero = {.y = layerops_matrix_f32(a, 32, 32)};
  layerops_gemm_args args = {.a = layerops_matrix_f32(a, 32, 32),
                             .b = layerops_matrix_f32(a, 32, 32),
                             .c = layerops_matrix_f32(c, 32, 32)};
  long before = 0;
  good = good && !layerops_fill(ctx, &zero);
  for (int64_t i = 0; i < calls && good; i++) {
    if (i == calls / 5) before = resident(); /* what is kept once is there */
    good = !layerops_gemm(ctx, &args) && (i % 100 || !layerops_sync(ctx));
  }
  good = good && !layerops_sync(ctx);
  long grown = resident() - before;
  CASE(good && grown < 1024, "F081 CLBlast #74: %lld calls grow by %ld KB", (long long)calls,
       grown);
  layerops_buffer_destroy(a);
  layerops_buffer_destroy(c);
#endif
}

static void test_page_ends(void) {
  int good = 1;
  for (int64_t k = 1; k <= 9; k++) { /* 3 x k times k x 2, each before a page without access */
    void *pages[3];
    size_t bytes[3];
    float *a = fenced(3 * k, &pages[0], &bytes[0]), *b = fenced(2 * k, &pages[1], &bytes[1]);
    float *c = fenced(6, &pages[2], &bytes[2]);
    for (int64_t i = 0; i < 3 * k; i++) a[i] = (float)(i % 5);
    for (int64_t i = 0; i < 2 * k; i++) b[i] = (float)(i % 3);
    good =
        good && !gemm(ctx, a, 0, b, 0, c, 3, 2, k) && product_is(a, 0, b, 0, c, 3, 2, k, k, 2, 2);
    for (int i = 0; i < 3; i++) munmap(pages[i], bytes[i]);
  }
  CASE(good, "F003 blis #635: 3 x 2 x 1..9 at the ends of pages");
  good = 1;
  for (int64_t n = 1; n <= 67; n++) {
    void *pages[2];
    size_t bytes[2];
    float *x = fenced(n, &pages[0], &bytes[0]), *y = fenced(n, &pages[1], &bytes[1]);
    for (int64_t i = 0; i < n; i++) x[i] = (float)i;
    for (layerops_activation kind = 0; kind < LAYEROPS_ACTIVATION_COUNT; kind++) {
      layerops_activation_forward_args args = {
          .x = mat(x, 1, n), .y = mat(y, 1, n), .activation = kind};
      good = good && !layerops_activation_forward(ctx, &args);
    }
    layerops_softmax_args soft = {.x = mat(x, 1, n), .y = mat(y, 1, n)};
    layerops_sgd_args sgd = {.w = mat(y, 1, n), .g = mat(x, 1, n), .lr = layerops_value(0.1)};
    layerops_copy_args copy = {.x = mat(x, 1, n), .y = mat(y, 1, n)};
    good = good && !layerops_softmax(ctx, &soft) && !layerops_sgd(ctx, &sgd) &&
           !layerops_copy(ctx, &copy) && y[n - 1] == (float)(n - 1);
    for (int i = 0; i < 2; i++) munmap(pages[i], bytes[i]);
  }
  CASE(good, "F208, F210 XNNPACK #4190, #1890: 1 to 67 elements at the ends of pages");
}

#ifndef __SANITIZE_ADDRESS__
static void *on_small_stack(void *arg) {
  float *row = constant(1000000, 0);
  layerops_softmax_args args = {.x = mat(row, 1, 1000000), .y = mat(row, 1, 1000000)};
  *(int *)arg = product(ctx, 5027, 43, 76, 2) && !layerops_softmax(ctx, &args) &&
                fabsf(row[999999] - 1e-6f) < 1e-9f;
  free(row);
  return NULL;
}
#endif

static void test_small_stack(void) {
#ifdef __SANITIZE_ADDRESS__
  skip("F214 libxsmm PR 1090: a thread with a stack of 64 KB",
       "the address sanitizer needs more itself");
#else
  pthread_attr_t attributes;
  pthread_t thread;
  int good = 0;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, 64 << 10);
  if (!pthread_create(&thread, &attributes, on_small_stack, &good)) pthread_join(thread, NULL);
  pthread_attr_destroy(&attributes);
  CASE(good, "F214 libxsmm PR 1090: a thread with a stack of 64 KB");
#endif
}

/* ---- the process ---- */

static void test_modes(void) {
#ifdef __SSE__
  int good = 1;
  unsigned old = _mm_getcsr();
  static const unsigned modes[] = {0, 0x8040, 0x2000}; /* as is; flush subnormals; round down */
  for (int i = 0; i < 3; i++) {
    _mm_setcsr((old & ~0x3fu) | modes[i]);
    unsigned before = _mm_getcsr() & ~0x3fu; /* the flags of exceptions may be raised */
    float tiny[40], out[40];
    for (int j = 0; j < 40; j++) tiny[j] = 1e-40f;
    layerops_softmax_args soft = {.x = mat(tiny, 1, 40), .y = mat(out, 1, 40)};
    good = good && !gemm(ctx, tiny, 0, tiny, 0, out, 6, 6, 6) && !layerops_softmax(ctx, &soft);
    good = good && (_mm_getcsr() & ~0x3fu) == before;
    _mm_setcsr(old);
  }
  CASE(good, "F155 onnxruntime #5117: the caller's rounding and subnormal modes stay");
#else
  skip("F155 onnxruntime #5117: floating-point modes", "this processor has no MXCSR");
#endif
}

static int same_in_child(void) {
  return product(ctx, 7, 7, 7, 0) && product(ctx, 64, 64, 64, 0) && product(ctx, 300, 300, 300, 2);
}

static void *fork_in_thread(void *arg) {
  *(int *)arg = same_in_child() && in_child(same_in_child, 60);
  return NULL;
}

static void test_fork(void) {
  int good = same_in_child() && in_child(same_in_child, 60) && same_in_child();
  CASE(good, "F076 OpenBLAS #294: products in the parent, the child, and the parent again");
  pthread_t thread;
  good = 0;
  if (!pthread_create(&thread, NULL, fork_in_thread, &good)) pthread_join(thread, NULL);
  CASE(good, "F079 blis #30: a fork inside a thread");
}

/* An inherited context of another device answers with an error, and does not hang. */
static int forked_context(void) {
  float x[16] = {0}, y[16];
  layerops_copy_args args = {.x = mat(x, 4, 4), .y = mat(y, 4, 4)};
  return layerops_copy(ctx, &args) == LAYEROPS_ERROR_FORKED &&
         strstr(layerops_last_error(), "fork") && layerops_sync(ctx) == LAYEROPS_ERROR_FORKED;
}

static int tasks(void) {
  int count = 0;
  DIR *dir = opendir("/proc/self/task");
  for (struct dirent *e; dir && (e = readdir(dir));) count += e->d_name[0] != '.';
  if (dir) closedir(dir);
  return count;
}

static int one_thread(void) {
  layerops_open_args open = {.device = "cpu", .threads = 1};
  layerops_context *own = NULL;
  int before = tasks();
  return !layerops_open_with(&open, &own) && product(own, 300, 300, 300, 0) && tasks() == before;
}

static void test_nested(void) {
#ifdef _OPENMP
  int wrong = 0;
  for (int levels = 1; levels <= 2; levels++) {
    omp_set_max_active_levels(levels);
#pragma omp parallel for num_threads(8) reduction(+ : wrong)
    for (int i = 0; i < 8; i++) {
      layerops_context *own = NULL;
      wrong += layerops_open("cpu", &own) || !product(own, 64, 64, 64, 0) ||
               !product(own, 200, 200, 200, 0);
      layerops_close(own);
    }
  }
  CASE(!wrong, "F072 oneDNN #828: calls inside a parallel region, nested or not");
#else
  skip("F072 oneDNN #828: calls inside a parallel region", "this test is built without OpenMP");
#endif
}

static void run(const char *name) {
  device = name;
  if (layerops_open(name, &ctx)) {
    ok(0, "%s opens: %s", name, layerops_last_error());
    return;
  }
  test_threads();
  test_reopening();
  test_leaks();
  test_modes();
  if (on_host()) {
    test_page_ends();
    test_small_stack();
    test_fork();
    test_nested();
  } else {
    CASE(in_child(forked_context, 60), "a child gets an error for a context of its parent");
  }
  layerops_close(ctx);
}

int main(void) {
  /* children of a process that has no driver and no thread yet */
  ok(in_child(without_icd, 60), "F091 hwloc #425: without OpenCL platforms the CPU works");
  ok(in_child(fork_first, 60), "F079 blis #30: a fork before the first call");
  ok(in_child(one_thread, 60), "F075 llama.cpp #22956: threads = 1 starts no other thread");
  for_each_device(run);
  return done();
}
