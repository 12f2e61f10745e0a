/* The oracle itself, against values worked out by hand. */
#include <config.h>

#include <string.h>

#include "t/oracle.h"

/* [1 2 3; 4 5 6] [7 8; 9 10; 11 12], stored either way. */
static const float a_n[] = {1, 2, 3, 4, 5, 6}, a_t[] = {1, 4, 2, 5, 3, 6};
static const float b_n[] = {7, 8, 9, 10, 11, 12}, b_t[] = {7, 9, 11, 8, 10, 12};
static const double ab[] = {58, 64, 139, 154};

static void convert(layerops_type from, const void *x, layerops_type to, void *y, int64_t n) {
  layerops_copy_args args = {.x = layerops_host_matrix(x, from, 1, n),
                             .y = layerops_host_matrix(y, to, 1, n)};
  works(layerops_copy(oracle, &args), "copy");
}

static void test_gemm(void) {
  for (int trans = 0; trans < 4; trans++) {
    float c[4] = {NAN, NAN, NAN, NAN};
    layerops_gemm_args args = {.a = trans & 1 ? mat(a_t, 3, 2) : mat(a_n, 2, 3),
                               .b = trans & 2 ? mat(b_t, 2, 3) : mat(b_n, 3, 2),
                               .c = mat(c, 2, 2),
                               .trans_a = trans & 1,
                               .trans_b = trans >> 1};
    works(layerops_gemm(oracle, &args), "gemm");
    same(c, ab, 4, 0, "gemm in one of four transpositions");
  }
  float c[] = {1, 2, 3, 4};
  layerops_gemm_args args = {.a = mat(a_n, 2, 3),
                             .b = mat(b_n, 3, 2),
                             .c = mat(c, 2, 2),
                             .alpha = layerops_value(0.5),
                             .beta = layerops_value(-2)};
  works(layerops_gemm(oracle, &args), "gemm");
  same(c, (double[]){27, 28, 63.5, 69}, 4, 0, "gemm with alpha and beta");
  float nan[] = {NAN, NAN, NAN, NAN, NAN, NAN}, d[] = {1, 2, 3, 4};
  args = (layerops_gemm_args){.a = mat(nan, 2, 3),
                              .b = mat(nan, 3, 2),
                              .c = mat(d, 2, 2),
                              .alpha = layerops_value(0),
                              .beta = layerops_value(3)};
  works(layerops_gemm(oracle, &args), "gemm");
  same(d, (double[]){3, 6, 9, 12}, 4, 0, "gemm with alpha = 0 reads neither A nor B");
}

static void test_strides_and_batch(void) {
  float a[20] = {NAN, 1, 2, NAN, 3, 4, NAN, NAN, 5, 6, NAN, 7, 8}, b[] = {1, 0, 0, 1, 2, 0, 0, 2};
  float c[12];
  memset(c, 0, sizeof c);
  layerops_gemm_args args = {.a = mat(a, 2, 2), .b = mat(b, 2, 2), .c = mat(c, 2, 2)};
  args.a.offset = 1;
  args.a.stride = 3;
  args.a.batch = args.b.batch = args.c.batch = 2;
  args.a.batch_stride = 7;
  args.b.batch_stride = 4;
  args.c.batch_stride = 6;
  args.c.stride = 3;
  works(layerops_gemm(oracle, &args), "gemm");
  same(c, (double[]){1, 2, 0, 3, 4, 0, 10, 12, 0, 14, 16, 0}, 12, 0, "strides, offset and batch");
}

