/* What is special to CUDA: every kernel by name, a forced architecture, the user's stream and
 * memory, the thread's current CUDA context, faults found on the device. */
#include <config.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <layerops/layerops.h>

#include "t/tap.h"

static layerops_context *ctx;
static int architecture; /* of the first device */

static int is_ok(layerops_status status, const char *what) {
  return ok(status == LAYEROPS_OK, "%s%s%s", what, status ? ": " : "",
            status ? layerops_last_error() : "");
}

static int refused(layerops_status status, layerops_status wanted, const char *text,
                   const char *what) {
  return ok(status == wanted && strstr(layerops_last_error(), text), "%s: %s", what,
            status ? layerops_last_error() : "not refused");
}

/* ---- Small whole numbers: a product of them is exact, whatever the order. */
static unsigned seed = 1;
static float whole(void) {
  seed = seed * 1664525u + 1013904223u;
  return (float)((int)(seed >> 28) - 8);
}

static float *whole_numbers(int64_t count) {
  float *f = malloc((size_t)count * sizeof *f);
  for (int64_t i = 0; f && i < count; i++) f[i] = whole();
  return f;
}

typedef struct shape {
  int64_t m, n, k, batch;
} shape;

/* The same numbers in 16 bits: all of them are short enough. */
static void *narrow(const float *f, int64_t count, layerops_type type) {
  uint16_t *h = malloc((size_t)count * sizeof *h);
  for (int64_t i = 0; h && i < count; i++) {
    uint32_t u;
    memcpy(&u, &f[i], 4);
    if (type == LAYEROPS_BF16 || f[i] == 0)
      h[i] = (uint16_t)(u >> 16);
    else /* the exponent's bias is 112 less */
      h[i] = (uint16_t)((u >> 16 & 0x8000) | (((u >> 13) & 0x3ffff) - (112 << 10)));
  }
  return h;
}

static layerops_matrix batched(const void *host, layerops_type type, int64_t rows, int64_t cols,
                               int64_t batch) {
  layerops_matrix m = layerops_host_matrix(host, type, rows, cols);
  m.batch = batch;
  m.batch_stride = rows * cols;
  return m;
}

static int64_t count_wrong(shape s, int trans_a, int trans_b, const float *a, const float *b,
                           const float *c) {
  int64_t wrong = 0;
  for (int64_t l = 0; l < s.batch; l++, a += s.m * s.k, b += s.k * s.n, c += s.m * s.n)
    for (int64_t i = 0; i < s.m; i++)
      for (int64_t j = 0; j < s.n; j++) {
        float sum = 0;
        for (int64_t p = 0; p < s.k; p++)
          sum += a[trans_a ? p * s.m + i : i * s.k + p] * b[trans_b ? j * s.k + p : p * s.n + j];
        wrong += sum != c[i * s.n + j];
      }
  return wrong;
}

/* The number of wrong elements, or -1. */
static int64_t try_gemm(shape s, int trans_a, int trans_b, layerops_type type, const char *kernel) {
  int64_t count_a = s.m * s.k * s.batch, count_b = s.k * s.n * s.batch;
  float *a = whole_numbers(count_a), *b = whole_numbers(count_b);
  float *c = whole_numbers(s.m * s.n * s.batch);
  int wide = type == LAYEROPS_F32;
  void *narrow_a = wide ? NULL : narrow(a, count_a, type);
  void *narrow_b = wide ? NULL : narrow(b, count_b, type);
  layerops_gemm_args args = {
      .a = batched(wide ? a : narrow_a, type, trans_a ? s.k : s.m, trans_a ? s.m : s.k, s.batch),
      .b = batched(wide ? b : narrow_b, type, trans_b ? s.n : s.k, trans_b ? s.k : s.n, s.batch),
      .c = batched(c, LAYEROPS_F32, s.m, s.n, s.batch),
      .trans_a = trans_a,
      .trans_b = trans_b};
  int64_t wrong = -1;
  if (layerops_gemm(ctx, &args) == LAYEROPS_OK && !strcmp(layerops_last_kernel(ctx), kernel))
    wrong = count_wrong(s, trans_a, trans_b, a, b, c);
  free(a);
  free(b);
  free(c);
  free(narrow_a);
  free(narrow_b);
  return wrong;
}

