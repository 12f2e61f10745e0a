/* Every kernel for block-sparse weights of 16-bit types by name, next to a plain loop over small
 * whole numbers, whose sums are exact in any order: sizes of blocks, ragged ones, rows that begin
 * anywhere, both products and the gradient of the values. A kernel refuses what it is not for; each
 * has to take something. */
#include <config.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <layerops/layerops.h>

#include "t/tap.h"

#ifndef HAVE_CUDA
int main(void) {
  skip("the block-sparse kernels of CUDA", "configured without cuda");
  return done();
}
#else

#include "backends/cuda/bsr_launch.h"
#include "backends/cuda/cuda.h"

enum { FORWARD, DGRAD, WGRAD, PRODUCTS };

typedef struct kernel {
  const char *name;
  int from, to;   /* architectures */
  int first, end; /* products */
  layerops_context *ctx;
  int taken, wrong;
} kernel;

static kernel kernels[] = {
#define X(NAME, ...) {"bsr_direct_" #NAME, 75, 999, FORWARD, WGRAD, NULL, 0, 0},
    LO_CU_BSR_DIRECT(X)
#undef X
#define X(NAME, ...) {"bsr_rings_" #NAME, 80, 999, FORWARD, WGRAD, NULL, 0, 0},
        LO_CU_BSR_RINGS(X)
#undef X
            {"bsr_slab", 80, 999, FORWARD, WGRAD, NULL, 0, 0},
    {"bsr_group", 80, 999, FORWARD, WGRAD, NULL, 0, 0},
    {"bsr_boxes", 90, 90, FORWARD, WGRAD, NULL, 0, 0},
    {"bsr_wgrad_direct", 75, 999, WGRAD, PRODUCTS, NULL, 0, 0},
    {"bsr_wgrad", 80, 999, WGRAD, PRODUCTS, NULL, 0, 0},
    {"bsr_wgrad_boxes", 90, 90, WGRAD, PRODUCTS, NULL, 0, 0},
};
enum { KERNELS = sizeof kernels / sizeof *kernels, LARGEST = 1 << 18 };

/* ---- A problem, and what comes out of it */
typedef struct problem {
  int64_t m, n, k, height, width, pad; /* pad: elements between rows */
  int percent;
  layerops_type type;
  int64_t rows, cols, count; /* of blocks */
} problem;

static int32_t row_start[256], column[LARGEST];
static int8_t w[LARGEST]; /* n x k, 0 where no block is kept */
static int8_t x[LARGEST], dz[LARGEST];
static uint16_t values[LARGEST], x16[LARGEST], dz16[LARGEST];
static float expected[LARGEST], got[LARGEST];

static unsigned seed = 1;
static int below(int n) {
  seed = seed * 1664525u + 1013904223u;
  return (int)((uint64_t)(seed >> 8) * (unsigned)n >> 24);
}

/* Whole numbers from -8 to 7 are a sign, three bits and an exponent in either type. */
static uint16_t narrow(int value, layerops_type type) {
  const float f = (float)value;
  uint32_t u;
  memcpy(&u, &f, 4);
  if (type == LAYEROPS_BF16 || value == 0) return (uint16_t)(u >> 16);
  return (uint16_t)((u >> 16 & 0x8000) | (((u >> 13) & 0x3ffff) - (112 << 10))); /* the bias */
}

static void draw_block(problem *p, int64_t r, int64_t c) {
  uint16_t *to = values + p->count * p->height * p->width;
  for (int64_t i = 0; i < p->height; i++)
    for (int64_t j = 0; j < p->width; j++) {
      const int64_t row = r * p->height + i, col = c * p->width + j;
      const bool in = row < p->n && col < p->k;
      const int value = in ? below(16) - 8 : 0;
      if (in) w[row * p->k + col] = (int8_t)value;
      to[i * p->width + j] = narrow(value, p->type);
    }
  column[p->count++] = (int32_t)c;
}

static void draw(problem *p) {
  p->rows = (p->n + p->height - 1) / p->height, p->cols = (p->k + p->width - 1) / p->width;
  p->count = 0;
  memset(w, 0, (size_t)(p->n * p->k));
  for (int64_t r = 0; r < p->rows; r++) {
    for (int64_t c = 0; c < p->cols; c++)
      if (below(100) < p->percent) draw_block(p, r, c);
    row_start[r + 1] = (int32_t)p->count;
  }
  for (int64_t i = 0; i < p->m * (p->k + p->pad); i++) {
    x[i] = (int8_t)(below(16) - 8);
    x16[i] = narrow(x[i], p->type);
  }
  for (int64_t i = 0; i < p->m * (p->n + p->pad); i++) {
    dz[i] = (int8_t)(below(16) - 8);
    dz16[i] = narrow(dz[i], p->type);
  }
}

static float product_at(const problem *p, int which, int64_t row, int64_t col) {
  int sum = 0;
  if (which == FORWARD)
    for (int64_t i = 0; i < p->k; i++) sum += x[row * (p->k + p->pad) + i] * w[col * p->k + i];
  else if (which == DGRAD)
    for (int64_t i = 0; i < p->n; i++) sum += dz[row * (p->n + p->pad) + i] * w[i * p->k + col];
  else
    for (int64_t i = 0; i < p->m; i++)
      sum += dz[i * (p->n + p->pad) + row] * x[i * (p->k + p->pad) + col];
  return (float)sum;
}