static void test_linear(void) {
  const float x[] = {1, -2}, w[] = {3, 1, -1, 2}, bias[] = {0.5f, 1}, residual[] = {10, 20};
  float y[2], z[2];
  layerops_linear_args args = {.x = mat(x, 1, 2),
                               .w = mat(w, 2, 2),
                               .bias = vec(bias, 2),
                               .residual = mat(residual, 1, 2),
                               .preact = mat(z, 1, 2),
                               .y = mat(y, 1, 2),
                               .activation = LAYEROPS_LEAKY_RELU};
  works(layerops_linear_forward(oracle, &args), "linear_forward");
  same(z, (double[]){1.5, -4}, 2, 0, "linear: the pre-activation is x w^T + bias");
  same(y, (double[]){11.5, 19.96}, 2, 0, "linear: leaky relu by 0.01, then the residual");
  float dx[2], dw[4] = {1, 1, 1, 1}, db[2] = {1, 1}, dz[2];
  const float dy[] = {2, 3};
  layerops_linear_backward_args back = {.dy = mat(dy, 1, 2),
                                        .x = mat(x, 1, 2),
                                        .w = mat(w, 2, 2),
                                        .saved = mat(z, 1, 2),
                                        .dz = mat(dz, 1, 2),
                                        .dx = mat(dx, 1, 2),
                                        .dw = mat(dw, 2, 2),
                                        .dbias = vec(db, 2),
                                        .activation = LAYEROPS_LEAKY_RELU,
                                        .slope = layerops_value(0.5),
                                        .beta = layerops_value(1)};
  works(layerops_linear_backward(oracle, &back), "linear_backward");
  same(dz, (double[]){2, 1.5}, 2, 0, "linear: dz = dy act'(z)");
  same(dx, (double[]){4.5, 5}, 2, 0, "linear: dx = dz w");
  same(dw, (double[]){3, -3, 2.5, -2}, 4, 0, "linear: dw = dz^T x + dw");
  same(db, (double[]){3, 2.5}, 2, 0, "linear: dbias = sum dz + dbias");
}

/* Worked out by hand: (x - zero_x) w^T is 190, 24130; -487, -32239. */
static void test_integers(void) {
  const uint8_t x[] = {200, 10, 3, 255};
  const int8_t w[] = {1, -2, 127, -128};
  const int32_t zero[] = {10, 20}, far[] = {1 << 30};
  const float scale_x[] = {0.5f, 2}, scale_w[] = {4, 0.25f}, scale_y[] = {128},
              bias[] = {1, -0.25f};
  float z[4];
  int8_t y[4];
  uint8_t u[4];
  int32_t c[4] = {7, 7, 7, 7};
  layerops_linear_args args = {.x = layerops_host_matrix(x, LAYEROPS_U8, 2, 2),
                               .w = layerops_host_matrix(w, LAYEROPS_I8, 2, 2),
                               .zero_x = layerops_host_matrix(zero, LAYEROPS_I32, 1, 2),
                               .scale_x = vec(scale_x, 2),
                               .scale_w = vec(scale_w, 2),
                               .scale_y = vec(scale_y, 1),
                               .bias = vec(bias, 2),
                               .preact = mat(z, 2, 2),
                               .y = layerops_host_matrix(y, LAYEROPS_I8, 2, 2)};
  works(layerops_linear_forward(oracle, &args), "linear_forward of u8");
  same(z, (double[]){381, 3016, -3895, -16119.75}, 4, 0, "integers: zero points, scales, bias");
  ok(y[0] == 3 && y[1] == 24 && y[2] == -30 && y[3] == -126, "integers: y is rounded to i8");
  args.y = layerops_host_matrix(u, LAYEROPS_U8, 2, 2);
  works(layerops_linear_forward(oracle, &args), "linear_forward of u8");
  ok(u[0] == 3 && u[1] == 24 && u[2] == 0 && u[3] == 0, "integers: y saturates to u8");
  layerops_gemm_args gemm = {.a = args.x,
                             .b = args.w,
                             .c = layerops_host_matrix(c, LAYEROPS_I32, 2, 2),
                             .trans_b = 1,
                             .zero_a = args.zero_x};
  works(layerops_gemm(oracle, &gemm), "gemm of u8");
  ok(c[0] == 190 && c[1] == 24130 && c[2] == -487 && c[3] == -32239, "integers: the sums in i32");
  gemm.zero_a = layerops_host_matrix(far, LAYEROPS_I32, 1, 1);
  works(layerops_gemm(oracle, &gemm), "gemm of u8");
  ok(c[0] == 180 + (1 << 30) && c[3] == -32259 + (1 << 30),
     "integers: sums beyond int32 wrap around");
}

/* Worked out by hand. X is {1.5, -2; 448, 2^-9} of e4m3, W {0.5, 3; -1, 57344} of e5m2: sums -5.25,
 * -114689.5; 224 + 3 * 2^-9, -336 (-448 + 112). */
