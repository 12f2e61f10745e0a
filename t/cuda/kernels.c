/* Every kernel for products by name, as backends/cuda/kernels.c lists them: all orders, types,
 * parts of k and architectures that it is for, next to a plain loop; and what follows the sums, of
 * which all kernels must make the same bits. */
#include <config.h>

#include <math.h>
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

static uint8_t narrower(float f, layerops_type type) {
  uint16_t half = narrow(f, LAYEROPS_F16);
  if (type == LAYEROPS_F8E5M2 || f == 0) return (uint8_t)(half >> 8);
  return (uint8_t)((half >> 8 & 0x80) | ((half >> 7 & 0xff) - (8 << 3))); /* the bias */
}

static void put(void *p, int64_t at, int value, layerops_type type) {
  if (type == LAYEROPS_F32)
    ((float *)p)[at] = (float)value;
  else if (type == LAYEROPS_I8)
    ((int8_t *)p)[at] = (int8_t)value;
  else if (type == LAYEROPS_U8)
    ((uint8_t *)p)[at] = (uint8_t)value;
  else if (type == LAYEROPS_F8E4M3 || type == LAYEROPS_F8E5M2)
    ((uint8_t *)p)[at] = narrower((float)value, type);
  else
    ((uint16_t *)p)[at] = narrow((float)value, type);
}

static layerops_context *ctx;

/* Of op(A) and op(B). */
typedef struct pair {
  layerops_type a, b;
} pair;

static bool are_integers(pair t) {
  return t.a == LAYEROPS_I8 || t.a == LAYEROPS_U8;
}
static bool are_f8(pair t) {
  return t.a == LAYEROPS_F8E4M3 || t.a == LAYEROPS_F8E5M2;
}

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
                           const int32_t *zero, const float *c) {
  int64_t wrong = 0;
  for (int64_t l = 0; l < s.batch; l++, a += s.m * s.k, b += s.k * s.n, c += s.m * s.n)
    for (int64_t i = 0; i < s.m; i++)
      for (int64_t j = 0; j < s.n; j++) {
        int sum = 0;
        for (int64_t p = 0; p < s.k; p++)
          sum += (a[trans_a ? p * s.m + i : i * s.k + p] - zero[i]) *
                 b[trans_b ? j * s.k + p : p * s.n + j];
        wrong += (float)sum != c[i * s.n + j];
      }
  return wrong;
}

/* The number of wrong elements, or -1. */
static int64_t try_gemm(shape s, int order, pair t, uint32_t flags, int align,
                        const lo_cuda_kernel *k) {
  int trans_a = order / 2, trans_b = order % 2, rows_a = (int)(trans_a ? s.k : s.m);
  int align_b = k->kinds & LO_KINDS_W8 ? k->align : align; /* which is not copied */
  operand a = make(t.a, rows_a, trans_a ? s.m : s.k, s.batch, align);
  operand b = make(t.b, trans_b ? s.n : s.k, trans_b ? s.k : s.n, s.batch, align_b);
  operand c = make(LAYEROPS_F32, s.m, s.n, s.batch, 4);
  const bool integers = are_integers(t);
  int32_t *zero = calloc((size_t)s.m, sizeof *zero);
  for (int64_t i = 0; integers && i < s.m; i++) zero[i] = (int32_t)i % 5;
  layerops_gemm_args args = {.a = a.view,
                             .b = b.view,
                             .c = c.view,
                             .trans_a = trans_a,
                             .trans_b = trans_b,
                             .flags = flags};
  if (integers) args.zero_a = layerops_host_matrix(zero, LAYEROPS_I32, 1, s.m);
  int64_t wrong = -1;
  int64_t bytes = s.m * s.n * s.batch * 4;
  if (layerops_gemm(ctx, &args) == LAYEROPS_OK && !strcmp(layerops_last_kernel(ctx), k->name) &&
      layerops_buffer_read(ctx, c.buffer, c.memory, bytes) == LAYEROPS_OK)
    wrong = count_wrong(s, trans_a, trans_b, a.value, b.value, zero, c.memory);
  operand *all[] = {&a, &b, &c};
  for (int i = 0; i < 3; i++) {
    layerops_buffer_destroy(all[i]->buffer);
    free(all[i]->memory);
    free(all[i]->value);
  }
  free(zero);
  return wrong;
}

