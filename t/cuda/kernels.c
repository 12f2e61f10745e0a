/* Every kernel for products by name, as backends/cuda/kernels.c lists them: all orders, types,
 * parts of k and architectures that it is for, next to a plain loop. */
#include <config.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <layerops/layerops.h>

#include "t/tap.h"

#ifndef HAVE_CUDA
int main(void) {
  skip("the kernels of CUDA", "configured without cuda");
  return done();
}
#else

#include "backends/cuda/plan.h"

typedef struct shape {
  int64_t m, n, k, batch;
} shape;

/* Small whole numbers: a product of them is exact in every type, whatever the order. */
static unsigned seed = 1;
static int whole(void) {
  seed = seed * 1664525u + 1013904223u;
  return (int)(seed >> 28) - 8;
}

static uint16_t narrow(float f, layerops_type type) {
  uint32_t u;
  memcpy(&u, &f, 4);
  if (type == LAYEROPS_BF16 || f == 0) return (uint16_t)(u >> 16);
  return (uint16_t)((u >> 16 & 0x8000) | (((u >> 13) & 0x3ffff) - (112 << 10))); /* the bias */
}

static void put(void *p, int64_t at, int value, layerops_type type) {
  if (type == LAYEROPS_F32)
    ((float *)p)[at] = (float)value;
  else if (type == LAYEROPS_I8)
    ((int8_t *)p)[at] = (int8_t)value;
  else if (type == LAYEROPS_U8)
    ((uint8_t *)p)[at] = (uint8_t)value;
  else
    ((uint16_t *)p)[at] = narrow((float)value, type);
}

static layerops_context *ctx;

typedef struct operand {
  layerops_matrix view; /* on the device: a copy of memory */
  layerops_buffer *buffer;
  void *memory;
  int8_t *value;
} operand;

/* Rows are padded to `align` bytes, as a kernel wants them, to an odd number of elements
 * where it is -1; NaN (or 77) lies between them. */
static operand make(layerops_type type, int64_t rows, int64_t cols, int64_t batch, int align) {
  int64_t size = (int64_t)layerops_type_size(type), each = align > size ? align / size : 1;
  int64_t stride = align < 0 ? cols | 1 : (cols + each - 1) / each * each;
  operand o = {.memory = malloc((size_t)(rows * stride * batch * size)),
               .value = malloc((size_t)(rows * cols * batch))};
  memset(o.memory, type == LAYEROPS_I8 || type == LAYEROPS_U8 ? 77 : 0xff,
         (size_t)(rows * stride * batch * size));
  for (int64_t i = 0; i < rows * batch; i++)
    for (int64_t j = 0; j < cols; j++) {
      int v = whole();
      o.value[i * cols + j] = (int8_t)(type == LAYEROPS_U8 ? v + 8 : v);
      put(o.memory, i * stride + j, o.value[i * cols + j], type);
    }
  if (layerops_buffer_from(ctx, o.memory, rows * stride * batch * size, &o.buffer))
    diag("%s", layerops_last_error());
  o.view = layerops_matrix_of(o.buffer, type, rows, cols);
  o.view.stride = stride;
  o.view.batch = batch;
  o.view.batch_stride = rows * stride;
  return o;
}

static int64_t count_wrong(shape s, int trans_a, int trans_b, const int8_t *a, const int8_t *b,
                           const float *c) {
  int64_t wrong = 0;
  for (int64_t l = 0; l < s.batch; l++, a += s.m * s.k, b += s.k * s.n, c += s.m * s.n)
    for (int64_t i = 0; i < s.m; i++)
      for (int64_t j = 0; j < s.n; j++) {
        int sum = 0;
        for (int64_t p = 0; p < s.k; p++)
          sum += a[trans_a ? p * s.m + i : i * s.k + p] * b[trans_b ? j * s.k + p : p * s.n + j];
        wrong += (float)sum != c[i * s.n + j];
      }
  return wrong;
}

