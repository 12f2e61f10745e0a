/* Inputs that broke other libraries: what comes out. */
#include <config.h>

#include <float.h>

#include "t/field.h"

#define COUNT(array) ((int64_t)(sizeof(array) / sizeof((array)[0])))

/* ---- shapes and strides ---- */

static void shapes(void) {
  static const int64_t tiles[] = {8, 16, 32}, odd[] = {7, 11, 15, 19, 23};
  int good = 1;
  for (int64_t t = 0; t < COUNT(tiles); t++)
    for (int i = 0; i < 64; i++) {
      int64_t T = tiles[t], sizes[] = {T - 1, T, T + 1, 2 * T + 1};
      good = good && product(ctx, sizes[i % 4], sizes[i / 4 % 4], sizes[i / 16], i % 4);
    }
  CASE(good, "F010 myGEMM #2: T-1, T, T+1, 2T+1 in all combinations");
  good = 1;
  for (int64_t i = 0; i < COUNT(odd); i++)
    good = good && product(ctx, 32, odd[i], 32, 1) && product(ctx, 32, odd[i], 32, 2);
  CASE(good, "F005 clBLAS #246: one operand transposed, odd n");
  float *a = integers(64 * 64, 3), *b = integers(64 * 240, 4), *c = constant(64 * 240, 9);
  layerops_gemm_args args = {
      .a = mat(a, 64, 64), .b = strided(b, 64, 239, 240), .c = strided(c, 64, 239, 240)};
  good = !layerops_gemm(ctx, &args) && product_is(a, 0, b, 0, c, 64, 239, 64, 64, 240, 240);
  for (int i = 0; i < 64; i++) good = good && c[i * 240 + 239] == 9;
  CASE(good, "F015 libxsmm #51: strides beyond the columns");
  free(a);
  free(b);
  free(c);
}

static void half_shapes(void) {
  static const int64_t sizes[][3] = {{2, 4, 3}, {1, 105, 107}, {1, 1, 4096}};
  for (int i = 0; i < 3; i++) {
    int64_t m = sizes[i][0], n = sizes[i][1], k = sizes[i][2];
    uint16_t *x = malloc((size_t)(m * k) * 2), *w = malloc((size_t)(n * k) * 2);
    float *y = constant(m * n, NAN), *bias = integers(n, 5);
    for (int64_t j = 0; j < m * k; j++) x[j] = 0x3c00; /* 1 */
    for (int64_t j = 0; j < n * k; j++) w[j] = 0x3c00;
    layerops_linear_args args = {.x = layerops_host_matrix(x, LAYEROPS_F16, m, k),
                                 .w = layerops_host_matrix(w, LAYEROPS_F16, n, k),
                                 .bias = mat(bias, 1, n),
                                 .y = mat(y, m, n),
                                 .activation = LAYEROPS_RELU};
    int good = !layerops_linear_forward(ctx, &args);
    for (int64_t j = 0; j < m * n; j++) good = good && y[j] == fmaxf(0, (float)k + bias[j % n]);
    CASE(good, "%s in f16",
         i == 0   ? "F016 cutlass #49: 2 x 4 x 3"
         : i == 1 ? "F017 cutlass #506: 1 x 105 x 107 with bias and relu"
                  : "F164 cutlass #1188: 4096 ones sum to 4096");
    free(x);
    free(w);
    free(y);
    free(bias);
  }
}

static void large(void) {
  static const int64_t rows[] = {65537, 100000};
  for (int i = 0; i < 2; i++) {
    float *dy = constant(rows[i] * 129, 1), *db = constant(129, NAN);
    layerops_linear_backward_args args = {.dy = mat(dy, rows[i], 129), .dbias = mat(db, 1, 129)};
    int good = !layerops_linear_backward(ctx, &args);
    for (int j = 0; j < 129; j++) good = good && db[j] == (float)rows[i];
    CASE(good, "F014 pytorch PR 193016: dbias of %d rows", (int)rows[i]);
    free(dy);
    free(db);
  }
  static const int64_t sizes[][2] = {{70000, 3}, {1, ((int64_t)1 << 22) + 1}, {3, 70000}};
  for (int i = 0; i < 3; i++) {
    int64_t count = sizes[i][0] * sizes[i][1];
    float *x = integers(count, 6), *y = constant(count, NAN);
    layerops_activation_forward_args args = {.x = mat(x, sizes[i][0], sizes[i][1]),
                                             .y = mat(y, sizes[i][0], sizes[i][1]),
                                             .activation = LAYEROPS_RELU};
    int good = !layerops_activation_forward(ctx, &args);
    for (int64_t j = 0; j < count; j++) good = good && y[j] == fmaxf(0, x[j]);
    CASE(good, "F032 mlx #2267: relu of %lld x %lld", (long long)sizes[i][0],
         (long long)sizes[i][1]);
    free(x);
    free(y);
  }
}