/* align: as make() has it */
static void try_shapes(const lo_cuda_kernel *k, pair t, int parts, int align) {
  static const shape shapes[] = {{1, 1, 64, 1},      {130, 33, 100, 1}, {37, 129, 70, 3},
                                 {128, 128, 128, 1}, {257, 260, 99, 2}, {64, 64, 1000, 1},
                                 {5, 300, 1500, 1},  {300, 8, 200, 2},  {16, 16, 2048, 1}};
  uint32_t flags = k->kinds & LO_KIND_TF32 ? LAYEROPS_ALLOW_TF32 : 0;
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
    shape s = shapes[i];
    const bool mixed = k->kinds & LO_KINDS_W8;
    if (k->direct && (align > 0 || mixed)) s.k = (s.k + 15) / 16 * 16;
    if (k->few && (mixed || s.m < s.n ? s.m : s.n) > k->few) continue;
    if (lo_ceil_div(s.k, k->bk) < 2 * parts - 1) continue; /* no so many parts */
    for (int order = 0; order < 4; order++) {
      if (!(k->orders >> order & 1)) continue;
      int64_t wrong = try_gemm(s, order, t, flags, align, k);
      ok(wrong == 0,
         "%s %s, %s: %lld x %lld x %lld, batch %lld, order %d, %d parts of k, align %d%s%s",
         k->name, layerops_type_name(t.a), layerops_type_name(t.b), (long long)s.m, (long long)s.n,
         (long long)s.k, (long long)s.batch, order, parts, align,
         wrong < 0 ? ": "
         : wrong   ? ": wrong"
                   : "",
         wrong < 0 ? layerops_last_error() : "");
    }
  }
}

/* ---- What follows the sums. These are exact, so the bits are those of every other kernel. */
enum { ROWS = 67, COLS = 132, DEPTH = 1040 };

typedef struct ending {
  const char *name;
  layerops_activation activation;
  layerops_type out; /* NONE: that of the operands, or bf16 for those of 8 bits */
  double alpha;
  int scales;  /* of 8-bit integers: 0, 1, or 2 for one a row and a column; with zero points */
  bool scaled; /* mixed pairs: by column */
  bool bias, residual, preact;
  int narrow; /* columns short of COLS: 0 for whole quads */
  int pitch;  /* from a row of Y to the next, with room between them; 0: as many as columns */
  bool many;  /* kernels whose blocks go through tiles: as many as give each several */
} ending;
enum { MANY_ROWS = 1800, MANY_COLS = 2632 };
static int64_t most_rows(const ending *e) {
  return e->many ? MANY_ROWS : ROWS;
}
static int64_t rows_of(const lo_cuda_kernel *k, const ending *e) {
  return k->few && k->few < most_rows(e) ? k->few : most_rows(e);
}
static int64_t cols_of(const ending *e) {
  return (e->many ? MANY_COLS : COLS) - e->narrow;
}
static int64_t pitch_of(const ending *e) {
  return e->pitch ? e->pitch : cols_of(e);
}
/* Of Y, and of the pre-activation behind it. */
static int64_t most_bytes(const ending *e) {
  return 4 * most_rows(e) * pitch_of(e);
}

static const ending endings[] = {
    {"straight", .alpha = 1},
    {"bias, ReLU", .activation = LAYEROPS_RELU, .alpha = 0.3, .bias = true, .out = LAYEROPS_F32},
    {"odd, bias, ReLU", .activation = LAYEROPS_RELU, .alpha = 0.3, .bias = true, .narrow = 3},
    {"bias, GELU", .activation = LAYEROPS_GELU, .alpha = 0.01, .bias = true},
    {"odd, SiLU, residual", .activation = LAYEROPS_SILU, .alpha = 0.02, .residual = true,
     .narrow = 1},
    {"tanh, preact", .activation = LAYEROPS_TANH, .alpha = 0.03, .preact = true},
    {"bias, residual, f32", .bias = true, .residual = true, .alpha = 1, .out = LAYEROPS_F32},
    {"odd, scales, SiLU", .scaled = true, .activation = LAYEROPS_SILU, .alpha = 0.3, .narrow = 1},
    {"scales, bias", .scaled = true, .alpha = 0.7, .bias = true},
    {"to i8", .out = LAYEROPS_I8, .alpha = 1, .scales = 1, .bias = true},
    {"odd, to u8, ReLU", .activation = LAYEROPS_RELU, .out = LAYEROPS_U8, .alpha = 0.7, .scales = 2,
     .bias = true, .narrow = 2},
    {"to u8, GELU", .activation = LAYEROPS_GELU, .out = LAYEROPS_U8, .alpha = 1, .scales = 2,
     .bias = true},
    {"rows apart, bias, GELU", .activation = LAYEROPS_GELU, .alpha = 0.01, .bias = true,
     .pitch = 144},
    {"odd, rows apart, bias, ReLU", .activation = LAYEROPS_RELU, .alpha = 0.3, .bias = true,
     .narrow = 3, .pitch = 144},
    {"many tiles, SiLU", .activation = LAYEROPS_SILU, .alpha = 0.02, .bias = true, .many = true},
    {"many tiles, rows apart, f32", .out = LAYEROPS_F32, .alpha = 0.3, .bias = true, .narrow = 7,
     .pitch = 2640, .many = true},
    {"many tiles, to i8", .out = LAYEROPS_I8, .alpha = 1, .scales = 2, .bias = true, .narrow = 5,
     .pitch = 2640, .many = true},
    {"to i8, sigmoid, residual", .activation = LAYEROPS_SIGMOID, .out = LAYEROPS_I8, .alpha = 1,
     .scales = 1, .bias = true, .residual = true},
};
enum { ENDINGS = sizeof endings / sizeof *endings };

