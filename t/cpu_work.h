/* A little of everything that the CPU backend does, on the same inputs each time: its results are
 * compared byte by byte between threads, stacks, processes. Large enough for several threads, and
 * for blocks of k. */
#ifndef LO_TEST_CPU_WORK_H
#define LO_TEST_CPU_WORK_H

#include <layerops/layerops.h>

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef struct work {
  char *bytes; /* everything lies here */
  size_t used, size;
  uint64_t random;
  layerops_status status; /* of the first operation that failed */
} work;

enum { WORK_BYTES = 48 << 20 };

static inline work work_new(void) {
  work w = {.bytes = calloc(1, WORK_BYTES), .size = WORK_BYTES, .random = 1};
  if (!w.bytes) w.status = LAYEROPS_ERROR_OUT_OF_MEMORY;
  return w;
}

static inline void *work_take(work *w, size_t bytes) {
  void *p = w->bytes + w->used;
  w->used += (bytes + 3) / 4 * 4; /* not a cache line: rows of all alignments */
  if (w->used > w->size) abort();
  return p;
}

/* In [-1, 1). */
static inline float work_number(work *w) {
  w->random = w->random * 6364136223846793005u + 1442695040888963407u;
  return (float)(int32_t)(w->random >> 32) * 0x1p-31f;
}

static inline layerops_matrix work_output(work *w, layerops_type type, int64_t rows, int64_t cols) {
  return layerops_host_matrix(work_take(w, (size_t)(rows * cols) * layerops_type_size(type)), type,
                              rows, cols);
}

static inline layerops_matrix work_f32(work *w, int64_t rows, int64_t cols) {
  layerops_matrix m = work_output(w, LAYEROPS_F32, rows, cols);
  for (int64_t i = 0; i < rows * cols; i++) ((float *)m.host)[i] = work_number(w);
  return m;
}

static inline void work_check(work *w, layerops_status status) {
  if (w->status == LAYEROPS_OK) w->status = status;
}

/* The matrix in another type. */
static inline layerops_matrix work_cast(layerops_context *ctx, work *w, layerops_type type,
                                        layerops_matrix x) {
  layerops_copy_args args = {.x = x, .y = work_output(w, type, x.rows, x.cols)};
  work_check(w, layerops_copy(ctx, &args));
  return args.y;
}

static inline void work_gemm(layerops_context *ctx, work *w, int64_t m, int64_t n, int64_t k,
                             int trans_a, int trans_b) {
  layerops_gemm_args args = {.a = trans_a ? work_f32(w, k, m) : work_f32(w, m, k),
                             .b = trans_b ? work_f32(w, n, k) : work_f32(w, k, n),
                             .c = work_f32(w, m, n),
                             .trans_a = trans_a,
                             .trans_b = trans_b,
                             .alpha = layerops_value(0.75),
                             .beta = layerops_value(0.5)};
  work_check(w, layerops_gemm(ctx, &args));
}

static inline void work_linear(layerops_context *ctx, work *w, layerops_type type) {
  layerops_linear_args args = {.x = work_cast(ctx, w, type, work_f32(w, 130, 300)),
                               .w = work_cast(ctx, w, type, work_f32(w, 170, 300)),
                               .bias = work_f32(w, 1, 170),
                               .residual = work_cast(ctx, w, type, work_f32(w, 130, 170)),
                               .preact = work_output(w, LAYEROPS_F32, 130, 170),
                               .y = work_output(w, type, 130, 170),
                               .activation = LAYEROPS_GELU};
  work_check(w, layerops_linear_forward(ctx, &args));
}

/* With k in blocks, and few rows that several threads divide by columns. */
static inline void work_integers(layerops_context *ctx, work *w) {
  layerops_linear_args args = {.x = work_output(w, LAYEROPS_U8, 70, 9000),
                               .w = work_output(w, LAYEROPS_I8, 170, 9000),
                               .scale_x = work_f32(w, 1, 70),
                               .scale_w = work_f32(w, 1, 170),
                               .zero_x = work_output(w, LAYEROPS_I32, 1, 1),
                               .y = work_output(w, LAYEROPS_F32, 70, 170),
                               .activation = LAYEROPS_GELU};
  for (int i = 0; i < 70 * 9000; i++) ((uint8_t *)args.x.host)[i] = (uint8_t)(i * 7 % 253);
  for (int i = 0; i < 170 * 9000; i++) ((int8_t *)args.w.host)[i] = (int8_t)(i * 11 % 251 - 120);
  *(int32_t *)args.zero_x.host = 100;
  work_check(w, layerops_linear_forward(ctx, &args));
  args.x.rows = 3;
  args.scale_x.cols = 1;
  args.y = work_output(w, LAYEROPS_F32, 3, 170);
  work_check(w, layerops_linear_forward(ctx, &args));
}

