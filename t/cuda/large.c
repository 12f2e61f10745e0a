/* More than 2^31 elements, and more than 65,535 blocks in each direction of a grid. Each result is
 * looked at around its beginning, the element 2^31, and its end. Needs a device with 16 GB. */
#include <config.h>

#include <stdlib.h>
#include <string.h>

#include <layerops/layerops.h>

#include "t/devices.h"

enum { COLS = 4096, LOOK = 64 };
static const int64_t rows = (INT64_C(1) << 31) / COLS + 3, count = COLS * rows;

static layerops_context *ctx;
static layerops_buffer *x, *y;

static int is_ok(layerops_status status, const char *what) {
  return ok(status == LAYEROPS_OK, "%s%s%s", what, status ? ": " : "",
            status ? layerops_last_error() : "");
}

static layerops_matrix all_of(layerops_buffer *buffer) {
  return layerops_matrix_of(buffer, LAYEROPS_F16, rows, COLS);
}

/* An f16 that is a small whole number or a half. */
static float value_of(uint16_t h) {
  if (!(h & 0x7fff)) return 0;
  uint32_t u = (uint32_t)(h & 0x8000) << 16 | ((uint32_t)(h & 0x7fff) + (112 << 10)) << 13;
  float f;
  memcpy(&f, &u, 4);
  return f;
}

/* How many of the elements that are looked at are not what `wanted` says; -1: they cannot be read.
 */
static int count_wrong(layerops_buffer *buffer, float (*wanted)(int64_t at)) {
  const int64_t places[] = {0, (INT64_C(1) << 31) - LOOK / 2, count - LOOK};
  int wrong = 0;
  for (int i = 0; i < 3; i++) {
    uint16_t seen[LOOK];
    if (layerops_buffer_read_at(ctx, buffer, 2 * places[i], seen, sizeof seen)) return -1;
    for (int j = 0; j < LOOK; j++) wrong += value_of(seen[j]) != wanted(places[i] + j);
  }
  return wrong;
}

static void check(layerops_status status, layerops_buffer *buffer, float (*wanted)(int64_t),
                  const char *what) {
  int wrong = status ? -1 : count_wrong(buffer, wanted);
  ok(!wrong, "%s: %d wrong%s%s", what, wrong, wrong < 0 ? ", " : "",
     wrong < 0 ? layerops_last_error() : "");
}

static layerops_status fill(layerops_matrix m, double value) {
  layerops_fill_args args = {.y = m, .value = layerops_value(value)};
  return layerops_fill(ctx, &args);
}

static float minus_half(int64_t at) {
  (void)at;
  return -0.5f;
}
static float nothing(int64_t at) {
  (void)at;
  return 0;
}
static float two(int64_t at) {
  (void)at;
  return 2;
}
static float by_row(int64_t at) {
  return (float)(at / COLS % 7);
}

static void test_elementwise(void) {
  check(fill(all_of(x), -0.5), x, minus_half, "fill");
  layerops_copy_args copy = {.x = all_of(x), .y = all_of(y)};
  check(layerops_copy(ctx, &copy), y, minus_half, "copy");
  layerops_activation_forward_args relu = {
      .x = all_of(x), .y = all_of(y), .activation = LAYEROPS_RELU};
  check(layerops_activation_forward(ctx, &relu), y, nothing, "activation");
  layerops_status status = fill(all_of(y), 4);
  layerops_sgd_args sgd = {.w = all_of(y), .g = all_of(x), .lr = layerops_value(-4)};
  check(status ? status : layerops_sgd(ctx, &sgd), y, two, "sgd");
}

/* Each row a number of its own, by a product over k = 1. */
static void test_product(void) {
  uint16_t *numbers = calloc((size_t)rows, sizeof *numbers), ones[COLS];
  static const uint16_t codes[7] = {0, 0x3c00, 0x4000, 0x4200, 0x4400, 0x4500, 0x4600};
  layerops_buffer *a = NULL, *b = NULL;
  for (int64_t i = 0; i < rows; i++) numbers[i] = codes[i % 7];
  for (int j = 0; j < COLS; j++) ones[j] = 0x3c00;
  is_ok(layerops_buffer_from(ctx, numbers, 2 * rows, &a), "A");
  is_ok(layerops_buffer_from(ctx, ones, sizeof ones, &b), "B");
  layerops_gemm_args args = {.a = layerops_matrix_of(a, LAYEROPS_F16, rows, 1),
                             .b = layerops_matrix_of(b, LAYEROPS_F16, 1, COLS),
                             .c = all_of(x)};
  check(layerops_gemm(ctx, &args), x, by_row, "gemm");
  layerops_buffer_destroy(a);
  layerops_buffer_destroy(b);
  free(numbers);
}