static void test_f8(void) {
  const uint8_t x[] = {0x3c, 0xc0, 0x7e, 0x01}, w[] = {0x38, 0x42, 0xbc, 0x7b};
  const float scale_x[] = {0.5f, 2}, scale_w[] = {4, -1}, scale_y[] = {2}, bias[] = {1, -0.25f};
  const float infinite[] = {INFINITY, NAN, -INFINITY, 0};
  float z[4], c[4] = {1, 1, 1, 1};
  uint8_t y[4];
  layerops_linear_args args = {.x = layerops_host_matrix(x, LAYEROPS_F8E4M3, 2, 2),
                               .w = layerops_host_matrix(w, LAYEROPS_F8E5M2, 2, 2),
                               .scale_x = vec(scale_x, 2),
                               .scale_w = vec(scale_w, 2),
                               .scale_y = vec(scale_y, 1),
                               .bias = vec(bias, 2),
                               .preact = mat(z, 2, 2),
                               .y = layerops_host_matrix(y, LAYEROPS_F8E4M3, 2, 2)};
  works(layerops_linear_forward(oracle, &args), "linear_forward of f8");
  same(z, (double[]){-9.5, 57344.5, 1793.046875, 671.75}, 4, 0, "f8: scales, bias");
  ok(y[0] == 0xca && y[1] == 0x7e && y[2] == 0x7e && y[3] == 0x7a,
     "f8: y of e4m3 is rounded to even and saturates: -4.75 to -5, 335.875 to 320");
  args.y = layerops_host_matrix(y, LAYEROPS_F8E5M2, 2, 2);
  works(layerops_linear_forward(oracle, &args), "linear_forward of f8");
  ok(y[0] == 0xc5 && y[1] == 0x77 && y[2] == 0x63 && y[3] == 0x5d,
     "f8: y of e5m2: -4.75 to -5, 28672.25, 896.5, 335.875 to 320");
  args.residual = mat(infinite, 2, 2);
  works(layerops_linear_forward(oracle, &args), "linear_forward of f8");
  ok(y[0] == 0x7b && (y[1] & 0x7f) > 0x7c && y[2] == 0xfb && y[3] == 0x5d,
     "f8: infinity saturates, NaN stays");
  layerops_gemm_args gemm = {.a = args.x,
                             .b = args.w,
                             .c = mat(c, 2, 2),
                             .trans_b = 1,
                             .alpha = layerops_value(2),
                             .beta = layerops_value(-1),
                             .scale_b = vec(scale_w, 1)};
  works(layerops_gemm(oracle, &gemm), "gemm of f8");
  same(c, (double[]){-43, -917517, 1791.046875, -2689}, 4, 0, "f8: gemm with a scale, alpha, beta");
}

/* X is {1.5, -2} of f16; W {3, -128} of i8, then the same bytes as e4m3: 2^-9 * 3, -0. */
static void test_mixed(void) {
  const uint16_t x[] = {0x3e00, 0xc000};
  const uint8_t w[] = {0x03, 0x80};
  const float scale[] = {0.25f};
  float y[1];
  layerops_linear_args args = {.x = layerops_host_matrix(x, LAYEROPS_F16, 1, 2),
                               .w = layerops_host_matrix(w, LAYEROPS_I8, 1, 2),
                               .scale_w = vec(scale, 1),
                               .y = mat(y, 1, 1)};
  works(layerops_linear_forward(oracle, &args), "linear_forward of f16 and i8");
  same(y, (double[]){65.125}, 1, 0, "mixed: f16 and i8");
  args.w.type = LAYEROPS_F8E4M3;
  works(layerops_linear_forward(oracle, &args), "linear_forward of f16 and e4m3");
  same(y, (double[]){0x1.2p-9}, 1, 0, "mixed: f16 and e4m3");
}

/* Of one type nothing is converted: NaN keeps its bits, and infinity does not saturate. */
static void test_f8_copies(void) {
  const uint8_t x[] = {0x7c, 0xfd, 0x7e, 0x7b};
  uint8_t y[4];
  convert(LAYEROPS_F8E5M2, x, LAYEROPS_F8E5M2, y, 4);
  ok(!memcmp(x, y, 4), "copy of f8e5m2: the same bits");
  convert(LAYEROPS_F8E5M2, x, LAYEROPS_F8E4M3, y, 4);
  ok(y[0] == 0x7e && (y[1] & 0x7f) == 0x7f && (y[2] & 0x7f) == 0x7f && y[3] == 0x7e,
     "f8e5m2 to f8e4m3: infinity saturates, NaN stays");
}