/* The number of wrong elements, or -1. */
static int64_t try_gemm(shape s, int order, layerops_type type, uint32_t flags, int align,
                        const lo_cuda_kernel *k) {
  int trans_a = order / 2, trans_b = order % 2, rows_a = (int)(trans_a ? s.k : s.m);
  layerops_type type_b = type == LAYEROPS_U8 ? LAYEROPS_I8 : type;
  operand a = make(type, rows_a, trans_a ? s.m : s.k, s.batch, align);
  operand b = make(type_b, trans_b ? s.n : s.k, trans_b ? s.k : s.n, s.batch, align);
  operand c = make(LAYEROPS_F32, s.m, s.n, s.batch, 4);
  layerops_gemm_args args = {.a = a.view,
                             .b = b.view,
                             .c = c.view,
                             .trans_a = trans_a,
                             .trans_b = trans_b,
                             .flags = flags};
  int64_t wrong = -1;
  int64_t bytes = s.m * s.n * s.batch * 4;
  if (layerops_gemm(ctx, &args) == LAYEROPS_OK && !strcmp(layerops_last_kernel(ctx), k->name) &&
      layerops_buffer_read(ctx, c.buffer, c.memory, bytes) == LAYEROPS_OK)
    wrong = count_wrong(s, trans_a, trans_b, a.value, b.value, c.memory);
  operand *all[] = {&a, &b, &c};
  for (int i = 0; i < 3; i++) {
    layerops_buffer_destroy(all[i]->buffer);
    free(all[i]->memory);
    free(all[i]->value);
  }
  return wrong;
}

/* align: as make() has it */
static void try_shapes(const lo_cuda_kernel *k, layerops_type type, int parts, int align) {
  static const shape shapes[] = {{1, 1, 64, 1},      {130, 33, 100, 1}, {37, 129, 70, 3},
                                 {128, 128, 128, 1}, {257, 260, 99, 2}, {64, 64, 1000, 1},
                                 {5, 300, 1500, 1},  {300, 8, 200, 2},  {16, 16, 2048, 1}};
  uint32_t flags = k->kinds & LO_KIND_TF32 ? LAYEROPS_ALLOW_TF32 : 0;
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
    shape s = shapes[i];
    if (k->direct && align > 0) s.k = (s.k + 15) / 16 * 16;
    if (k->few && (s.m < s.n ? s.m : s.n) > k->few) continue;
    if (lo_ceil_div(s.k, k->bk) < 2 * parts - 1) continue; /* no so many parts */
    for (int order = 0; order < 4; order++) {
      if (!(k->orders >> order & 1)) continue;
      int64_t wrong = try_gemm(s, order, type, flags, align, k);
      ok(wrong == 0, "%s %s: %lld x %lld x %lld, batch %lld, order %d, %d parts of k, align %d%s%s", k->name,
         layerops_type_name(type), (long long)s.m, (long long)s.n, (long long)s.k,
         (long long)s.batch, order, parts, align,
         wrong < 0 ? ": "
         : wrong   ? ": wrong"
                   : "",
         wrong < 0 ? layerops_last_error() : "");
    }
  }
}

static void try_kernel(const lo_cuda_kernel *k, layerops_type type, int parts, int architecture) {
  char name[64], arch[16];
  snprintf(name, sizeof name, "%s:%d", k->name, parts);
  snprintf(arch, sizeof arch, "%d", architecture);
  setenv("LAYEROPS_CUDA_KERNEL", name, 1);
  setenv("LAYEROPS_CUDA_ARCH", arch, 1);
  layerops_status status = layerops_open("cuda", &ctx);
  unsetenv("LAYEROPS_CUDA_KERNEL");
  unsetenv("LAYEROPS_CUDA_ARCH");
  if (!ok(status == LAYEROPS_OK, "%s on sm_%d%s%s", name, architecture, status ? ": " : "",
          status ? layerops_last_error() : ""))
    return;
  try_shapes(k, type, parts, k->align);
  if (k->align == LO_CUDA_CHUNK) try_shapes(k, type, parts, -1); /* through copies */
  layerops_close(ctx);
}