/* x has the numbers of the rows. */
static void test_moves(void) {
  layerops_transpose_args there = {.x = all_of(x),
                                   .y = layerops_matrix_of(y, LAYEROPS_F16, COLS, rows)};
  is_ok(layerops_transpose(ctx, &there), "transpose");
  is_ok(fill(all_of(x), -1), "x is another");
  layerops_transpose_args back = {.x = there.y, .y = all_of(x)};
  check(layerops_transpose(ctx, &back), x, by_row, "and back");
  int32_t *index = calloc((size_t)rows, sizeof *index);
  layerops_buffer *i = NULL;
  for (int64_t r = 0; r < rows; r++) index[r] = (int32_t)r;
  is_ok(layerops_buffer_from(ctx, index, 4 * rows, &i), "an index");
  layerops_gather_args gather = {
      .x = all_of(x), .index = layerops_vector_i32(i, rows), .y = all_of(y)};
  check(layerops_gather(ctx, &gather), y, by_row, "gather");
  layerops_buffer_destroy(i);
  free(index);
}

/* Rows of equal numbers: softmax is 1 / COLS, a power of two; the mean of squares is known. */
static float even(int64_t at) {
  (void)at;
  return 1.0f / COLS;
}

static void test_rows(void) {
  layerops_softmax_args softmax = {.x = all_of(x), .y = all_of(y)};
  check(layerops_softmax(ctx, &softmax), y, even, "softmax");
  float loss = 0;
  layerops_buffer *l = NULL;
  is_ok(fill(all_of(x), -0.5), "x");
  is_ok(fill(all_of(y), 1.5), "y");
  is_ok(layerops_buffer_create(ctx, 4, &l), "a loss");
  layerops_mse_args mse = {
      .y = all_of(x), .target = all_of(y), .loss = layerops_matrix_f32(l, 1, 1)};
  is_ok(layerops_mse(ctx, &mse), "mse");
  is_ok(layerops_buffer_read(ctx, l, &loss, 4), "is read");
  ok(loss == 4, "the mean of so many equal squares is %g", (double)loss);
  layerops_buffer_destroy(l);
}

/* More matrices than a grid is deep. */
static void test_grids(void) {
  enum { BATCH = 70001 };
  layerops_matrix one = layerops_matrix_f32(x, 1, 1), other = layerops_matrix_f32(y, 1, 1);
  one.batch = other.batch = BATCH;
  one.batch_stride = other.batch_stride = 1;
  float *seen = calloc(BATCH, sizeof *seen);
  is_ok(fill(layerops_matrix_f32(x, 1, BATCH), 3), "numbers");
  layerops_gemm_args args = {.a = one, .b = one, .c = other};
  is_ok(layerops_gemm(ctx, &args), "70,001 products");
  is_ok(layerops_buffer_read(ctx, y, seen, BATCH * sizeof *seen), "read");
  int wrong = 0;
  for (int i = 0; i < BATCH; i++) wrong += seen[i] != 9;
  ok(!wrong, "%d of them wrong", wrong);
  free(seen);
}

static void test(const char *name) {
  layerops_device_info info;
  if (strcmp(name, "cuda:0") || !is_ok(layerops_open(name, &ctx), "open")) return;
  if (layerops_context_info(ctx, &info) || info.memory < INT64_C(16) << 30) {
    skip("large sizes", "the device has %lld bytes", (long long)info.memory);
  } else if (is_ok(layerops_buffer_create(ctx, 2 * count, &x), "4 GB") &&
             is_ok(layerops_buffer_create(ctx, 2 * count, &y), "4 GB more")) {
    test_elementwise();
    test_product();
    test_moves();
    test_rows();
    test_grids();
  }
  layerops_buffer_destroy(x);
  layerops_buffer_destroy(y);
  layerops_close(ctx);
}

int main(void) {
  for_each_device(test);
  return done();
}