static layerops_status open_with(const char *name, const char *value) {
  if (value)
    setenv(name, value, 1);
  else
    unsetenv(name);
  layerops_status status = layerops_open("cuda", &ctx);
  unsetenv(name);
  return status;
}

typedef struct kernel {
  const char *name;
  layerops_type type;
  const char *architecture;
} kernel;

static void test_kernel(const kernel *k) {
  static const shape shapes[] = {{1, 1, 64, 1},      {130, 33, 100, 1}, {37, 129, 70, 3},
                                 {128, 128, 128, 1}, {257, 260, 99, 2}, {64, 64, 1000, 1}};
  const char *type = layerops_type_name(k->type);
  if (k->architecture) setenv("LAYEROPS_CUDA_ARCH", k->architecture, 1);
  int opened = is_ok(open_with("LAYEROPS_CUDA_KERNEL", k->name), k->name);
  unsetenv("LAYEROPS_CUDA_ARCH");
  if (!opened) return;
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
    shape s = shapes[i];
    int64_t wrong[4];
    for (int t = 0; t < 4; t++) wrong[t] = try_gemm(s, t / 2, t % 2, k->type, k->name);
    if (!ok(!wrong[0] && !wrong[1] && !wrong[2] && !wrong[3],
            "%s %s: %lld x %lld x %lld, batch %lld, transposed every way", k->name, type,
            (long long)s.m, (long long)s.n, (long long)s.k, (long long)s.batch))
      diag("wrong: nn %lld, nt %lld, tn %lld, tt %lld; kernel %s: %s", (long long)wrong[0],
           (long long)wrong[1], (long long)wrong[2], (long long)wrong[3], layerops_last_kernel(ctx),
           layerops_last_error());
  }
  layerops_close(ctx);
}

/* Dot products are for few rows or few columns, both operands along k. */
static void test_dot(layerops_type type) {
  static const shape shapes[] = {{1, 1, 1, 1},    {1, 100, 333, 1}, {2, 37, 1024, 3},
                                 {3, 16, 40, 1},  {8, 50, 65, 2},   {70, 3, 129, 1},
                                 {300, 8, 20, 1}, {33, 5, 128, 2}};
  if (!is_ok(open_with("LAYEROPS_CUDA_KERNEL", "dot"), "dot")) return;
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
    int64_t wrong = try_gemm(shapes[i], 0, 1, type, "dot");
    ok(wrong == 0, "dot %s: %lld x %lld x %lld (%lld wrong)", layerops_type_name(type),
       (long long)shapes[i].m, (long long)shapes[i].n, (long long)shapes[i].k, (long long)wrong);
  }
  layerops_close(ctx);
}

/* Whether the code that this device loads has it: a build for sm_75 runs as that on any device. */
static int long_instruction(void) {
  if (open_with("LAYEROPS_CUDA_KERNEL", "mma_k16_64x64") != LAYEROPS_OK) return 0;
  uint16_t x[3] = {0};
  layerops_gemm_args args = {.a = layerops_host_matrix(x, LAYEROPS_F16, 1, 1),
                             .b = layerops_host_matrix(x + 1, LAYEROPS_F16, 1, 1),
                             .c = layerops_host_matrix(x + 2, LAYEROPS_F16, 1, 1)};
  layerops_status status = layerops_gemm(ctx, &args);
  layerops_close(ctx);
  if (status != LAYEROPS_OK) skip("mma_k16", "sm_%d: %s", architecture, layerops_last_error());
  return status == LAYEROPS_OK;
}