/* The newest architecture that the kernel is for and that this device can be. */
static void test_kernel(const lo_cuda_kernel *k, int device) {
  static const struct {
    int kind;
    layerops_type type;
  } types[] = {{LO_KIND_F32, LAYEROPS_F32}, {LO_KIND_TF32, LAYEROPS_F32},
               {LO_KIND_F16, LAYEROPS_F16}, {LO_KIND_BF16, LAYEROPS_BF16},
               {LO_KIND_INT8, LAYEROPS_I8}, {LO_KIND_INT8, LAYEROPS_U8}};
  int architecture = device < k->to ? device : k->to;
  if (architecture < k->from) {
    skip(k->name, "for sm_%d and later: this is sm_%d", k->from, device);
    return;
  }
  for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
    if (!(k->kinds & types[i].kind)) continue;
    try_kernel(k, types[i].type, 1, architecture);
    bool splits = !k->few && (!k->boxes || k->meets);
    if (splits) try_kernel(k, types[i].type, 3, architecture);
  }
}

static const char *why_not(int *architecture) {
  static layerops_device_info list[64];
  size_t count = 0;
  if (layerops_devices(list, 64, &count)) return layerops_last_error();
  for (size_t i = 0; i < count && i < 64; i++)
    if (!strncmp(list[i].name, "cuda", 4)) {
      *architecture = list[i].available ? atoi(list[i].isa + strlen("sm_")) : 0;
      return list[i].available ? NULL : list[i].reason;
    }
  return "cuda is not listed";
}

/* The code that this device loads may be older than the device: a build for sm_75 alone. */
static int usable(int device) {
  char arch[16];
  snprintf(arch, sizeof arch, "%d", device);
  int at = device;
  for (; at >= 75; at--) {
    snprintf(arch, sizeof arch, "%d", at);
    setenv("LAYEROPS_CUDA_ARCH", arch, 1);
    layerops_context *c;
    layerops_status status = layerops_open("cuda", &c);
    unsetenv("LAYEROPS_CUDA_ARCH");
    if (status != LAYEROPS_OK) continue;
    at = lo_cuda(c)->architecture;
    layerops_close(c);
    break;
  }
  return at;
}

static void test_no_such_kernel(void) {
  setenv("LAYEROPS_CUDA_KERNEL", "no_such_kernel", 1);
  layerops_status status = layerops_open("cuda", &ctx);
  unsetenv("LAYEROPS_CUDA_KERNEL");
  if (!ok(status == LAYEROPS_OK, "a kernel that does not exist")) return;
  float x[4] = {0};
  layerops_gemm_args args = {.a = layerops_host_matrix(x, LAYEROPS_F32, 1, 1),
                             .b = layerops_host_matrix(x + 1, LAYEROPS_F32, 1, 1),
                             .c = layerops_host_matrix(x + 2, LAYEROPS_F32, 1, 1)};
  status = layerops_gemm(ctx, &args);
  ok(status == LAYEROPS_ERROR_UNSUPPORTED && strstr(layerops_last_error(), "no_such_kernel"),
     "no kernel is left: %s", layerops_last_error());
  layerops_close(ctx);
}

/* An argument: only the kernels whose name begins with it. */
int main(int argc, char **argv) {
  int device = 0;
  const char *reason = why_not(&device), *required = getenv("LAYEROPS_TEST_REQUIRE");
  if (reason && required && strstr(required, "cuda")) {
    ok(0, "cuda is required, but absent: %s", reason);
    return done();
  }
  ok(lo_cuda_kernel_count > 0, "%d kernels are listed", lo_cuda_kernel_count);
  for (int i = 0; i < lo_cuda_kernel_count; i++)
    for (int j = 0; j < i; j++)
      if (!strcmp(lo_cuda_kernels[i].name, lo_cuda_kernels[j].name))
        ok(0, "two kernels are called %s", lo_cuda_kernels[i].name);
  if (reason) {
    skip("the kernels on a device", "%s", reason);
    return done();
  }
  test_no_such_kernel();
  device = usable(device);
  const char *only = argc > 1 ? argv[1] : "";
  for (int i = 0; i < lo_cuda_kernel_count; i++)
    if (!strncmp(lo_cuda_kernels[i].name, only, strlen(only)))
      test_kernel(&lo_cuda_kernels[i], device);
  return done();
}
#endif