static void test_bsr(void) {
  static float values[2 * 256], x[32], y[48];
  const int32_t row_start[] = {0, 1, 1, 2}, column[] = {1, 0};
  for (int i = 0; i < 16; i++) values[17 * i] = 1, values[256 + 17 * i] = 2; /* 1 and 2 times one */
  for (int i = 0; i < 32; i++) x[i] = (float)i;
  layerops_bsr_args make = {.rows = 48,
                            .cols = 32,
                            .block = 16,
                            .count = 2,
                            .row_start = row_start,
                            .column = column,
                            .values = values,
                            .type = LAYEROPS_F32};
  layerops_bsr *w = NULL;
  works(layerops_bsr_create(oracle, &make, &w), "bsr_create");
  layerops_bsr_linear_forward_args args = {.x = mat(x, 1, 32), .w = w, .y = mat(y, 1, 48)};
  works(layerops_bsr_linear_forward(oracle, &args), "bsr_linear_forward");
  double want[48];
  for (int i = 0; i < 48; i++) want[i] = i < 16 ? 16 + i : i < 32 ? 0 : 2 * (i - 32);
  same(y, want, 48, 0, "bsr: one block a row, and an empty row");
  layerops_bsr_destroy(w);
}

/* W [3,5] of one block, 4 x 4, which stands out of it below; the last column has none:
 *   | 1 2 3 4 . |
 *   | 0 1 0 1 . |   times its scale, 2, and gate, 3
 *   | 1 1 1 1 . | */
static void test_ragged_bsr(void) {
  static const int8_t values[16] = {1, 2, 3, 4, 0, 1, 0, 1, 1, 1, 1, 1};
  static const float scale[] = {2}, gate[] = {3}, x[5] = {1, 2, 3, 4, 5};
  static const int32_t row_start[] = {0, 1}, column[] = {0};
  float y[3], floats[16];
  layerops_bsr_args make = {.rows = 3,
                            .cols = 5,
                            .block = 4,
                            .count = 1,
                            .row_start = row_start,
                            .column = column,
                            .values = values,
                            .type = LAYEROPS_I8,
                            .scales = scale};
  layerops_bsr *w = NULL;
  works(layerops_bsr_create(oracle, &make, &w), "bsr_create");
  layerops_bsr_linear_forward_args args = {.x = mat(x, 5, 1),
                                           .w = w,
                                           .gate = vec(gate, 1),
                                           .y = mat(y, 3, 1),
                                           .layout = LAYEROPS_FEATURES_BY_ROW};
  works(layerops_bsr_linear_forward(oracle, &args), "bsr_linear_forward");
  same(y, (const double[]){180, 36, 60}, 3, 0, "bsr: a ragged block of i8, its scale and gate");
  layerops_bsr_destroy(w);
  for (int i = 0; i < 16; i++) floats[i] = 2.0f * values[i];
  make.type = LAYEROPS_F32;
  make.values = floats;
  make.scales = NULL;
  works(layerops_bsr_create(oracle, &make, &w), "bsr_create");
  static const float dy[3] = {1, 0, -1};
  float dx[5], dw[16], db[3] = {1, 1, 1}, dgate[1] = {10};
  for (int i = 0; i < 16; i++) dw[i] = 1;
  layerops_bsr_linear_backward_args back = {.dy = mat(dy, 3, 1),
                                            .x = mat(x, 5, 1),
                                            .w = w,
                                            .gate = vec(gate, 1),
                                            .dx = mat(dx, 5, 1),
                                            .dw = mat(dw, 4, 4),
                                            .dbias = vec(db, 3),
                                            .dgate = vec(dgate, 1),
                                            .beta = layerops_value(0.5),
                                            .layout = LAYEROPS_FEATURES_BY_ROW};
  works(layerops_bsr_linear_backward(oracle, &back), "bsr_linear_backward");
  same(dx, (const double[]){0, 6, 12, 18, 0}, 5, 0, "bsr: dx, 0 where no block stands");
  static const double want[16] = {3.5,  6.5,  9.5,  12.5,  0.5, 0.5, 0.5, 0.5,
                                  -2.5, -5.5, -8.5, -11.5, 0,   0,   0,   0};
  same(dw, want, 16, 0, "bsr: dw = gate * dz^T x + beta * dw, 0 outside of w");
  same(db, (const double[]){1.5, 0.5, -0.5}, 3, 0, "bsr: dbias");
  /* 2 (1 + 4 + 9 + 16) - 2 (1 + 2 + 3 + 4) + 10 / 2 */
  same(dgate, (const double[]){45}, 1, 0, "bsr: dgate");
  layerops_bsr_destroy(w);
}