/* Returns how many numbers come out; those of the values lie block by block. */
static int64_t expect(const problem *p, int which) {
  if (which != WGRAD) {
    const int64_t cols = which == FORWARD ? p->n : p->k;
    for (int64_t i = 0; i < p->m * cols; i++)
      expected[i] = product_at(p, which, i / cols, i % cols);
    return p->m * cols;
  }
  const int64_t each = p->height * p->width;
  for (int64_t r = 0; r < p->rows; r++)
    for (int64_t b = row_start[r]; b < row_start[r + 1]; b++)
      for (int64_t i = 0; i < each; i++) {
        const int64_t row = r * p->height + i / p->width;
        const int64_t col = column[b] * p->width + i % p->width;
        expected[b * each + i] = row < p->n && col < p->k ? product_at(p, WGRAD, row, col) : 0.0f;
      }
  return p->count * each;
}

/* ---- A kernel's */
static layerops_matrix padded(const uint16_t *from, const problem *p, int64_t cols) {
  layerops_matrix m = layerops_host_matrix(from, p->type, p->m, cols);
  m.stride = cols + p->pad;
  return m;
}

static layerops_status run(layerops_context *ctx, const problem *p, int which,
                           const layerops_bsr *bsr) {
  const layerops_matrix in = padded(x16, p, p->k), from = padded(dz16, p, p->n);
  if (which == FORWARD) {
    layerops_bsr_linear_forward_args args = {
        .x = in, .w = bsr, .y = layerops_host_matrix(got, LAYEROPS_F32, p->m, p->n)};
    return layerops_bsr_linear_forward(ctx, &args);
  }
  layerops_bsr_linear_backward_args args = {.dy = from, .w = bsr};
  if (which == DGRAD)
    args.dx = layerops_host_matrix(got, LAYEROPS_F32, p->m, p->k);
  else
    args.x = in, args.dw = layerops_host_matrix(got, LAYEROPS_F32, p->count * p->height, p->width);
  return layerops_bsr_linear_backward(ctx, &args);
}

static void try_kernel(kernel *k, const problem *p, int which, int64_t count) {
  const layerops_bsr_args args = {.rows = p->n,
                                  .cols = p->k,
                                  .block = p->height,
                                  .width = p->width,
                                  .count = p->count,
                                  .row_start = row_start,
                                  .column = column,
                                  .values = values,
                                  .type = p->type};
  layerops_bsr *bsr = NULL;
  if (layerops_bsr_create(k->ctx, &args, &bsr) != LAYEROPS_OK) {
    k->wrong++;
    diag("%s: %s", k->name, layerops_last_error());
    return;
  }
  memset(got, 0xff, sizeof got);
  const layerops_status status = run(k->ctx, p, which, bsr);
  if (status == LAYEROPS_OK && !strcmp(layerops_last_kernel(k->ctx), k->name)) {
    const bool same = !memcmp(got, expected, (size_t)count * sizeof *got);
    k->taken++;
    k->wrong += !same;
    if (!same)
      diag("%s: m %lld, n %lld, k %lld, blocks of %lld x %lld, %lld kept, %s, product %d", k->name,
           (long long)p->m, (long long)p->n, (long long)p->k, (long long)p->height,
           (long long)p->width, (long long)p->count, layerops_type_name(p->type), which);
  }
  layerops_bsr_destroy(bsr);
}

static void try_problem(problem p) {
  draw(&p);
  for (int which = 0; which < PRODUCTS; which++) {
    const int64_t count = expect(&p, which);
    if (which == WGRAD && !p.count) continue;
    for (int i = 0; i < KERNELS; i++)
      if (kernels[i].ctx && which >= kernels[i].first && which < kernels[i].end)
        try_kernel(&kernels[i], &p, which, count);
  }
}

/* Of the code that the device runs; 0: there is none. */
static int architecture_of_code(void) {
  layerops_context *ctx;
  if (layerops_open("cuda", &ctx) != LAYEROPS_OK) return 0;
  const int architecture = lo_cuda(ctx)->architecture;
  layerops_close(ctx);
  return architecture;
}

/* Contexts that have one kernel each; none where the device lacks its instructions. */
static bool open_all(void) {
  const int architecture = architecture_of_code();
  for (int i = 0; i < KERNELS; i++) {
    kernel *k = &kernels[i];
    if (architecture < k->from || architecture > k->to) continue;
    setenv("LAYEROPS_CUDA_KERNEL", k->name, 1);
    if (layerops_open("cuda", &k->ctx) != LAYEROPS_OK) k->wrong++;
  }
  unsetenv("LAYEROPS_CUDA_KERNEL");
  return architecture > 0;
}

int main(void) {
  static const int64_t sides[][2] = {{8, 8},  {16, 16}, {32, 32}, {64, 64}, {128, 128},
                                     {8, 32}, {16, 8},  {64, 16}, {32, 64}, {128, 8}};
  static const int64_t shapes[][4] = {
      {1, 256, 128, 0}, {33, 200, 312, 8}, {70, 129, 255, 1}, {130, 320, 64, 0}, {257, 72, 136, 0}};
  static const int percents[] = {0, 10, 40, 100};
  int tried = 0;
  if (!open_all()) {
    skip("the block-sparse kernels of CUDA", "%s", layerops_last_error());
    return done();
  }
  for (size_t s = 0; s < sizeof sides / sizeof *sides; s++)
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++, tried++)
      try_problem((problem){.m = shapes[i][0],
                            .n = shapes[i][1],
                            .k = shapes[i][2],
                            .pad = shapes[i][3],
                            .height = sides[s][0],
                            .width = sides[s][1],
                            .percent = percents[tried % 4],
                            .type = tried % 2 ? LAYEROPS_BF16 : LAYEROPS_F16});
  for (int i = 0; i < KERNELS; i++) {
    kernel *k = &kernels[i];
    if (!k->ctx && !k->wrong) {
      skip(k->name, "the device lacks its instructions");
      continue;
    }
    ok(!k->wrong && k->taken, "%s: %d of the problems, each right", k->name, k->taken);
    layerops_close(k->ctx);
  }
  return done();
}
#endif