static void refusals(void) {
  float a[64] = {0}, c[64];
  for (int i = 0; i < 64; i++) c[i] = 5;
  static const char *const names[] = {"gemm: a ", "gemm: b ", "gemm: c "};
  int good = 1;
  for (int i = 0; i < 4; i++) {
    layerops_gemm_args args = {.a = mat(a, 4, 5), .b = mat(a, 5, 6), .c = mat(c, 4, 6)};
    layerops_matrix *views[] = {&args.a, &args.b, &args.c, &args.c};
    views[i]->stride = i < 3 ? views[i]->cols - 1 : -1;
    good = good && layerops_gemm(ctx, &args) == LAYEROPS_ERROR_INVALID &&
           strstr(layerops_last_error(), names[i < 3 ? i : 2]);
  }
  for (int i = 0; i < 64; i++) good = good && c[i] == 5;
  CASE(good,
       "F024 blis PR 871, F028 CLBlast: a stride too small or negative is named, nothing written");
  good = 1;
  for (int i = 0; i < 3; i++) {
    layerops_gemm_args args = {.a = mat(c, 4, 4), .b = mat(c, 4, 4), .c = mat(c, 4, 4)};
    if (i == 1) args.b = mat(a, 4, 4), args.a = mat(c + 4, 4, 4);
    if (i == 2) args.a = mat(a, 4, 4);
    good = good && layerops_gemm(ctx, &args) == LAYEROPS_ERROR_ALIAS;
  }
  CASE(good, "F178 pytorch PR 184094: c over a, over b, one row off");
  layerops_linear_args args = {
      .x = mat(a, 2, 3), .w = mat(a, 4, 3), .bias = mat(NULL, 1, 4), .y = mat(c, 2, 4)};
  good = layerops_linear_forward(ctx, &args) == LAYEROPS_ERROR_INVALID;
  args.bias = (layerops_matrix){0};
  CASE(good && !layerops_linear_forward(ctx, &args),
       "F207 onnxruntime #28541: a bias without memory is refused, no bias is fine");
}

/* ---- NaN, infinity, zeros ---- */

static int is(float got, double want) {
  return isnan(want) ? isnan(got) : (double)got == want;
}