/* What the first kernel of a type made: Y, then the pre-activation. */
typedef struct made {
  int64_t rows;
  char *memory;
} made;
enum { TYPES = LAYEROPS_F8E5M2 + 1 };
static made first_made[TYPES][TYPES][2][ENDINGS]; /* by types, whether TF32 is allowed */

/* Numbers with digits that rounding touches. */
static layerops_buffer *uneven(int64_t count, float scale) {
  float *p = malloc((size_t)count * sizeof *p);
  for (int64_t i = 0; i < count; i++) p[i] = scale * (float)(0.1 + whole() / 7.0);
  layerops_buffer *b = NULL;
  if (layerops_buffer_from(ctx, p, count * 4, &b)) diag("%s", layerops_last_error());
  free(p);
  return b;
}

static layerops_buffer *zeros(int64_t count) {
  int32_t *p = malloc((size_t)count * sizeof *p);
  for (int64_t i = 0; i < count; i++) p[i] = whole();
  layerops_buffer *b = NULL;
  if (layerops_buffer_from(ctx, p, count * 4, &b)) diag("%s", layerops_last_error());
  free(p);
  return b;
}

/* Y and preact, [rows, cols], into `memory`; false if it fails. */
static bool run_ending(const lo_cuda_kernel *k, const ending *e, pair t, uint32_t flags,
                       int64_t rows, layerops_type out, void *memory) {
  int64_t cols = cols_of(e), pitch = pitch_of(e), most = most_rows(e), count = most * cols;
  int64_t size = (int64_t)layerops_type_size(out);
  seed = 7;
  operand w = make(t.b, cols, DEPTH, 1, k->align);
  operand x = make(t.a, rows, DEPTH, 1, k->align); /* the same rows, however many there are */
  seed = 8;
  layerops_buffer *buffers[] = {
      uneven(cols, 1), uneven(count, 1), uneven(most, 0.3f), uneven(cols, 0.2f),
      zeros(most),     uneven(1, 2.1f),  uneven(count, 1),   uneven(most * pitch, 1)};
  enum { BIAS, RESIDUAL, SCALE_X, SCALE_W, ZERO_X, SCALE_Y, PREACT, Y };
  layerops_linear_forward_args args = {.x = x.view,
                                       .w = w.view,
                                       .activation = e->activation,
                                       .alpha = layerops_value(e->alpha),
                                       .flags = flags};
  args.y = layerops_matrix_of(buffers[Y], out, rows, cols);
  args.y.stride = pitch;
  if (e->bias) args.bias = layerops_matrix_of(buffers[BIAS], LAYEROPS_F32, 1, cols);
  if (e->residual) args.residual = layerops_matrix_of(buffers[RESIDUAL], LAYEROPS_F32, rows, cols);
  if (e->preact) args.preact = layerops_matrix_of(buffers[PREACT], LAYEROPS_F32, rows, cols);
  if (e->scaled) args.scale_w = layerops_matrix_of(buffers[SCALE_W], LAYEROPS_F32, 1, cols);
  if (e->scales) {
    int64_t by_row = e->scales == 1 ? 1 : rows, by_column = e->scales == 1 ? 1 : cols;
    args.scale_x = layerops_matrix_of(buffers[SCALE_X], LAYEROPS_F32, 1, by_row);
    args.scale_w = layerops_matrix_of(buffers[SCALE_W], LAYEROPS_F32, 1, by_column);
    args.zero_x = layerops_matrix_of(buffers[ZERO_X], LAYEROPS_I32, 1, by_row);
    args.scale_y = layerops_matrix_of(buffers[SCALE_Y], LAYEROPS_F32, 1, 1);
  }
  bool done =
      layerops_linear_forward(ctx, &args) == LAYEROPS_OK &&
      !strcmp(layerops_last_kernel(ctx), k->name) &&
      layerops_buffer_read(ctx, buffers[Y], memory, rows * pitch * size) == LAYEROPS_OK &&
      (!e->preact || layerops_buffer_read(ctx, buffers[PREACT], (char *)memory + most_bytes(e),
                                          rows * cols * 4) == LAYEROPS_OK);
  for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++) layerops_buffer_destroy(buffers[i]);
  operand *all[] = {&x, &w};
  for (int i = 0; i < 2; i++) {
    layerops_buffer_destroy(all[i]->buffer);
    free(all[i]->memory);
    free(all[i]->value);
  }
  return done;
}