static void test_kernels(void) {
  static const char *const simt[] = {"simt_128x128",      "simt_128x128_split", "simt_128x32",
                                     "simt_128x32_split", "simt_32x128",        "simt_32x128_split",
                                     "simt_64x64",        "simt_64x64_split",   "simt_32x32",
                                     "simt_32x32_split"};
  static const kernel mma[] = {
      {"mma_k8_128x128", LAYEROPS_F16, "75"},  {"mma_k8_128x128_split", LAYEROPS_F16, "75"},
      {"mma_k8_64x64", LAYEROPS_F16, "75"},    {"mma_k8_64x64_split", LAYEROPS_F16, "75"},
      {"mma_k16_128x128", LAYEROPS_F16, NULL}, {"mma_k16_128x128_split", LAYEROPS_F16, NULL},
      {"mma_k16_64x64", LAYEROPS_BF16, NULL},  {"mma_k16_64x64_split", LAYEROPS_F16, NULL},
      {"mma_k16_128x128", LAYEROPS_BF16, NULL}};
  for (size_t i = 0; i < sizeof simt / sizeof *simt; i++)
    for (layerops_type type = LAYEROPS_F32; type <= LAYEROPS_BF16; type++)
      test_kernel(&(kernel){simt[i], type, NULL});
  int has_long = long_instruction();
  for (size_t i = 0; i < sizeof mma / sizeof *mma; i++)
    if (mma[i].architecture || has_long) test_kernel(&mma[i]);
  for (layerops_type type = LAYEROPS_F32; type <= LAYEROPS_BF16; type++) test_dot(type);
  if (!is_ok(open_with("LAYEROPS_CUDA_KERNEL", "no_such_kernel"), "a kernel that does not exist"))
    return;
  float x[4] = {0};
  layerops_gemm_args args = {.a = layerops_host_matrix(x, LAYEROPS_F32, 1, 1),
                             .b = layerops_host_matrix(x + 1, LAYEROPS_F32, 1, 1),
                             .c = layerops_host_matrix(x + 2, LAYEROPS_F32, 1, 1)};
  refused(layerops_gemm(ctx, &args), LAYEROPS_ERROR_UNSUPPORTED, "no_such_kernel",
          "no kernel is left");
  layerops_close(ctx);
}

static void test_architecture(void) {
  refused(open_with("LAYEROPS_CUDA_ARCH", "75x"), LAYEROPS_ERROR_INVALID,
          "LAYEROPS_CUDA_ARCH is \"75x\"", "an architecture that is none");
  refused(open_with("LAYEROPS_CUDA_ARCH", "999"), LAYEROPS_ERROR_INVALID,
          "LAYEROPS_CUDA_ARCH is \"999\"", "an architecture later than the device");
  if (!is_ok(open_with("LAYEROPS_CUDA_ARCH", "75"), "LAYEROPS_CUDA_ARCH=75 opens")) return;
  shape s = {200, 100, 50, 1};
  try_gemm(s, 0, 1, LAYEROPS_F16, "");
  ok(strncmp(layerops_last_kernel(ctx), "mma_k16", 7) && layerops_last_kernel(ctx)[0],
     "a kernel of Turing runs: %s", layerops_last_kernel(ctx));
  layerops_close(ctx);
}