static void relu_of_nan(void) {
  const float base[] = {NAN, -1, 0, 1, INFINITY};
  int good = 1;
  for (int n = 1; n <= 67; n++) {
    float x[67], y[67];
    for (int i = 0; i < n; i++) x[i] = base[i % 5];
    layerops_activation_forward_args args = {
        .x = mat(x, 1, n), .y = mat(y, 1, n), .activation = LAYEROPS_RELU};
    good = good && !layerops_activation_forward(ctx, &args);
    args.y = args.x;
    float before[67];
    memcpy(before, x, sizeof before);
    good = good && !layerops_activation_forward(ctx, &args);
    for (int i = 0; i < n; i++) {
      double want = isnan(before[i]) ? NAN : fmaxf(0, before[i]);
      good = good && is(y[i], want) && is(x[i], want);
    }
  }
  CASE(good, "F040 openvino #35649: relu(NaN) is NaN, lengths 1 to 67, in place too");
  float w[16] = {0}, xs[4] = {0}, bias[16] = {NAN, 0, 0, 0, 0, 0, 0, NAN, 0, 0, 0, 0, 0, 0, 0, NAN},
        y[16];
  layerops_linear_args linear = {.x = mat(xs, 1, 1),
                                 .w = mat(w, 16, 1),
                                 .bias = mat(bias, 1, 16),
                                 .y = mat(y, 1, 16),
                                 .activation = LAYEROPS_RELU};
  good = !layerops_linear_forward(ctx, &linear);
  for (int i = 0; i < 16; i++) good = good && is(y[i], isnan(bias[i]) ? NAN : 0);
  CASE(good, "F043 pytorch #10238: relu(NaN) in the epilogue, at 0, 7 and the last");
  float saved[3] = {NAN, 0, 2}, dy[3] = {1, 1, 1}, dx[3], dz[3];
  layerops_activation_backward_args back = {.dy = mat(dy, 1, 3),
                                            .saved = mat(saved, 1, 3),
                                            .dx = mat(dx, 1, 3),
                                            .activation = LAYEROPS_RELU};
  layerops_linear_backward_args fused = {.dy = mat(dy, 1, 3),
                                         .saved = mat(saved, 1, 3),
                                         .dz = mat(dz, 1, 3),
                                         .activation = LAYEROPS_RELU};
  good = !layerops_activation_backward(ctx, &back) && !layerops_linear_backward(ctx, &fused);
  for (int i = 0; i < 3; i++)
    good = good && is(dx[i], i ? i / 2 : NAN) && is(dz[i], i ? i / 2 : NAN);
  CASE(good, "F044 mxnet PR 14262: relu'(NaN) is NaN and relu'(0) is 0, alone and fused");
}

static void nan_in_products(void) {
  float *a = integers(33 * 17, 7), *b = integers(17 * 33, 8), *c = constant(33 * 33, NAN);
  int good =
      !gemm(ctx, a, 0, b, 0, c, 33, 33, 17) && product_is(a, 0, b, 0, c, 33, 33, 17, 17, 33, 33);
  CASE(good, "F045 MIOpenGEMM #13: beta = 0 over NaN");
  for (int i = 0; i < 33 * 17; i++) a[i] = NAN;
  float old = c[40];
  layerops_gemm_args args = {.a = mat(a, 33, 17),
                             .b = mat(b, 17, 33),
                             .c = mat(c, 33, 33),
                             .alpha = layerops_value(0),
                             .beta = layerops_value(1)};
  good = !layerops_gemm(ctx, &args) && c[40] == old;
  args.beta = layerops_value(0);
  good = good && !layerops_gemm(ctx, &args);
  for (int i = 0; i < 33 * 33; i++) good = good && c[i] == 0;
  CASE(good, "F049 lapack #1077: alpha = 0 reads no NaN; with beta = 0 it gives zeros");
  free(a);
  free(b);
  free(c);
}

static layerops_status soft(float *x, float *y, int64_t n) {
  layerops_softmax_args args = {.x = mat(x, 1, n), .y = mat(y, 1, n)};
  return layerops_softmax(ctx, &args);
}

static void softmaxes(void) {
  static const int sizes[] = {3, 31, 32, 33, 255, 257};
  int good = 1;
  for (int64_t i = 0; i < COUNT(sizes); i++) {
    float x[257], y[257];
    for (int j = 0; j < sizes[i]; j++) x[j] = (float)(j % 3 + 1);
    x[1] = NAN;
    good = good && !soft(x, y, sizes[i]);
    for (int j = 0; j < sizes[i]; j++) good = good && isnan(y[j]);
  }
  CASE(good, "F051 tvm #19518: a NaN is the maximum");
  float x[] = {-249.87f, -424.13f, -460.29f, 378.10f, -292.61f}, y[5];
  good = !soft(x, y, 5);
  for (int j = 0; j < 5; j++) good = good && y[j] == (j == 3);
  CASE(good, "F054 uTensor #175: the maximum is taken off first");
  float rows[][2] = {{INFINITY, 0}, {0, -INFINITY}, {-INFINITY, -INFINITY}};
  static const double want[][2] = {{NAN, NAN}, {1, 0}, {NAN, NAN}};
  good = 1;
  for (int i = 0; i < 3; i++)
    good = good && !soft(rows[i], y, 2) && is(y[0], want[i][0]) && is(y[1], want[i][1]);
  CASE(good, "F056 scipy PR 8872: infinities as documented");
}