static void try_ending(const lo_cuda_kernel *k, pair t, int parts, int number) {
  const ending *e = &endings[number];
  bool integers = are_integers(t), tf32 = k->kinds & LO_KIND_TF32;
  if (!integers && (e->scales || e->out > LAYEROPS_BF16)) return;
  if (e->scaled && (integers || (t.a == t.b && !are_f8(t)))) return;
  if (e->many && !k->boxes) return;
  layerops_type out = e->out ? e->out : integers || are_f8(t) ? LAYEROPS_BF16 : t.a;
  int64_t rows = rows_of(k, e), most = most_bytes(e);
  int64_t row = pitch_of(e) * (int64_t)layerops_type_size(out);
  char *memory = calloc(2, (size_t)most);
  bool ran = run_ending(k, e, t, tf32 ? LAYEROPS_ALLOW_TF32 : 0, rows, out, memory);
  made *m = &first_made[t.a][t.b][tf32][number];
  if (ran && !m->memory) *m = (made){rows, memory};
  int64_t alike = rows < m->rows ? rows : m->rows;
  ok(ran && !memcmp(memory, m->memory, (size_t)(alike * row)) &&
         !memcmp(memory + most, m->memory + most, (size_t)(alike * cols_of(e) * 4)),
     "%s %s, %s, %d parts of k, %s: the bits of every kernel%s%s", k->name, layerops_type_name(t.a),
     layerops_type_name(t.b), parts, e->name, ran ? "" : ": ", ran ? "" : layerops_last_error());
  if (memory != m->memory) free(memory);
}

/* ---- Quotients near the halves, where an integer shows how a division was rounded: X is 0, so
 * that Y is the bias / scale_y. */
static int to_8(float f, int low) {
  return f != f ? 0 : f < (float)low ? low : f > (float)(low + 255) ? low + 255 : (int)rintf(f);
}

static void try_division(float divisor, layerops_type type) {
  enum { N = 4800, K = 16 };
  static const int8_t nothing[N * K];
  static float numbers[N];
  static uint8_t y[N];
  for (int i = 0; i < N; i++) {
    numbers[i] = (float)(i % 600 - 300) * 0.5f * divisor;
    for (int step = i / 600 - 4; step; step += step < 0 ? 1 : -1)
      numbers[i] = nextafterf(numbers[i], step < 0 ? -INFINITY : INFINITY);
  }
  layerops_linear_forward_args args = {
      .x = layerops_host_matrix((void *)nothing, LAYEROPS_I8, 1, K),
      .w = layerops_host_matrix((void *)nothing, LAYEROPS_I8, N, K),
      .bias = layerops_host_matrix(numbers, LAYEROPS_F32, 1, N),
      .y = layerops_host_matrix(y, type, 1, N),
      .scale_y = layerops_host_matrix(&divisor, LAYEROPS_F32, 1, 1)};
  int wrong = layerops_linear_forward(ctx, &args) != LAYEROPS_OK;
  for (int i = 0; i < N && !wrong; i++)
    wrong = type == LAYEROPS_I8 ? (int8_t)y[i] != to_8(numbers[i] / divisor, -128)
                                : y[i] != to_8(numbers[i] / divisor, 0);
  ok(!wrong, "quotients by %g, as %s", (double)divisor, layerops_type_name(type));
}

