/* What is special to CUDA: every kernel by name, a forced architecture, the user's stream and
 * memory, the thread's current CUDA context, faults found on the device. */
#include <config.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <layerops/layerops.h>

#include "t/tap.h"

static layerops_context *ctx;

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

static layerops_matrix batched(float *host, int64_t rows, int64_t cols, int64_t batch) {
  layerops_matrix m = layerops_host_matrix(host, LAYEROPS_F32, rows, cols);
  m.batch = batch;
  m.batch_stride = rows * cols;
  return m;
}

/* The number of wrong elements, or -1. */
static int64_t try_gemm(shape s, int trans_a, int trans_b, const char *kernel) {
  float *a = whole_numbers(s.m * s.k * s.batch), *b = whole_numbers(s.k * s.n * s.batch);
  float *c = whole_numbers(s.m * s.n * s.batch);
  layerops_gemm_args args = {.a = batched(a, trans_a ? s.k : s.m, trans_a ? s.m : s.k, s.batch),
                             .b = batched(b, trans_b ? s.n : s.k, trans_b ? s.k : s.n, s.batch),
                             .c = batched(c, s.m, s.n, s.batch),
                             .trans_a = trans_a,
                             .trans_b = trans_b};
  int64_t wrong = -1;
  if (a && b && c && layerops_gemm(ctx, &args) == LAYEROPS_OK &&
      !strcmp(layerops_last_kernel(ctx), kernel)) {
    wrong = 0;
    for (int64_t l = 0; l < s.batch; l++)
      for (int64_t i = 0; i < s.m; i++)
        for (int64_t j = 0; j < s.n; j++) {
          float sum = 0;
          for (int64_t p = 0; p < s.k; p++)
            sum += a[l * s.m * s.k + (trans_a ? p * s.m + i : i * s.k + p)] *
                   b[l * s.k * s.n + (trans_b ? j * s.k + p : p * s.n + j)];
          wrong += sum != c[(l * s.m + i) * s.n + j];
        }
  }
  free(a);
  free(b);
  free(c);
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

static void test_kernel(const char *kernel) {
  static const shape shapes[] = {{1, 1, 64, 1},      {130, 33, 100, 1}, {37, 129, 70, 3},
                                 {128, 128, 128, 1}, {257, 260, 99, 2}, {64, 64, 1000, 1}};
  if (!is_ok(open_with("LAYEROPS_CUDA_KERNEL", kernel), kernel)) return;
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
    shape s = shapes[i];
    int64_t wrong[4];
    for (int t = 0; t < 4; t++) wrong[t] = try_gemm(s, t / 2, t % 2, kernel);
    if (!ok(!wrong[0] && !wrong[1] && !wrong[2] && !wrong[3],
            "%s: %lld x %lld x %lld, batch %lld, transposed every way", kernel, (long long)s.m,
            (long long)s.n, (long long)s.k, (long long)s.batch))
      diag("wrong: nn %lld, nt %lld, tn %lld, tt %lld; kernel %s: %s", (long long)wrong[0],
           (long long)wrong[1], (long long)wrong[2], (long long)wrong[3], layerops_last_kernel(ctx),
           layerops_last_error());
  }
  layerops_close(ctx);
}

static void test_kernels(void) {
  static const char *const kernels[] = {
      "simt_128x128", "simt_128x128_split", "simt_128x32", "simt_128x32_split",
      "simt_32x128",  "simt_32x128_split",  "simt_64x64",  "simt_64x64_split",
      "simt_32x32",   "simt_32x32_split"};
  for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++) test_kernel(kernels[i]);
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
  layerops_close(ctx);
  if (!is_ok(open_with("LAYEROPS_CUDA_ARCH", "75"), "and opens again")) return;
  ok(try_gemm(s, 0, 1, "simt_32x32") >= -1 && layerops_last_kernel(ctx)[0],
     "a kernel of it runs: %s", layerops_last_kernel(ctx));
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
  try_gemm((shape){10, 10, 10, 1}, 0, 0, "");
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
    if (!strncmp(list[i].name, "cuda", 4)) return list[i].available ? NULL : list[i].reason;
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