/* To more digits than f32 has; from tables. */
static void test_activations(void) {
  static const struct {
    layerops_activation kind;
    float z;
    double y, slope_at_z;
  } rows[] = {
      {LAYEROPS_RELU, -1, 0, 0},
      {LAYEROPS_RELU, 2, 2, 1},
      {LAYEROPS_RELU, 0, 0, 0},
      {LAYEROPS_LEAKY_RELU, -2, -0.02, 0.01},
      {LAYEROPS_GELU, 1, 0.84134474606854294859, 1.0833154705876864},
      {LAYEROPS_GELU, -1, -0.15865525393145705141, -0.083315470587686291},
      {LAYEROPS_GELU, -10, -7.6198530241605e-23, -7.6184000964648135e-22},
      {LAYEROPS_GELU_TANH, 1, 0.84119199060827676, 1.0829640838457826},
      {LAYEROPS_SILU, 1, 0.73105857863000487926, 0.92767051187148675},
      {LAYEROPS_SIGMOID, 0, 0.5, 0},
      {LAYEROPS_SIGMOID, -100, 3.7200759760208359630e-44, 0},
      {LAYEROPS_TANH, 1, 0.76159415595576488812, 0},
      {LAYEROPS_GELU, -INFINITY, -0.0, 0},
      {LAYEROPS_GELU_TANH, -INFINITY, -0.0, 0},
      {LAYEROPS_SILU, -INFINITY, -0.0, 0},
      {LAYEROPS_GELU, INFINITY, INFINITY, 1},
      {LAYEROPS_GELU_TANH, INFINITY, INFINITY, 1},
      {LAYEROPS_SILU, INFINITY, INFINITY, 1},
      {LAYEROPS_RELU, NAN, NAN, NAN},
      {LAYEROPS_LEAKY_RELU, NAN, NAN, NAN},
      {LAYEROPS_GELU, NAN, NAN, NAN},
      {LAYEROPS_TANH, NAN, NAN, 0},
      {LAYEROPS_TANH, FLT_MAX, 1, 0},
      {LAYEROPS_GELU_TANH, FLT_MAX, FLT_MAX, 1},
      {LAYEROPS_GELU_TANH, -FLT_MAX, -0.0, 0},
  };
  for (int64_t i = 0; i < COUNT(rows); i++) {
    const char *name = layerops_activation_name(rows[i].kind);
    char what[80];
    float y = 99, dx = 99, one = 1;
    layerops_activation_forward_args args = {
        .x = vec(&rows[i].z, 1), .y = vec(&y, 1), .activation = rows[i].kind};
    works(layerops_activation_forward(oracle, &args), "activation_forward");
    snprintf(what, sizeof what, "%s(%g)", name, (double)rows[i].z);
    same(&y, &rows[i].y, 1, 0, what);
    if (rows[i].kind == LAYEROPS_SIGMOID || rows[i].kind == LAYEROPS_TANH) continue;
    layerops_activation_backward_args back = {.dy = vec(&one, 1),
                                              .saved = vec(&rows[i].z, 1),
                                              .dx = vec(&dx, 1),
                                              .activation = rows[i].kind};
    works(layerops_activation_backward(oracle, &back), "activation_backward");
    snprintf(what, sizeof what, "%s'(%g)", name, (double)rows[i].z);
    same(&dx, &rows[i].slope_at_z, 1, 0, what);
  }
  const float outputs[] = {0.25f, 0.5f, 1}, ones[] = {1, 1, 1};
  float dx[3];
  layerops_activation_backward_args back = {.dy = vec(ones, 3),
                                            .saved = vec(outputs, 3),
                                            .dx = vec(dx, 3),
                                            .activation = LAYEROPS_SIGMOID};
  works(layerops_activation_backward(oracle, &back), "activation_backward");
  same(dx, (double[]){0.1875, 0.25, 0}, 3, 0, "sigmoid' = y (1 - y)");
  back.activation = LAYEROPS_TANH;
  works(layerops_activation_backward(oracle, &back), "activation_backward");
  same(dx, (double[]){0.9375, 0.75, 0}, 3, 0, "tanh' = 1 - y^2");
}

static void soft(const float *x, const double *want, int log, const char *what) {
  float y[3];
  layerops_softmax_args args = {.x = mat(x, 1, 3), .y = mat(y, 1, 3), .log = log};
  works(layerops_softmax(oracle, &args), "softmax");
  same(y, want, 3, 1e-12, what);
}