/* Labels that lie on the device are judged there. */
static void test_faults(void) {
  enum { ROWS = 300, COLS = 7 };
  float logits[ROWS * COLS] = {0}, losses[ROWS];
  int32_t labels[ROWS] = {0};
  labels[129] = 7;
  labels[250] = -3;
  layerops_buffer *x, *l, *y;
  if (!is_ok(open_with("LAYEROPS_CUDA_ARCH", NULL), "open")) return;
  is_ok(layerops_buffer_from(ctx, logits, sizeof logits, &x), "logits");
  is_ok(layerops_buffer_from(ctx, labels, sizeof labels, &l), "labels");
  is_ok(layerops_buffer_create(ctx, sizeof losses, &y), "losses");
  layerops_cross_entropy_args args = {.logits = layerops_matrix_f32(x, ROWS, COLS),
                                      .labels = layerops_vector_i32(l, ROWS),
                                      .losses = layerops_vector_f32(y, ROWS)};
  is_ok(layerops_cross_entropy(ctx, &args), "the call is enqueued");
  refused(layerops_sync(ctx), LAYEROPS_ERROR_LABEL, "labels[129] is 7, but must lie in [0, 7)",
          "sync tells of the first label out of range");
  is_ok(layerops_buffer_read(ctx, y, losses, sizeof losses), "the error word is clear again");
  ok(losses[129] == 0 && losses[250] == 0 && losses[0] > 1.9f, "such rows are ignored");
  layerops_gather_args gather = {.x = layerops_matrix_f32(x, 5, COLS),
                                 .index = layerops_vector_i32(l, ROWS),
                                 .y = layerops_matrix_f32(x, ROWS, COLS)};
  layerops_buffer *gathered;
  is_ok(layerops_buffer_create(ctx, sizeof logits, &gathered), "rows");
  gather.y.buffer = gathered;
  is_ok(layerops_gather(ctx, &gather), "gather is enqueued");
  refused(layerops_buffer_read(ctx, gathered, logits, sizeof logits), LAYEROPS_ERROR_LABEL,
          "index[129] is 7, but must lie in [0, 5)", "read tells of the first index out of range");
  layerops_buffer_destroy(x);
  layerops_buffer_destroy(l);
  layerops_buffer_destroy(y);
  layerops_buffer_destroy(gathered);
  layerops_close(ctx);
}

/* Many small writes go round the pinned memory more than once; each must arrive as it was. */
static void test_writes(void) {
  enum { PIECE = 300000, PIECES = 40 };
  unsigned char *host = malloc(PIECE), *all = malloc((size_t)PIECE * PIECES);
  layerops_buffer *buffer = NULL;
  if (!is_ok(open_with("LAYEROPS_CUDA_ARCH", NULL), "open")) return;
  is_ok(layerops_buffer_create(ctx, (int64_t)PIECE * PIECES, &buffer), "a buffer");
  layerops_status status = LAYEROPS_OK;
  for (int i = 0; i < PIECES && status == LAYEROPS_OK; i++) {
    memset(host, i + 1, PIECE);
    status = layerops_buffer_write_at(ctx, buffer, (int64_t)i * PIECE, host, PIECE);
  }
  is_ok(status, "40 writes from one place");
  is_ok(layerops_buffer_read(ctx, buffer, all, (int64_t)PIECE * PIECES), "read whole");
  int wrong = 0;
  for (int64_t i = 0; i < (int64_t)PIECE * PIECES; i++) wrong += all[i] != i / PIECE + 1;
  ok(wrong == 0, "each has arrived as it was when written (%d bytes differ)", wrong);
  layerops_buffer_destroy(buffer);
  layerops_close(ctx);
  free(host);
  free(all);
}

#ifdef HAVE_CUDA
#include <dlfcn.h>

#include <cuda.h>

#define STRING_(name) #name
#define STRING(name)  STRING_(name)
#define DRIVER(name)  ((__typeof__(name) *)dlsym(library, STRING(name)))

static void *library;