static void nothing(void) {
  float c[256], bias[16];
  for (int i = 0; i < 256; i++) c[i] = 3;
  for (int i = 0; i < 16; i++) bias[i] = (float)(i - 8);
  layerops_gemm_args args = {
      .a = mat(NULL, 16, 0), .b = mat(NULL, 0, 16), .c = mat(c, 16, 16), .beta = layerops_value(1)};
  int good = !layerops_gemm(ctx, &args) && c[17] == 3;
  args.beta = layerops_value(0);
  good = good && !layerops_gemm(ctx, &args) && c[17] == 0 && c[255] == 0;
  layerops_linear_args linear = {.x = mat(NULL, 16, 0),
                                 .w = mat(NULL, 16, 0),
                                 .bias = mat(bias, 1, 16),
                                 .y = mat(c, 16, 16),
                                 .activation = LAYEROPS_RELU};
  good = good && !layerops_linear_forward(ctx, &linear);
  for (int i = 0; i < 256; i++) good = good && c[i] == fmaxf(0, bias[i % 16]);
  CASE(good, "F057 onnxruntime #21483: k = 0 gives zeros, beta C, relu(bias)");
  layerops_activation_forward_args act = {
      .x = mat(NULL, 0, 0), .y = mat(NULL, 0, 0), .activation = LAYEROPS_GELU};
  CASE(!layerops_activation_forward(ctx, &act), "F064 darknet #1791: no elements and no pointers");
  static const int32_t start[] = {0, 0, 0};
  layerops_bsr_args make = {
      .rows = 32, .cols = 32, .block = 16, .row_start = start, .type = LAYEROPS_F32};
  layerops_bsr *w = NULL;
  float x[64] = {1}, y[64];
  for (int i = 0; i < 64; i++) y[i] = NAN;
  good = !layerops_bsr_create(ctx, &make, &w);
  layerops_bsr_linear_forward_args sparse = {.x = mat(x, 2, 32), .w = w, .y = mat(y, 2, 32)};
  good = good && !layerops_bsr_linear_forward(ctx, &sparse);
  for (int i = 0; i < 64; i++) good = good && y[i] == 0;
  layerops_bsr_destroy(w);
  make.rows = 0;
  good = good && !layerops_bsr_create(ctx, &make, &w);
  sparse = (layerops_bsr_linear_forward_args){.x = mat(x, 2, 32), .w = w, .y = mat(NULL, 2, 0)};
  good = good && !layerops_bsr_linear_forward(ctx, &sparse);
  layerops_bsr_destroy(w);
  CASE(good, "F063 pytorch #90693: a sparse matrix without blocks, without rows");
}

static void blocks(void) {
  static const int64_t wrong[] = {0, 1, 2, 3, 12};
  int good = 1;
  for (int64_t i = 0; i < COUNT(wrong); i++) {
    static const int32_t start[17];
    layerops_bsr *w = NULL;
    layerops_bsr_args a = {
        .rows = 16, .cols = 16, .block = wrong[i], .row_start = start, .type = LAYEROPS_F32};
    layerops_status want = wrong[i] ? LAYEROPS_ERROR_UNSUPPORTED : LAYEROPS_ERROR_INVALID;
    good = good && layerops_bsr_create(ctx, &a, &w) == want && !w;
  }
  CASE(good, "F065 pytorch #190048, F181 triton #360: blocks of 0, 1, 2, 3, 12 are refused");
  good = 1;
  for (int empty = 0; empty < 4 && good;
       empty++) { /* dims of 96 = 3 blocks of 32; row `empty` is empty */
    int32_t start[4] = {0}, column[3] = {2, 0, 1};
    float *values = constant(3 * 1024, 1), *x = integers(5 * 96, 9), *y = constant(5 * 96, NAN);
    layerops_bsr *w = NULL;
    int32_t kept = 0;
    for (int r = 0; r < 3; r++) start[r + 1] = kept += r != empty;
    layerops_bsr_args a = {.rows = 96,
                           .cols = 96,
                           .block = 32,
                           .count = kept,
                           .row_start = start,
                           .column = column,
                           .values = values,
                           .type = LAYEROPS_F32};
    good = !layerops_bsr_create(ctx, &a, &w);
    layerops_bsr_linear_forward_args args = {.x = mat(x, 5, 96), .w = w, .y = mat(y, 5, 96)};
    good = good && !layerops_bsr_linear_forward(ctx, &args);
    for (int i = 0; i < 5 * 96; i++) {
      int r = i % 96 / 32;
      float want = 0;
      for (int p = 0; p < 32 && r != empty; p++) want += x[i / 96 * 96 + column[start[r]] * 32 + p];
      good = good && y[i] == want;
    }
    layerops_bsr_destroy(w);
    free(values);
    free(x);
    free(y);
  }
  CASE(
      good,
      "F184 xformers PR 202, F192 megablocks #114: empty block rows over NaN, odd multiples of 32");
}