static void test_softmax(void) {
  const double nan[] = {NAN, NAN, NAN};
  soft((float[]){1, 2, 3},
       (double[]){0.090030573170380458, 0.24472847105479764, 0.66524095577482190}, 0,
       "softmax of 1, 2, 3");
  soft((float[]){1, 2, 3},
       (double[]){-2.4076059644443804, -1.4076059644443804, -0.40760596444438030}, 1,
       "log softmax of 1, 2, 3");
  soft((float[]){-INFINITY, 0, 0}, (double[]){0, 0.5, 0.5}, 0, "-infinity gives 0");
  soft((float[]){-INFINITY, 0, 0}, (double[]){-INFINITY, -M_LN2, -M_LN2}, 1,
       "log softmax: -infinity gives -infinity");
  soft((float[]){-INFINITY, -INFINITY, -INFINITY}, nan, 0, "-infinity only gives NaN");
  soft((float[]){INFINITY, 0, 0}, nan, 0, "infinity gives NaN");
  soft((float[]){1, NAN, 3}, nan, 0, "NaN gives NaN");
}

static void test_cross_entropy(void) {
  const float logits[] = {1, 2, 3, 3, 1, 3, NAN, 0, 0};
  const int32_t labels[] = {2, 2, -7};
  float loss, losses[3], d[9];
  int32_t correct;
  layerops_cross_entropy_args args = {.logits = mat(logits, 3, 3),
                                      .labels = ints(labels, 3),
                                      .loss = vec(&loss, 1),
                                      .losses = vec(losses, 3),
                                      .dlogits = mat(d, 3, 3),
                                      .correct = ints(&correct, 1),
                                      .ignore_label = layerops_value(-7),
                                      .grad_scale = layerops_value(2)};
  works(layerops_cross_entropy(oracle, &args), "cross_entropy");
  same(losses, (double[]){0.40760596444438030, 0.7586236756795135, 0}, 3, 1e-12,
       "cross-entropy: the losses of rows, 0 where the label is ignored");
  same(&loss, (double[]){0.58311482006194681}, 1, 1e-12,
       "cross-entropy: the mean over rows that count");
  same(d,
       (double[]){0.090030573170380458, 0.24472847105479764, -0.33475904422517810,
                  0.4683105308334812, 0.06337893833303762, -0.5316894691665188, 0, 0, 0},
       9, 1e-12, "cross-entropy: the gradient, scaled and divided by the rows that count");
  ok(correct == 1, "cross-entropy: the first of two largest logits is the guess");
  const int32_t wrong[] = {2, 3, -7};
  args.labels = ints(wrong, 3);
  loss = 42;
  ok(layerops_cross_entropy(oracle, &args) == LAYEROPS_ERROR_LABEL && loss == 42,
     "cross-entropy: label 3 of 3 classes is an error, and nothing is written");
  const float p[] = {0.25f, 0.75f, 0}, x[] = {0, 0, -INFINITY};
  args = (layerops_cross_entropy_args){.logits = mat(x, 1, 3),
                                       .probabilities = mat(p, 1, 3),
                                       .loss = vec(&loss, 1),
                                       .dlogits = mat(d, 1, 3),
                                       .correct = ints(&correct, 1)};
  works(layerops_cross_entropy(oracle, &args), "cross_entropy");
  same(&loss, (double[]){M_LN2}, 1, 1e-12, "cross-entropy: p = 0 contributes nothing at -infinity");
  same(d, (double[]){0.25, -0.25, 0}, 3, 0, "cross-entropy: softmax - p");
  ok(correct == 0, "cross-entropy: the largest probability stands elsewhere");
  args = (layerops_cross_entropy_args){.logits = mat(NULL, 0, 3),
                                       .labels = ints(NULL, 0),
                                       .loss = vec(&loss, 1),
                                       .correct = ints(&correct, 1)};
  works(layerops_cross_entropy(oracle, &args), "cross_entropy");
  ok(loss == 0 && correct == 0, "cross-entropy: the mean over no rows is 0");
}