/* The same calls on the user's stream and memory. */
static void use_theirs(CUstream stream, CUdeviceptr memory) {
  layerops_open_args args = {.device = "cuda:0", .queue = stream};
  layerops_buffer *buffer = NULL, *other = NULL;
  float value = 0;
  if (!is_ok(layerops_open_with(&args, &ctx), "a context on the user's stream")) return;
  void *native = (void *)(uintptr_t)memory;
  is_ok(layerops_buffer_wrap(ctx, native, 4096, &buffer), "the user's memory");
  layerops_fill_args fill = {.y = layerops_vector_f32(buffer, 1024), .value = layerops_value(2.5)};
  is_ok(layerops_fill(ctx, &fill), "fill");
  is_ok(layerops_buffer_read_at(ctx, buffer, 4092, &value, 4), "read");
  ok(value == 2.5f, "the last element is %g", value);
  float theirs = 0;
  ok(DRIVER(cuStreamSynchronize)(stream) == CUDA_SUCCESS &&
         DRIVER(cuMemcpyDtoH)(&theirs, memory, 4) == CUDA_SUCCESS && theirs == 2.5f,
     "and the user sees it");
  refused(layerops_buffer_wrap(ctx, native, (int64_t)1 << 40, &other), LAYEROPS_ERROR_INVALID,
          "ends after", "more than the user's memory");
  refused(layerops_buffer_wrap(ctx, &value, 4, &other), LAYEROPS_ERROR_INVALID,
          "no memory of cuda:0", "host memory");
  is_ok(layerops_buffer_wrap(ctx, (char *)native + 2, 64, &other), "memory from byte 2 on");
  fill.y = layerops_vector_f32(other, 1);
  refused(layerops_fill(ctx, &fill), LAYEROPS_ERROR_INVALID, "not a multiple of its element size",
          "f32 there");
  layerops_buffer_destroy(buffer);
  layerops_buffer_destroy(other);
  layerops_close(ctx);
}

static void test_current(CUcontext wanted, const char *what) {
  CUcontext current = NULL;
  DRIVER(cuCtxGetCurrent)(&current);
  ok(current == wanted, "%s: the thread's current context is what it was", what);
}

static void test_user(void) {
  CUdevice device;
  CUcontext primary, popped;
  CUstream stream;
  CUdeviceptr memory;
  library = dlopen("libcuda.so.1", RTLD_NOW);
  test_current(NULL, "before");
  if (!is_ok(open_with("LAYEROPS_CUDA_ARCH", NULL), "open")) return;
  test_current(NULL, "open");
  try_gemm((shape){10, 10, 10, 1}, 0, 0, LAYEROPS_F32, "");
  test_current(NULL, "a call");
  layerops_close(ctx);
  test_current(NULL, "close");
  ok(DRIVER(cuDeviceGet)(&device, 0) == CUDA_SUCCESS &&
         DRIVER(cuDevicePrimaryCtxRetain)(&primary, device) == CUDA_SUCCESS &&
         DRIVER(cuCtxPushCurrent)(primary) == CUDA_SUCCESS &&
         DRIVER(cuStreamCreate)(&stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS &&
         DRIVER(cuMemAlloc)(&memory, 4096) == CUDA_SUCCESS,
     "the user's own context, stream and memory");
  use_theirs(stream, memory);
  test_current(primary, "on the user's stream");
  DRIVER(cuMemFree)(memory);
  DRIVER(cuStreamDestroy)(stream);
  DRIVER(cuCtxPopCurrent)(&popped);
  DRIVER(cuDevicePrimaryCtxRelease)(device);
}
#else
static void test_user(void) {}
#endif

static const char *why_not(void) {
  static layerops_device_info list[64];
  size_t count = 0;
  if (layerops_devices(list, 64, &count)) return layerops_last_error();
  for (size_t i = 0; i < count && i < 64; i++)
    if (!strncmp(list[i].name, "cuda", 4)) {
      architecture = list[i].available ? atoi(list[i].isa + strlen("sm_")) : 0;
      return list[i].available ? NULL : list[i].reason;
    }
  return "cuda is not listed";
}

int main(void) {
  const char *reason = why_not(), *required = getenv("LAYEROPS_TEST_REQUIRE");
  if (reason && required && strstr(required, "cuda")) {
    ok(0, "cuda is required, but absent: %s", reason);
    return done();
  }
  if (reason) {
    ok(reason[0] != 0, "an absent device has a reason");
    refused(layerops_open("cuda", &ctx), LAYEROPS_ERROR_NO_DEVICE, reason, "open says why");
    skip("the tests on a device", "%s", reason);
    return done();
  }
  test_user(); /* first: no CUDA context is current yet */
  test_architecture();
  test_kernels();
  test_faults();
  test_writes();
  return done();
}