/* ---- functions ---- */

static void activations(void) {
  float x[100], y[100], t[100];
  double worst = 0, apart = 0;
  for (int i = 0; i < 100; i++) x[i] = (float)(-3 + 6.0 * i / 99);
  layerops_activation_forward_args args = {
      .x = mat(x, 1, 100), .y = mat(y, 1, 100), .activation = LAYEROPS_GELU};
  int good = !layerops_activation_forward(ctx, &args);
  args.y = mat(t, 1, 100);
  args.activation = LAYEROPS_GELU_TANH;
  good = good && !layerops_activation_forward(ctx, &args);
  for (int i = 0; i < 100; i++) {
    double z = x[i], u = sqrt(2 / M_PI) * (z + 0.044715 * z * z * z);
    worst = fmax(worst, fabs(y[i] - 0.5 * z * erfc(-z * M_SQRT1_2)));
    worst = fmax(worst, fabs(t[i] - 0.5 * z * (1 + tanh(u))));
    apart = fmax(apart, fabs(y[i] - t[i]));
  }
  CASE(good && worst < 1e-6 && apart > 1e-4,
       "F160 oneDNN #1122: gelu and gelu_tanh are two (%g, %g apart)", worst, apart);
  float far[] = {11, 15, 40, 1e4f, FLT_MAX, -11, -15, -40, -1e4f, -FLT_MAX}, out[10];
  args = (layerops_activation_forward_args){
      .x = mat(far, 1, 10), .y = mat(out, 1, 10), .activation = LAYEROPS_TANH};
  good = !layerops_activation_forward(ctx, &args);
  for (int i = 0; i < 10; i++) good = good && fabsf(out[i] - (i < 5 ? 1 : -1)) < 1e-6f;
  args.activation = LAYEROPS_GELU_TANH;
  good = good && !layerops_activation_forward(ctx, &args);
  for (int i = 0; i < 10; i++)
    good = good && (i < 5 ? fabsf(out[i] / far[i] - 1) < 1e-6f : fabsf(out[i]) < 1e-20f);
  CASE(good, "F163 llm-scaler PR 484: tanh and gelu_tanh far out");
  static float a[64 * 64], w[64 * 64], c[3][64 * 64];
  for (int i = 0; i < 64 * 64; i++)
    a[i] = (float)(i % 13) / 13 - 0.5f, w[i] = (float)(i % 7) / 7 - 0.4f;
  static const layerops_activation kinds[] = {LAYEROPS_RELU, LAYEROPS_GELU, LAYEROPS_IDENTITY};
  good = 1;
  for (int i = 0; i < 3; i++) {
    layerops_linear_args linear = {
        .x = mat(a, 64, 64), .w = mat(w, 64, 64), .y = mat(c[i], 64, 64), .activation = kinds[i]};
    good = good && !layerops_linear_forward(ctx, &linear);
  }
  for (int i = 0; i < 64 * 64; i++) {
    double z = c[2][i];
    good = good && c[0][i] == fmax(0, z) && fabs(c[1][i] - 0.5 * z * erfc(-z * M_SQRT1_2)) < 1e-5;
  }
  CASE(good, "F087 tensorflow PR 58149: relu, gelu and none of the same product are three");
}