static void test_division(void) {
  static const float divisors[] = {0.1f,      3.0f,  0x1.fffffep-1f, -0.7f,   0x1.000002p-100f,
                                   0x1p-120f, 3e37f, 0.0f,           INFINITY};
  if (!ok(layerops_open("cuda", &ctx) == LAYEROPS_OK, "a context: %s", layerops_last_error()))
    return;
  for (size_t i = 0; i < sizeof divisors / sizeof *divisors; i++) {
    try_division(divisors[i], LAYEROPS_I8);
    try_division(divisors[i], LAYEROPS_U8);
  }
  layerops_close(ctx);
}

static void try_kernel(const lo_cuda_kernel *k, pair t, int parts, int architecture) {
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
  try_shapes(k, t, parts, k->align);
  if (k->align == LO_CUDA_CHUNK) try_shapes(k, t, parts, -1); /* through copies */
  bool suits = k->orders & LO_ORDER_NT && lo_ceil_div(DEPTH, k->bk) >= 2 * parts - 1;
  for (int i = 0; i < ENDINGS && suits; i++) try_ending(k, t, parts, i);
  layerops_close(ctx);
}

/* The newest architecture that the kernel is for and that this device can be. */
static void test_kernel(const lo_cuda_kernel *k, int device) {
  static const struct {
    int kind;
    pair types;
  } list[] = {{LO_KIND_F32, {LAYEROPS_F32, LAYEROPS_F32}},
              {LO_KIND_TF32, {LAYEROPS_F32, LAYEROPS_F32}},
              {LO_KIND_F16, {LAYEROPS_F16, LAYEROPS_F16}},
              {LO_KIND_BF16, {LAYEROPS_BF16, LAYEROPS_BF16}},
              {LO_KIND_INT8, {LAYEROPS_I8, LAYEROPS_I8}},
              {LO_KIND_INT8, {LAYEROPS_U8, LAYEROPS_I8}},
              {LO_KIND_F8, {LAYEROPS_F8E4M3, LAYEROPS_F8E4M3}},
              {LO_KIND_F8, {LAYEROPS_F8E4M3, LAYEROPS_F8E5M2}},
              {LO_KIND_F8, {LAYEROPS_F8E5M2, LAYEROPS_F8E5M2}},
              {LO_KIND_F16_W8, {LAYEROPS_F8E4M3, LAYEROPS_F8E4M3}},
              {LO_KIND_F16_W8, {LAYEROPS_F8E4M3, LAYEROPS_F8E5M2}},
              {LO_KIND_F16_W8, {LAYEROPS_F8E5M2, LAYEROPS_F8E4M3}},
              {LO_KIND_F16_W8, {LAYEROPS_F16, LAYEROPS_I8}},
              {LO_KIND_F16_W8, {LAYEROPS_F16, LAYEROPS_F8E4M3}},
              {LO_KIND_F16_W8, {LAYEROPS_F16, LAYEROPS_F8E5M2}},
              {LO_KIND_BF16_W8, {LAYEROPS_BF16, LAYEROPS_I8}},
              {LO_KIND_BF16_W8, {LAYEROPS_BF16, LAYEROPS_F8E4M3}},
              {LO_KIND_BF16_W8, {LAYEROPS_BF16, LAYEROPS_F8E5M2}}};
  int architecture = device < k->to ? device : k->to;
  if (architecture < k->from) {
    skip(k->name, "for sm_%d and later: this is sm_%d", k->from, device);
    return;
  }
  for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
    if (!(k->kinds & list[i].kind)) continue;
    try_kernel(k, list[i].types, 1, architecture);
    bool splits = !k->few && (!k->boxes || k->meets);
    if (splits) try_kernel(k, list[i].types, 3, architecture);
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
  test_division();
  device = usable(device);
  const char *only = argc > 1 ? argv[1] : "";
  for (int i = 0; i < lo_cuda_kernel_count; i++)
    if (!strncmp(lo_cuda_kernels[i].name, only, strlen(only)))
      test_kernel(&lo_cuda_kernels[i], device);
  made *all = &first_made[0][0][0][0];
  for (int i = 0; i < TYPES * TYPES * 2 * ENDINGS; i++) free(all[i].memory);
  return done();
}
#endif