static void test_mse(void) {
  const float y[] = {1, 2}, target[] = {0, 4};
  float loss, dy[2];
  layerops_mse_args args = {
      .y = mat(y, 1, 2), .target = mat(target, 1, 2), .loss = vec(&loss, 1), .dy = mat(dy, 1, 2)};
  works(layerops_mse(oracle, &args), "mse");
  same(&loss, (double[]){2.5}, 1, 0, "mse: the mean");
  same(dy, (double[]){1, -2}, 2, 0, "mse: its gradient");
  args.reduction = LAYEROPS_SUM;
  works(layerops_mse(oracle, &args), "mse");
  same(&loss, (double[]){5}, 1, 0, "mse: the sum");
  same(dy, (double[]){2, -4}, 2, 0, "mse: the sum's gradient");
}

static void test_optimizers(void) {
  float w = 1, g = 0.5f, v = 2;
  layerops_sgd_args sgd = {.w = vec(&w, 1), .g = vec(&g, 1), .lr = layerops_value(0.1)};
  works(layerops_sgd(oracle, &sgd), "sgd");
  same(&w, (double[]){0.95}, 1, 0, "sgd");
  w = 1;
  sgd.weight_decay = layerops_value(0.1);
  works(layerops_sgd(oracle, &sgd), "sgd");
  same(&w, (double[]){0.94}, 1, 0, "sgd with weight decay");
  w = 1;
  sgd.weight_decay = layerops_value(0);
  sgd.velocity = vec(&v, 1);
  sgd.momentum = layerops_value(0.9);
  works(layerops_sgd(oracle, &sgd), "sgd");
  same(&v, (double[]){2.3}, 1, 0, "sgd with momentum: the velocity");
  same(&w, (double[]){0.77}, 1, 0, "sgd with momentum");
  w = 1, v = 2, sgd.nesterov = 1;
  works(layerops_sgd(oracle, &sgd), "sgd");
  same(&w, (double[]){0.743}, 1, 0, "sgd with Nesterov's momentum");
  float m = 0, s = 0;
  w = 1;
  layerops_adam_args adam = {.w = vec(&w, 1),
                             .g = vec(&g, 1),
                             .m = vec(&m, 1),
                             .v = vec(&s, 1),
                             .lr = layerops_value(0.1),
                             .step = layerops_value(1)};
  works(layerops_adam(oracle, &adam), "adam");
  same(&m, (double[]){0.05}, 1, 1e-12, "adam: m");
  same(&s, (double[]){0.00025}, 1, 1e-12, "adam: v");
  same(&w, (double[]){1 - 0.1 * 0.5 / (0.5 + 1e-8)}, 1, 1e-12, "adam: the first update is lr");
  w = 1, m = s = 0, g = 1e-8f;
  works(layerops_adam(oracle, &adam), "adam");
  same(&w, (double[]){0.95}, 1, 1e-9, "adam: epsilon stands outside the corrected root");
  w = 1, m = s = 0, g = 0.5f;
  adam.decoupled = 1;
  adam.weight_decay = layerops_value(0.5);
  works(layerops_adam(oracle, &adam), "adam");
  same(&w, (double[]){0.95 - 0.1 * 0.5 / (0.5 + 1e-8)}, 1, 1e-12,
       "adamw: the weight decays by itself");
}

static void test_conversions(void) {
  const float x[] = {0.5f, 1.5f, 2.5f,     -0.5f,     127.5f,      300,
                     -300, NAN,  INFINITY, -INFINITY, 2147483648.f};
  const int8_t want_i8[] = {0, 2, 2, 0, 127, 127, -128, 0, 127, -128, 127};
  const uint8_t want_u8[] = {0, 2, 2, 0, 128, 255, 0, 0, 255, 0, 255};
  const int32_t want_i32[] = {0, 2, 2, 0, 128, 300, -300, 0, INT32_MAX, INT32_MIN, INT32_MAX};
  int8_t i8[COUNT(x)];
  uint8_t u8[COUNT(x)];
  int32_t i32[COUNT(x)];
  convert(LAYEROPS_F32, x, LAYEROPS_I8, i8, COUNT(x));
  convert(LAYEROPS_F32, x, LAYEROPS_U8, u8, COUNT(x));
  convert(LAYEROPS_F32, x, LAYEROPS_I32, i32, COUNT(x));
  ok(!memcmp(i8, want_i8, sizeof i8), "f32 to i8: ties to even, saturated, NaN is 0");
  ok(!memcmp(u8, want_u8, sizeof u8), "f32 to u8");
  ok(!memcmp(i32, want_i32, sizeof i32), "f32 to i32");
  const float h[] = {1,        -2,       65504,           65519.996f, 65520,        0x1p-14f,
                     0x1p-24f, 0x1p-25f, 0x1.000002p-25f, 0x1.8p-24f, 1 + 0x1p-11f, 1 + 0x1.8p-10f,
                     INFINITY, -0.0f,    0x1.ffep-15f};
  const uint16_t want_f16[] = {0x3c00, 0xc000, 0x7bff, 0x7bff, 0x7c00, 0x0400, 0x0001, 0x0000,
                               0x0001, 0x0002, 0x3c00, 0x3c02, 0x7c00, 0x8000, 0x0400};
  const float b[] = {1,         -2,        0x1.fep127f, 0x1.ffp127f, 1 + 0x1p-8f, 1 + 0x1.8p-7f,
                     0x1p-133f, 0x1p-134f, -INFINITY,   0x1p-126f};
  const uint16_t want_bf16[] = {0x3f80, 0xc000, 0x7f7f, 0x7f80, 0x3f80,
                                0x3f82, 0x0001, 0x0000, 0xff80, 0x0080};
  uint16_t bits[COUNT(h)];
  convert(LAYEROPS_F32, h, LAYEROPS_F16, bits, COUNT(h));
  ok(!memcmp(bits, want_f16, sizeof want_f16), "f32 to f16: ties to even, subnormals, overflow");
  convert(LAYEROPS_F32, b, LAYEROPS_BF16, bits, COUNT(b));
  ok(!memcmp(bits, want_bf16, sizeof want_bf16), "f32 to bf16");
}