static inline void work_backward(layerops_context *ctx, work *w, layerops_type type) {
  layerops_linear_backward_args args = {.dy = work_cast(ctx, w, type, work_f32(w, 700, 90)),
                                        .x = work_cast(ctx, w, type, work_f32(w, 700, 210)),
                                        .w = work_cast(ctx, w, type, work_f32(w, 90, 210)),
                                        .saved = work_f32(w, 700, 90),
                                        .dx = work_output(w, type, 700, 210),
                                        .dx_saved = work_cast(ctx, w, type, work_f32(w, 700, 210)),
                                        .dw = work_f32(w, 90, 210),
                                        .dbias = work_f32(w, 1, 90),
                                        .activation = LAYEROPS_SILU,
                                        .dx_activation = LAYEROPS_RELU,
                                        .beta = layerops_value(1)};
  work_check(w, layerops_linear_backward(ctx, &args));
}

static inline void work_rows(layerops_context *ctx, work *w) {
  layerops_softmax_args softmax = {.x = work_f32(w, 90, 1500),
                                   .y = work_output(w, LAYEROPS_BF16, 90, 1500)};
  work_check(w, layerops_softmax(ctx, &softmax));
  layerops_cross_entropy_args labels = {.logits = work_f32(w, 5000, 10),
                                        .labels = work_output(w, LAYEROPS_I32, 1, 5000),
                                        .loss = work_output(w, LAYEROPS_F32, 1, 1),
                                        .losses = work_output(w, LAYEROPS_F32, 1, 5000),
                                        .dlogits = work_output(w, LAYEROPS_F32, 5000, 10),
                                        .correct = work_output(w, LAYEROPS_I32, 1, 1)};
  for (int i = 0; i < 5000; i++) ((int32_t *)labels.labels.host)[i] = i * 7 % 10;
  work_check(w, layerops_cross_entropy(ctx, &labels));
  layerops_cross_entropy_args soft = {.logits = work_f32(w, 40, 1300),
                                      .probabilities = softmax.x,
                                      .loss = work_output(w, LAYEROPS_F32, 1, 1),
                                      .dlogits = work_output(w, LAYEROPS_F16, 40, 1300)};
  soft.probabilities.rows = 40;
  soft.probabilities.cols = 1300;
  work_check(w, layerops_cross_entropy(ctx, &soft));
  layerops_mse_args mse = {.y = work_f32(w, 700, 77),
                           .target = work_f32(w, 700, 80),
                           .loss = work_output(w, LAYEROPS_F32, 1, 1),
                           .dy = work_output(w, LAYEROPS_F32, 700, 77)};
  mse.target.cols = 77;
  work_check(w, layerops_mse(ctx, &mse));
}

static inline void work_elements(layerops_context *ctx, work *w) {
  layerops_activation_forward_args tanh = {.x = work_f32(w, 300, 300),
                                           .y = work_output(w, LAYEROPS_F32, 300, 300),
                                           .activation = LAYEROPS_TANH};
  work_check(w, layerops_activation_forward(ctx, &tanh));
  layerops_adam_args adam = {.w = work_f32(w, 300, 300),
                             .g = tanh.y,
                             .m = work_output(w, LAYEROPS_F32, 300, 300),
                             .v = work_output(w, LAYEROPS_F32, 300, 300),
                             .step = layerops_value(1)};
  work_check(w, layerops_adam(ctx, &adam));
  layerops_sgd_args sgd = {.w = work_f32(w, 300, 300),
                           .g = tanh.y,
                           .velocity = work_f32(w, 300, 300),
                           .lr = layerops_value(0.1),
                           .momentum = layerops_value(0.9)};
  work_check(w, layerops_sgd(ctx, &sgd));
  layerops_transpose_args transpose = {.x = work_f32(w, 300, 210),
                                       .y = work_output(w, LAYEROPS_F32, 210, 300)};
  work_check(w, layerops_transpose(ctx, &transpose));
  layerops_gather_args gather = {.x = transpose.x,
                                 .index = work_output(w, LAYEROPS_I32, 1, 900),
                                 .y = work_output(w, LAYEROPS_F16, 900, 210)};
  for (int i = 0; i < 900; i++) ((int32_t *)gather.index.host)[i] = i * 11 % 300;
  work_check(w, layerops_gather(ctx, &gather));
  layerops_fill_args fill = {.y = work_output(w, LAYEROPS_U8, 300, 1000),
                             .value = layerops_value(3)};
  work_check(w, layerops_fill(ctx, &fill));
}

