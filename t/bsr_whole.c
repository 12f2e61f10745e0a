/* Block-sparse weights that keep all blocks are the dense layer, bit for bit, where both add up in
 * one order: the reference does, the CPU in f32 while k is one panel and blocks are no smaller than
 * vectors, and OpenCL where samples are so many that W is not read along k. */
#include <config.h>

#include <stdlib.h>
#include <string.h>

#include "t/devices.h"
#include "t/is.h"

enum { LARGEST = 1 << 20 };
static float x[LARGEST], w[LARGEST], dy[LARGEST], bias[4096], kept[LARGEST], dense[LARGEST];

static void draw(float *values, int64_t count) {
  static uint32_t state = 1;
  for (int64_t i = 0; i < count; i++) {
    state = state * 1664525 + 1013904223;
    values[i] = (float)(state >> 8) * 0x1p-24f - 0.5f;
  }
}

typedef struct layer {
  layerops_context *ctx;
  layerops_bsr *bsr;
  int64_t m, n, k, block;
} layer;

static layerops_matrix view(const float *values, int64_t rows, int64_t cols) {
  return layerops_host_matrix(values, LAYEROPS_F32, rows, cols);
}

static layerops_status make(layer *l) {
  const layerops_bsr_dense_args args = {
      .w = view(w, l->n, l->k), .block = l->block, .type = LAYEROPS_F32};
  draw(x, l->m * l->k);
  draw(w, l->n * l->k);
  draw(dy, l->m * l->n);
  draw(bias, l->n);
  return layerops_bsr_from_dense(l->ctx, &args, &l->bsr);
}

static layerops_status forward(const layer *l) {
  const layerops_bsr_linear_forward_args sparse = {.x = view(x, l->m, l->k),
                                                   .w = l->bsr,
                                                   .bias = view(bias, 1, l->n),
                                                   .y = view(kept, l->m, l->n),
                                                   .activation = LAYEROPS_GELU};
  const layerops_linear_forward_args all = {.x = sparse.x,
                                            .w = view(w, l->n, l->k),
                                            .bias = sparse.bias,
                                            .y = view(dense, l->m, l->n),
                                            .activation = LAYEROPS_GELU};
  const layerops_status status = layerops_bsr_linear_forward(l->ctx, &sparse);
  return status ? status : layerops_linear_forward(l->ctx, &all);
}

static layerops_status dgrad(const layer *l) {
  const layerops_bsr_linear_backward_args sparse = {
      .dy = view(dy, l->m, l->n), .w = l->bsr, .dx = view(kept, l->m, l->k)};
  const layerops_linear_backward_args all = {
      .dy = sparse.dy, .w = view(w, l->n, l->k), .dx = view(dense, l->m, l->k)};
  const layerops_status status = layerops_bsr_linear_backward(l->ctx, &sparse);
  return status ? status : layerops_linear_backward(l->ctx, &all);
}

static void test(layerops_context *ctx, const char *device, int64_t m, int64_t n, int64_t k,
                 int64_t block) {
  static const struct {
    const char *name;
    layerops_status (*run)(const layer *l);
  } products[] = {{"forward", forward}, {"dgrad", dgrad}};
  layer l = {ctx, NULL, m, n, k, block};
  const layerops_status made = make(&l);
  for (size_t i = 0; i < sizeof products / sizeof *products; i++) {
    const size_t bytes = (size_t)(m * (i ? k : n)) * sizeof(float);
    const layerops_status status = made ? made : products[i].run(&l);
    ok(!status && !layerops_sync(ctx) && !memcmp(kept, dense, bytes),
       "%s: %s, m=%lld n=%lld k=%lld, blocks of %lld", device, products[i].name, (long long)m,
       (long long)n, (long long)k, (long long)block);
    if (status) diag("%s", layerops_last_error());
  }
  layerops_bsr_destroy(l.bsr);
}

static void run(const char *name, int64_t fewest, int64_t longest, int64_t smallest) {
  static const int64_t sizes[][4] = {{32, 64, 64, 16},     {1, 64, 96, 32},    {5, 128, 64, 64},
                                     {33, 24, 136, 8},     {64, 100, 130, 16}, {7, 12, 20, 4},
                                     {100, 256, 512, 128}, {40, 64, 2048, 32}};
  layerops_context *ctx = NULL;
  if (layerops_open(name, &ctx)) {
    ok(0, "%s: %s", name, layerops_last_error());
    return;
  }
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
    if (sizes[i][0] >= fewest && sizes[i][2] <= longest && sizes[i][3] >= smallest)
      test(ctx, name, sizes[i][0], sizes[i][1], sizes[i][2], sizes[i][3]);
  layerops_close(ctx);
}

static void run_opencl(const char *name) {
  if (!strncmp(name, "opencl", 6)) run(name, 13, 2048, 8);
}

int main(void) {
  run("reference", 1, 2048, 4);
  run("cpu", 1, 512, 8);
  for_each_device(run_opencl);
  return done();
}