static void adam(void) {
  float w = 1, g = 1e-8f, m = 0, v = 0;
  layerops_adam_args args = {.w = mat(&w, 1, 1),
                             .g = mat(&g, 1, 1),
                             .m = mat(&m, 1, 1),
                             .v = mat(&v, 1, 1),
                             .lr = layerops_value(0.5),
                             .step = layerops_value(1),
                             .decoupled = 1};
  int good = !layerops_adam(ctx, &args);
  CASE(good && fabsf(w - 0.75f) < 1e-4f, "F167 nanochat #304: epsilon after the correction (%g)",
       (double)w);
  w = 0, g = 1, m = v = 0;
  good = !layerops_adam(ctx, &args);
  CASE(good && fabsf(w + 0.5f) < 1e-4f, "F170 apex #1124: the first update is lr (%g)", (double)w);
}

static void labels(void) {
  float logits[12] = {0}, losses[4], d[12], loss = 5;
  int32_t y[] = {0, 2, 255, 254};
  layerops_cross_entropy_args args = {.logits = mat(logits, 4, 3),
                                      .labels = layerops_host_matrix(y, LAYEROPS_I32, 1, 4),
                                      .ignore_label = layerops_value(255),
                                      .loss = mat(&loss, 1, 1),
                                      .losses = mat(losses, 1, 4),
                                      .dlogits = mat(d, 4, 3)};
  CASE(layerops_cross_entropy(ctx, &args) == LAYEROPS_ERROR_LABEL && loss == 5 &&
           strstr(layerops_last_error(), "254"),
       "F172 pytorch #117532: label 254 of 3 classes, 255 being ignored");
  for (int i = 0; i < 4; i++) y[i] = 255;
  int good = !layerops_cross_entropy(ctx, &args) && loss == 0;
  for (int i = 0; i < 12; i++) good = good && d[i] == 0;
  CASE(good, "F174 torchtune #2341: all labels ignored: loss and gradient are 0");
}

/* ---- the same bits ---- */

static void determinism(void) {
  enum { K = 56, N = 444 };
  float *x = numbers(64 * K), *w = numbers(N * K), *y[3];
  static const int64_t rows[] = {1, 7, 64};
  for (int i = 0; i < 64 * K; i++) x[i] = sinf((float)i);
  for (int i = 0; i < N * K; i++) w[i] = cosf((float)i);
  int good = 1;
  for (int i = 0; i < 3; i++) {
    y[i] = numbers(rows[i] * N);
    layerops_linear_args args = {.x = mat(x, rows[i], K),
                                 .w = mat(w, N, K),
                                 .y = mat(y[i], rows[i], N),
                                 .flags = LAYEROPS_BATCH_INVARIANT};
    good = good && !layerops_linear_forward(ctx, &args) && !memcmp(y[i], y[0], N * sizeof(float));
  }
  CASE(good, "F156 oneDNN #789: row 0 has the same bits in batches of 1, 7, 64");
  for (int i = 0; i < 3; i++) free(y[i]);
  free(x);
  free(w);
  static const int64_t sizes[][3] = {{200, 300, 400}, {8, 8, 20000}, {1, 500, 3000}};
  for (int s = 0; s < 3; s++) {
    int64_t m = sizes[s][0], n = sizes[s][1], k = sizes[s][2];
    float *a = numbers(m * k), *b = numbers(k * n), *first = numbers(m * n), *c = numbers(m * n);
    for (int64_t i = 0; i < m * k; i++) a[i] = sinf((float)i);
    for (int64_t i = 0; i < k * n; i++) b[i] = cosf((float)i);
    good = !gemm(ctx, a, 0, b, 0, first, m, n, k);
    for (int i = 0; i < 20; i++)
      good = good && !gemm(ctx, a, 0, b, 0, c, m, n, k) && !memcmp(c, first, (size_t)(m * n) * 4);
    CASE(good, "F158 blis #406: %lld x %lld x %lld has the same bits 20 times", (long long)m,
         (long long)n, (long long)k);
    free(a);
    free(b);
    free(c);
    free(first);
  }
}

static void run(const char *name) {
  device = name;
  if (layerops_open(name, &ctx)) {
    ok(0, "%s opens: %s", name, layerops_last_error());
    return;
  }
  shapes();
  half_shapes();
  large();
  refusals();
  relu_of_nan();
  nan_in_products();
  softmaxes();
  nothing();
  blocks();
  activations();
  adam();
  labels();
  determinism();
  layerops_close(ctx);
}

int main(void) {
  for_each_device(run);
  return done();
}
