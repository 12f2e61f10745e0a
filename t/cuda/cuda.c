/* What is special to CUDA: a forced architecture, the user's stream and
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

/* A product whose values do not matter. */
static void some_gemm(layerops_type type) {
  uint32_t zeros[3][64] = {{0}};
  layerops_gemm_args args = {.a = layerops_host_matrix(zeros[0], type, 8, 8),
                             .b = layerops_host_matrix(zeros[1], type, 8, 8),
                             .c = layerops_host_matrix(zeros[2], type, 8, 8)};
  is_ok(layerops_gemm(ctx, &args), "a product");
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

static void test_architecture(void) {
  refused(open_with("LAYEROPS_CUDA_ARCH", "75x"), LAYEROPS_ERROR_INVALID,
          "LAYEROPS_CUDA_ARCH is \"75x\"", "an architecture that is none");
  refused(open_with("LAYEROPS_CUDA_ARCH", "999"), LAYEROPS_ERROR_INVALID,
          "LAYEROPS_CUDA_ARCH is \"999\"", "an architecture later than the device");
  if (!is_ok(open_with("LAYEROPS_CUDA_ARCH", "75"), "LAYEROPS_CUDA_ARCH=75 opens")) return;
  some_gemm(LAYEROPS_F16);
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

/* The user's own work on his stream, before and behind ours, with no wait between: his numbers are
 * what ours multiplies, and what he copies is our product. */
static void interleave(CUstream stream, CUdeviceptr memory) {
  enum { ROWS = 16, COLS = 8, DEPTH = 32 }; /* 4096 bytes hold all three matrices */
  layerops_open_args args = {.device = "cuda:0", .queue = stream};
  layerops_buffer *x = NULL, *w = NULL, *y = NULL;
  if (!is_ok(layerops_open_with(&args, &ctx), "a context on the user's stream again")) return;
  char *at = (char *)(uintptr_t)memory;
  is_ok(layerops_buffer_wrap(ctx, at, 4 * ROWS * DEPTH, &x), "the user's X");
  is_ok(layerops_buffer_wrap(ctx, at + 2048, 4 * COLS * DEPTH, &w), "W");
  is_ok(layerops_buffer_wrap(ctx, at + 3072, 4 * ROWS * COLS, &y), "Y");
  layerops_linear_args layer = {.x = layerops_matrix_f32(x, ROWS, DEPTH),
                                .w = layerops_matrix_f32(w, COLS, DEPTH),
                                .y = layerops_matrix_f32(y, ROWS, COLS)};
  is_ok(layerops_linear_forward(ctx, &layer), "a first call");
  const float values[] = {1, 2, 3};
  float got[3][ROWS * COLS];
  int failed = 0;
  for (int i = 0; i < 3; i++) {
    unsigned bits;
    memcpy(&bits, &values[i], 4);
    failed += DRIVER(cuMemsetD32Async)(memory, bits, ROWS * DEPTH, stream) ||
              DRIVER(cuMemsetD32Async)(memory + 2048, bits, COLS * DEPTH, stream) ||
              layerops_linear_forward(ctx, &layer) ||
              DRIVER(cuMemcpyDtoHAsync)(got[i], memory + 3072, sizeof got[i], stream);
  }
  failed += DRIVER(cuStreamSynchronize)(stream) != CUDA_SUCCESS;
  for (int i = 0; i < 3; i++)
    for (int j = 0; j < ROWS * COLS; j++) failed += got[i][j] != DEPTH * values[i] * values[i];
  ok(!failed, "the user's work and ours come one after the other");
  layerops_buffer_destroy(x);
  layerops_buffer_destroy(w);
  layerops_buffer_destroy(y);
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
  some_gemm(LAYEROPS_F32);
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
  interleave(stream, memory);
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
  test_faults();
  test_writes();
  return done();
}