/* Rows of 0, 1, 2, 3 blocks in turn. */
static inline void work_bsr(layerops_context *ctx, work *w, int64_t block) {
  enum { ROWS = 12, COLUMNS = 9 };
  int32_t row_start[ROWS + 1] = {0}, column[ROWS * 3];
  for (int r = 0; r < ROWS; r++) {
    row_start[r + 1] = row_start[r] + r % 4;
    for (int i = 0; i < r % 4; i++) column[row_start[r] + i] = (r + 3 * i) % COLUMNS;
    for (int i = 1; i < r % 4; i++) /* ascending */
      for (int j = i; j > 0 && column[row_start[r] + j - 1] > column[row_start[r] + j]; j--) {
        int32_t swap = column[row_start[r] + j];
        column[row_start[r] + j] = column[row_start[r] + j - 1];
        column[row_start[r] + j - 1] = swap;
      }
  }
  layerops_bsr *bsr = NULL;
  layerops_bsr_args args = {.rows = ROWS * block,
                            .cols = COLUMNS * block,
                            .block = block,
                            .count = row_start[ROWS],
                            .row_start = row_start,
                            .column = column,
                            .values = work_f32(w, row_start[ROWS] * block, block).host,
                            .type = LAYEROPS_F32};
  work_check(w, layerops_bsr_create(ctx, &args, &bsr));
  const int64_t n = ROWS * block, k = COLUMNS * block;
  for (int few = 0; few < 2; few++) {
    const int64_t m = few ? 5 : 200;
    layerops_bsr_linear_forward_args linear = {.x = work_f32(w, m, k),
                                               .w = bsr,
                                               .bias = work_f32(w, 1, n),
                                               .y = work_output(w, LAYEROPS_F32, m, n),
                                               .activation = LAYEROPS_SIGMOID};
    work_check(w, layerops_bsr_linear_forward(ctx, &linear));
  }
  for (int32_t layout = 0; layout < 2; layout++) {
    layerops_bsr_linear_backward_args back = {
        .dy = layout ? work_f32(w, n, 200) : work_f32(w, 200, n),
        .x = layout ? work_f32(w, k, 200) : work_f32(w, 200, k),
        .w = bsr,
        .gate = work_f32(w, 1, row_start[ROWS]),
        .dx = work_output(w, LAYEROPS_F32, layout ? k : 200, layout ? 200 : k),
        .dw = work_f32(w, row_start[ROWS] * block, block),
        .dbias = work_f32(w, 1, n),
        .dgate = work_f32(w, 1, row_start[ROWS]),
        .beta = layerops_value(1),
        .layout = layout};
    work_check(w, layerops_bsr_linear_backward(ctx, &back));
  }
  layerops_bsr_destroy(bsr);
}

/* All of it. */
static inline work work_run(layerops_context *ctx) {
  work w = work_new();
  if (!w.bytes) return w;
  work_gemm(ctx, &w, 70, 50, 20000, 0, 1); /* k in blocks */
  work_gemm(ctx, &w, 5, 300, 300, 0, 1);   /* few rows: C^T */
  work_gemm(ctx, &w, 300, 5, 300, 1, 0);
  work_gemm(ctx, &w, 129, 257, 65, 1, 1);
  work_gemm(ctx, &w, 65, 1024, 1024, 0, 0); /* rows a page apart */
  work_linear(ctx, &w, LAYEROPS_F32);
  work_linear(ctx, &w, LAYEROPS_F16);
  work_linear(ctx, &w, LAYEROPS_BF16);
  work_integers(ctx, &w);
  work_backward(ctx, &w, LAYEROPS_F32);
  work_backward(ctx, &w, LAYEROPS_BF16);
  work_rows(ctx, &w);
  work_elements(ctx, &w);
  work_bsr(ctx, &w, 8);
  work_bsr(ctx, &w, 16);
  work_bsr(ctx, &w, 32);
  return w;
}

static inline int work_same(const work *a, const work *b) {
  return !a->status && !b->status && a->used == b->used && !memcmp(a->bytes, b->bytes, a->used);
}

static inline void work_free(work *w) {
  free(w->bytes);
}

#endif