/* Every f16 and bf16 goes to f32 and back unchanged; NaN stays NaN. */
static void test_round_trips(void) {
  static uint16_t all[65536], back[65536];
  static float wide[65536];
  for (int i = 0; i < 65536; i++) all[i] = (uint16_t)i;
  for (layerops_type type = LAYEROPS_F16; type <= LAYEROPS_BF16; type++) {
    int wrong = 0;
    unsigned infinity = type == LAYEROPS_F16 ? 0x7c00 : 0x7f80;
    convert(type, all, LAYEROPS_F32, wide, 65536);
    convert(LAYEROPS_F32, wide, type, back, 65536);
    for (int i = 0; i < 65536; i++) {
      int nan = (all[i] & 0x7fff) > infinity;
      wrong += nan ? !isnan(wide[i]) || (back[i] & 0x7fff) <= infinity : back[i] != all[i];
    }
    ok(!wrong, "all %s go to f32 and back (%d do not)", layerops_type_name(type), wrong);
  }
  ok(wide[0x4049] == 3.140625f && wide[0x0001] == 0x1p-133f, "bf16 values are what they should be");
  convert(LAYEROPS_F16, all, LAYEROPS_F32, wide, 65536);
  ok(wide[0x4248] == 3.140625f && wide[0x0001] == 0x1p-24f && wide[0xfbff] == -65504,
     "f16 values are what they should be");
}

static void test_moves(void) {
  const float x[] = {1, 2, 3, 4, 5, 6};
  const int32_t index[] = {1, 1, 0};
  float y[9];
  layerops_transpose_args turn = {.x = mat(x, 2, 3), .y = mat(y, 3, 2)};
  works(layerops_transpose(oracle, &turn), "transpose");
  same(y, (double[]){1, 4, 2, 5, 3, 6}, 6, 0, "transpose");
  layerops_gather_args gather = {.x = mat(x, 2, 3), .index = ints(index, 3), .y = mat(y, 3, 3)};
  works(layerops_gather(oracle, &gather), "gather");
  same(y, (double[]){4, 5, 6, 4, 5, 6, 1, 2, 3}, 9, 0, "gather");
  layerops_fill_args fill = {.y = mat(y, 1, 9), .value = layerops_value(2.5)};
  fill.y.rows = 2, fill.y.cols = 2, fill.y.stride = 5;
  works(layerops_fill(oracle, &fill), "fill");
  same(y, (double[]){2.5, 2.5, 6, 4, 5, 2.5, 2.5, 2, 3}, 9, 0,
       "fill leaves what lies between rows");
}

int main(void) {
  oracle_open();
  test_gemm();
  test_strides_and_batch();
  test_linear();
  test_integers();
  test_f8();
  test_mixed();
  test_f8_copies();
  test_bsr();
  test_ragged_bsr();
  test_activations();
  test_softmax();
  test_cross_entropy();
  test_mse();
  test_optimizers();
  test_conversions();
  test_round_trips();
  test_moves();
  layerops_close(oracle);
  return done();
}
