/* What bad arguments of operations get: a status, a message that names the argument and the values,
 * and no write. */
#include <config.h>

#include "t/errors.h"

static int32_t labels[16];

#define REFUSED(op, change, status, ...)                                                           \
  do {                                                                                             \
    layerops_##op##_args a = valid_##op();                                                         \
    change;                                                                                        \
    refused(#op ": " #change, #op, layerops_##op(ctx, &a), LAYEROPS_ERROR_##status,                \
            LIST(__VA_ARGS__));                                                                    \
  } while (0)
#define VALID(op)                                                                                  \
  do {                                                                                             \
    layerops_##op##_args a = valid_##op();                                                         \
    ok(layerops_##op(ctx, &a) == LAYEROPS_OK, #op ": what the refusals start from is valid (%s)",  \
       layerops_last_error());                                                                     \
    reset();                                                                                       \
  } while (0)

/* ---- views and scalars: what all operations judge alike, on copy and gemm ---- */

static layerops_copy_args valid_copy(void) {
  return (layerops_copy_args){.x = view(in, 5, 7), .y = view(out, 5, 7)};
}

static void test_views(void) {
  VALID(copy);
  REFUSED(copy, a.x = (layerops_matrix){0}, INVALID, "x", "absent");
  REFUSED(copy, a.y.type = 0, INVALID, "y", "without a type");
  REFUSED(copy, a.x.type = 77, INVALID, "x", "unknown type 77");
  REFUSED(copy, a.x.type = -3, INVALID, "x", "unknown type -3");
  REFUSED(copy, a.y.type = 9, INVALID, "y", "unknown type 9");
  REFUSED(copy, a.y.rows = 6, INVALID, "y", "6 x 7", "5 x 7");
  REFUSED(copy, a.y.cols = 3, INVALID, "y", "5 x 3", "5 x 7");
  REFUSED(copy, a.x.rows = -1, INVALID, "x", "negative", "rows -1");
  REFUSED(copy, a.x.cols = -7, INVALID, "x", "negative", "cols -7");
  REFUSED(copy, a.x.offset = -2, INVALID, "x", "offset -2");
  REFUSED(copy, a.x.batch = -1, INVALID, "x", "batch -1");
  REFUSED(copy, a.x.batch = 0, INVALID, "x", "batch 0", "must have 1");
  REFUSED(copy, a.x.batch = 2; a.x.batch_stride = 35, INVALID, "x", "batch 2", "must have 1");
  REFUSED(copy, a.x.stride = 6, INVALID, "x", "stride 6", "cols 7");
  REFUSED(copy, a.y.stride = -1, INVALID, "y", "stride -1", "cols 7");
  REFUSED(copy, a.x.reserved[1] = 1, INVALID, "x", "reserved");
  REFUSED(copy, a.x.host = NULL, INVALID, "x", "neither a buffer nor a host pointer");
  REFUSED(copy, a.x.buffer = small, INVALID, "x", "both a buffer and a host pointer");
  REFUSED(copy, a.x.host = NULL; a.x.buffer = small, INVALID, "x", "byte 140", "64 bytes");
  REFUSED(copy, a.x.host = NULL; a.x.buffer = foreign, INVALID, "x", "reference", "cpu");
  REFUSED(copy, a.x.host = (char *)in + 2, INVALID, "x", "element size 4");
  REFUSED(copy, a.x.rows = a.y.rows = INT64_MAX / 2, OVERFLOW, "x", "too large");
  REFUSED(copy, a.x.rows = a.y.rows = (int64_t)1 << 40;
          a.x.stride = (int64_t)1 << 40, OVERFLOW, "x", "overflows", "1099511627776");
  REFUSED(copy, a.x.offset = INT64_MAX - 3, OVERFLOW, "x", "overflows");
  refused("copy: args is NULL", "copy", layerops_copy(ctx, NULL), LAYEROPS_ERROR_INVALID,
          LIST("args is NULL"));
  layerops_copy_args a = valid_copy();
  refused("copy: the context is NULL", "copy", layerops_copy(NULL, &a), LAYEROPS_ERROR_INVALID,
          LIST("context is NULL"));
}

/* A struct of a later version may be larger: zeros behind what this version knows are fine. */
static void test_sizes_of_structs(void) {
  struct {
    layerops_copy_args known;
    char later[24];
  } a = {.known = valid_copy()};
  ok(layerops_copy_(ctx, &a.known, sizeof a) == LAYEROPS_OK,
     "a larger struct with a zero tail is taken");
  reset();
  a.later[5] = 1;
  refused("a larger struct that sets what is unknown here", "copy",
          layerops_copy_(ctx, &a.known, sizeof a), LAYEROPS_ERROR_UNSUPPORTED,
          LIST("does not know"));
  layerops_sgd_args sgd = {.w = view(out, 1, 4), .g = view(in, 1, 4), .lr = layerops_value(0)};
  sgd.nesterov = 1;
  ok(layerops_sgd_(ctx, &sgd, offsetof(layerops_sgd_args, nesterov)) == LAYEROPS_OK,
     "a smaller struct is taken, the rest being zeros");
  reset();
}

static layerops_gemm_args valid_gemm(void) {
  return (layerops_gemm_args){.a = view(in, 4, 6), .b = view(in, 6, 5), .c = view(out, 4, 5)};
}

static void test_gemm(void) {
  VALID(gemm);
  /* a leading dimension that is too small, of each operand alone */
  REFUSED(gemm, a.a.stride = 5, INVALID, "gemm: a ", "stride 5", "cols 6");
  REFUSED(gemm, a.b.stride = 4, INVALID, "gemm: b ", "stride 4", "cols 5");
  REFUSED(gemm, a.c.stride = 4, INVALID, "gemm: c ", "stride 4", "cols 5");
  REFUSED(gemm, a.c.stride = -1, INVALID, "gemm: c ", "stride -1");
  REFUSED(gemm, a.b.rows = 7, INVALID, "gemm: b ", "7 x 5", "6 x 5");
  REFUSED(gemm, a.trans_b = 1, INVALID, "gemm: b ", "6 x 5", "6 x 6");
  REFUSED(gemm, a.trans_a = 1, INVALID, "gemm: b ", "6 x 5", "4 x 5");
  REFUSED(gemm, a.trans_a = 2, INVALID, "trans_a", "2");
  REFUSED(gemm, a.c.rows = 3, INVALID, "gemm: c ", "3 x 5", "4 x 5");
  REFUSED(gemm, a.b.type = LAYEROPS_F16, UNSUPPORTED, "gemm: b ", "f16", "supported: f32");
  REFUSED(gemm, a.b.type = LAYEROPS_F8E4M3, UNSUPPORTED, "gemm: b ", "f8e4m3", "supported: f32");
  REFUSED(gemm, a.a.type = LAYEROPS_I32, UNSUPPORTED, "gemm: a ", "i32");
  REFUSED(gemm, a.a.type = LAYEROPS_I8, UNSUPPORTED, "gemm: b ", "f32", "supported: i8");
  REFUSED(gemm, a.c.type = LAYEROPS_I32, UNSUPPORTED, "gemm: c ", "i32");
  REFUSED(gemm, a.a.batch = 2; a.a.batch_stride = 24, INVALID, "a has batch 2", "c has 1");
  REFUSED(gemm, a.c.batch = 3; a.c.batch_stride = 19, INVALID, "c", "batch stride 19");
  REFUSED(gemm, a.c = view(in, 4, 5), ALIAS, "c overlaps a");
  REFUSED(gemm, a.a = view(in + 100, 4, 6); a.c = view(in, 4, 5), ALIAS, "c overlaps b");
  REFUSED(gemm, a.a = view(out + 5, 4, 6), ALIAS, "c overlaps a");
  REFUSED(gemm, a.a = view(out + 15, 4, 6), ALIAS, "c overlaps a"); /* by one row */
  REFUSED(gemm, a.alpha.kind = 9, INVALID, "alpha", "kind 9");
  REFUSED(gemm, a.beta = layerops_element(NULL, 0), INVALID, "beta", "neither a buffer");
  REFUSED(gemm, a.beta = layerops_element(small, 16), INVALID, "beta", "byte 68", "64 bytes");
  REFUSED(gemm, a.beta = layerops_element(foreign, 0), INVALID, "beta", "reference");
  REFUSED(gemm, a.alpha = layerops_element(small, -1), INVALID, "alpha", "offset -1");
  REFUSED(gemm, a.scale_a = view(in, 1, 4), INVALID, "scale_a", "a of i8, u8, f8e4m3, f8e5m2",
          "f32 here");
  REFUSED(gemm, a.scale_b = view(in, 1, 5), INVALID, "scale_b");
  REFUSED(gemm, a.zero_a = view(in, 1, 4), INVALID, "zero_a");
  REFUSED(gemm, a.zero_a.rows = 1, INVALID, "zero_a");
  REFUSED(gemm, a.flags = 0x81, UNSUPPORTED, "flags is 0x81", "0x80");
  REFUSED(gemm, a.reserved = 3, UNSUPPORTED, "reserved is 3");
  REFUSED(gemm, a.alpha.value = 2, INVALID, "alpha is set", "kind is 0");
  REFUSED(gemm, a.beta = layerops_value(1); a.beta.reserved = 1, INVALID, "beta", "reserved");
}

/* ---- the other operations ---- */

static layerops_linear_forward_args valid_linear_forward(void) {
  return (layerops_linear_forward_args){.x = view(in, 3, 6),
                                        .w = view(in, 5, 6),
                                        .bias = view(in, 1, 5),
                                        .residual = view(in, 3, 5),
                                        .preact = view(more, 3, 5),
                                        .y = view(out, 3, 5)};
}

/* Products of 8-bit integers. */
static layerops_matrix bytes(layerops_type type, int64_t rows, int64_t cols) {
  layerops_matrix v = view(in, rows, cols);
  v.type = type;
  return v;
}

static layerops_matrix words(int64_t cols) {
  layerops_matrix v = view(in, 1, cols);
  v.type = LAYEROPS_I32;
  return v;
}

#define REFUSED_INTEGERS(change, status, ...)                                                      \
  REFUSED(linear_forward, a.x = bytes(LAYEROPS_U8, 3, 6); a.w = bytes(LAYEROPS_I8, 5, 6);          \
          change, status, __VA_ARGS__)
#define REFUSED_INTEGER_GEMM(change, status, ...)                                                  \
  REFUSED(gemm, a.a = bytes(LAYEROPS_I8, 4, 6); a.b = bytes(LAYEROPS_I8, 6, 5);                    \
          change, status, __VA_ARGS__)

static void test_integers(void) {
  REFUSED_INTEGERS(a.w.type = LAYEROPS_U8, UNSUPPORTED, "w is u8", "supported: i8");
  REFUSED_INTEGERS(a.y.type = LAYEROPS_I32, UNSUPPORTED, "y is i32", "i8, u8");
  REFUSED_INTEGERS(a.bias.type = LAYEROPS_I32, UNSUPPORTED, "bias is i32");
  REFUSED_INTEGERS(a.scale_x = view(in, 1, 2), INVALID, "scale_x is 1 x 2", "1 x 1 or 1 x 3");
  REFUSED_INTEGERS(a.scale_x = view(in, 3, 1), INVALID, "scale_x is 3 x 1");
  REFUSED_INTEGERS(a.scale_w = view(in, 1, 6), INVALID, "scale_w is 1 x 6", "1 x 1 or 1 x 5");
  REFUSED_INTEGERS(a.scale_w = words(5), UNSUPPORTED, "scale_w is i32");
  REFUSED_INTEGERS(a.zero_x = view(in, 1, 3), UNSUPPORTED, "zero_x is f32", "supported: i32");
  REFUSED_INTEGERS(a.zero_x = words(4), INVALID, "zero_x is 1 x 4", "1 x 1 or 1 x 3");
  REFUSED_INTEGERS(a.scale_y = view(in, 1, 1), INVALID, "scale_y is set", "y of i8, u8",
                   "f32 here");
  REFUSED_INTEGERS(a.y.type = LAYEROPS_I8; a.scale_y = view(in, 1, 5), INVALID, "scale_y is 1 x 5");
  REFUSED_INTEGERS(a.scale_x = view(out, 1, 1), ALIAS, "y overlaps scale_x");
  REFUSED_INTEGERS(a.x.cols = a.x.stride = a.w.cols = a.w.stride = 65794, OVERFLOW, "k is 65794",
                   "65793", "int32");
  REFUSED_INTEGER_GEMM(a.b.type = LAYEROPS_U8, UNSUPPORTED, "b is u8");
  REFUSED_INTEGER_GEMM(a.c.type = LAYEROPS_I8, UNSUPPORTED, "c is i8");
  REFUSED_INTEGER_GEMM(a.c.type = LAYEROPS_I32;
                       a.scale_b = view(in, 1, 1), INVALID, "scale_b", "c is i32");
  REFUSED_INTEGER_GEMM(a.c.type = LAYEROPS_I32;
                       a.beta = layerops_value(1), INVALID, "alpha and beta", "c is i32");
  REFUSED_INTEGER_GEMM(a.c.type = LAYEROPS_I32;
                       a.alpha = layerops_element(small, 0), INVALID, "alpha and beta");
  REFUSED_INTEGER_GEMM(a.scale_a = view(in, 1, 4); a.scale_a.batch = 2;
                       a.scale_a.batch_stride = 4, INVALID, "scale_a", "batch of 2");
}

/* Products of 8-bit floats, and of 16 bits with 8. */
#define REFUSED_F8(change, status, ...)                                                            \
  REFUSED(linear_forward, a.x = bytes(LAYEROPS_F8E4M3, 3, 6); a.w = bytes(LAYEROPS_F8E5M2, 5, 6);  \
          change, status, __VA_ARGS__)
#define REFUSED_MIXED(change, status, ...)                                                         \
  REFUSED(linear_forward, a.x = bytes(LAYEROPS_F16, 3, 6); a.w = bytes(LAYEROPS_I8, 5, 6);         \
          change, status, __VA_ARGS__)
#define REFUSED_F8_GEMM(change, status, ...)                                                       \
  REFUSED(gemm, a.a = bytes(LAYEROPS_F8E5M2, 4, 6); a.b = bytes(LAYEROPS_F8E4M3, 6, 5);            \
          change, status, __VA_ARGS__)
#define REFUSED_MIXED_GEMM(change, status, ...)                                                    \
  REFUSED(gemm, a.a = bytes(LAYEROPS_BF16, 4, 6); a.b = bytes(LAYEROPS_F8E4M3, 6, 5);              \
          change, status, __VA_ARGS__)

static void test_f8(void) {
  REFUSED_F8(a.w.type = LAYEROPS_I8, UNSUPPORTED, "w is i8", "supported: f8e4m3, f8e5m2");
  REFUSED_F8(a.w = bytes(LAYEROPS_F16, 5, 6), UNSUPPORTED, "w is f16");
  REFUSED_F8(a.y.type = LAYEROPS_I8, UNSUPPORTED, "y is i8", "f32, f16, bf16, f8e4m3, f8e5m2");
  REFUSED_F8(a.bias.type = LAYEROPS_F8E4M3, UNSUPPORTED, "bias is f8e4m3", "f32, f16, bf16");
  REFUSED_F8(a.residual.type = LAYEROPS_F8E4M3, UNSUPPORTED, "residual is f8e4m3");
  REFUSED_F8(a.preact.type = LAYEROPS_F8E4M3, UNSUPPORTED, "preact is f8e4m3");
  REFUSED_F8(a.zero_x = words(3), INVALID, "zero_x is set", "x of i8, u8,", "f8e4m3 here");
  REFUSED_F8(a.scale_x = view(in, 1, 2), INVALID, "scale_x is 1 x 2", "1 x 1 or 1 x 3");
  REFUSED_F8(a.scale_w = view(in, 1, 6), INVALID, "scale_w is 1 x 6", "1 x 1 or 1 x 5");
  REFUSED_F8(a.scale_y = view(in, 1, 1), INVALID, "scale_y is set", "y of i8, u8", "f32 here");
  REFUSED_F8(a.y.type = LAYEROPS_F8E4M3; a.scale_y = view(in, 1, 5), INVALID, "scale_y is 1 x 5");
  REFUSED_F8(a.scale_w = view(out, 1, 1), ALIAS, "y overlaps scale_w");
  REFUSED_F8_GEMM(a.c.type = LAYEROPS_I32, UNSUPPORTED, "c is i32", "f32, f16, bf16");
  REFUSED_F8_GEMM(a.c.type = LAYEROPS_F8E4M3, UNSUPPORTED, "c is f8e4m3");
  REFUSED_F8_GEMM(a.zero_a = words(4), INVALID, "zero_a is set", "f8e5m2 here");
  REFUSED_F8_GEMM(a.scale_a = view(in, 1, 5), INVALID, "scale_a is 1 x 5", "1 x 4");
}

static void test_mixed(void) {
  REFUSED_MIXED(a.w.type = LAYEROPS_U8, UNSUPPORTED, "w is u8", "f16, i8, f8e4m3, f8e5m2");
  REFUSED_MIXED(a.x = view(in, 3, 6), UNSUPPORTED, "w is i8", "supported: f32");
  REFUSED_MIXED(a.y = bytes(LAYEROPS_F8E4M3, 3, 5), UNSUPPORTED, "y is f8e4m3", "f32, f16");
  REFUSED_MIXED(a.bias.type = LAYEROPS_BF16, UNSUPPORTED, "bias is bf16", "f32, f16");
  REFUSED_MIXED(a.scale_x = view(in, 1, 1), INVALID, "scale_x is set",
                "x of i8, u8, f8e4m3, f8e5m2", "f16 here");
  REFUSED_MIXED(a.zero_x = words(1), INVALID, "zero_x is set", "x of i8, u8,", "f16 here");
  REFUSED_MIXED(a.scale_y = view(in, 1, 1), INVALID, "scale_y is set", "f32 here");
  REFUSED_MIXED(a.scale_w = view(in, 1, 4), INVALID, "scale_w is 1 x 4", "1 x 1 or 1 x 5");
  REFUSED_MIXED_GEMM(a.b.type = LAYEROPS_U8, UNSUPPORTED, "b is u8", "bf16, i8, f8e4m3, f8e5m2");
  REFUSED_MIXED_GEMM(a.b = bytes(LAYEROPS_F16, 6, 5), UNSUPPORTED, "b is f16");
  REFUSED_MIXED_GEMM(a.c.type = LAYEROPS_F16, UNSUPPORTED, "c is f16", "f32, bf16");
  REFUSED_MIXED_GEMM(a.scale_a = view(in, 1, 1), INVALID, "scale_a is set", "bf16 here");
  REFUSED_MIXED_GEMM(a.zero_a = words(1), INVALID, "zero_a is set", "bf16 here");
}

static void test_linear_forward(void) {
  VALID(linear_forward);
  REFUSED(linear_forward, a.x = (layerops_matrix){0}, INVALID, "x is needed");
  REFUSED(linear_forward, a.w = (layerops_matrix){0}, INVALID, "w is needed");
  REFUSED(linear_forward, a.y = (layerops_matrix){0}, INVALID, "y is needed");
  REFUSED(linear_forward, a.w.cols = 5;
          a.w.stride = 5, INVALID, "w is 5 x 5", "5 x 6 beside x of 3 x 6");
  REFUSED(linear_forward, a.y.cols = 4, INVALID, "y is 3 x 4", "3 x 5 beside x of 3 x 6",
          "and w of 5 x 6");
  REFUSED(linear_forward, a.bias.cols = 4, INVALID, "bias is 1 x 4", "1 x 5");
  REFUSED(linear_forward, a.bias.host = NULL, INVALID, "bias has neither");
  REFUSED(linear_forward, a.residual.rows = 2, INVALID, "residual is 2 x 5", "3 x 5");
  REFUSED(linear_forward, a.preact.type = LAYEROPS_I8, UNSUPPORTED, "preact is i8");
  REFUSED(linear_forward, a.activation = 8, INVALID, "activation is 8", "0 to 7");
  REFUSED(linear_forward, a.activation = -1, INVALID, "activation is -1");
  REFUSED(linear_forward, a.slope = layerops_element(small, 0), UNSUPPORTED, "slope", "value");
  REFUSED(linear_forward, a.slope = layerops_value(NAN), INVALID, "slope is nan");
  REFUSED(linear_forward, a.slope = layerops_value(INFINITY), INVALID, "slope is inf");
  REFUSED(linear_forward, a.packed = (const layerops_weights *)in, INVALID,
          "w and packed are both");
  REFUSED(linear_forward, a.scale_x = view(in, 1, 1), INVALID, "scale_x", "x of i8, u8");
  REFUSED(linear_forward, a.scale_y = view(in, 1, 1), INVALID, "scale_y");
  REFUSED(linear_forward, a.flags = 8, UNSUPPORTED, "flags is 0x8");
  REFUSED(linear_forward, a.preact = view(out, 3, 5), ALIAS, "preact", "y");
  REFUSED(linear_forward, a.residual = view(out + 1, 3, 5), ALIAS, "y overlaps residual");
  REFUSED(linear_forward, a.residual = a.preact = view(more, 3, 5), ALIAS,
          "preact overlaps residual");
}

static layerops_linear_backward_args valid_linear_backward(void) {
  return (layerops_linear_backward_args){.dy = view(in, 3, 5),
                                         .x = view(in, 3, 6),
                                         .w = view(in, 5, 6),
                                         .saved = view(in, 3, 5),
                                         .dz = view(more, 3, 5),
                                         .dx = view(out, 3, 6),
                                         .dx_saved = view(in, 3, 6),
                                         .dw = view(third, 5, 6),
                                         .dbias = view(fourth, 1, 5),
                                         .activation = LAYEROPS_RELU,
                                         .dx_activation = LAYEROPS_RELU};
}

static void test_linear_backward(void) {
  static const layerops_matrix none;
  VALID(linear_backward);
  REFUSED(linear_backward, a.dy.type = LAYEROPS_F8E4M3, UNSUPPORTED, "dy is f8e4m3");
  REFUSED(linear_backward, a.w.type = LAYEROPS_F8E4M3, UNSUPPORTED, "w is f8e4m3", "f32");
  REFUSED(linear_backward, a.dy = none, INVALID, "dy is needed");
  REFUSED(linear_backward, a.w = none, INVALID, "w is needed");
  REFUSED(linear_backward, a.x = none, INVALID, "x is needed");
  REFUSED(linear_backward, a.saved = none, INVALID, "saved is needed");
  REFUSED(linear_backward, a.dx_saved = none, INVALID, "dx_saved is needed");
  REFUSED(linear_backward, a.dx = none, INVALID, "dx_activation is set, but dx is absent");
  REFUSED(linear_backward, a.dz = a.dx = a.dw = a.dbias = none;
          a.dx_activation = 0, INVALID, "all absent");
  REFUSED(linear_backward, a.saved.rows = 2, INVALID, "saved is 2 x 5", "3 x 5");
  REFUSED(linear_backward, a.dw.rows = 4, INVALID, "dw is 4 x 6", "5 x 6");
  REFUSED(linear_backward, a.dbias.cols = 3, INVALID, "dbias is 1 x 3", "1 x 5");
  REFUSED(linear_backward, a.dx.cols = 4, INVALID, "dx is 3 x 4", "3 x 6");
  REFUSED(linear_backward, a.dz.type = LAYEROPS_F16, UNSUPPORTED, "dz is f16");
  REFUSED(linear_backward, a.slope = layerops_value(-1), INVALID, "slope is -1");
  REFUSED(linear_backward, a.activation = 99, INVALID, "activation is 99");
  REFUSED(linear_backward, a.dx_activation = 99, INVALID, "dx_activation is 99");
  REFUSED(linear_backward, a.dbias = view(third, 1, 5), ALIAS, "dw", "dbias");
  REFUSED(linear_backward, a.dx = view(third, 3, 6), ALIAS, "dx", "dw");
  REFUSED(linear_backward, a.dz = a.dx_saved = view(more, 3, 6);
          a.dz = view(more, 3, 5), ALIAS, "dz overlaps dx_saved");
  REFUSED(linear_backward, a.dy = view(third, 5, 6); a.w = view(in, 6, 7); a.x = view(in, 5, 6);
          a.saved = view(in, 5, 6); a.dz = none; a.dx = view(out, 5, 7);
          a.dx_saved = view(in, 5, 7); a.dw = view(third, 6, 6);
          a.dbias = none, ALIAS, "dw overlaps dy");
  REFUSED(linear_backward, a.packed = (const layerops_weights *)in, INVALID,
          "w and packed are both");
  REFUSED(linear_backward, a.flags = 1u << 31, UNSUPPORTED, "flags is 0x80000000");
  REFUSED(linear_backward, a.dx.type = 0, INVALID, "dx is needed, but is without a type");
  REFUSED(linear_backward, a.dw.type = 0, INVALID, "dw is needed, but is without a type");
  /* not needed, but given: checked all the same, since a kernel may read it */
  REFUSED(linear_backward, a.dx_activation = 0; a.dx_saved.stride = INT32_MAX;
          a.dx_saved.host = NULL; a.dx_saved.buffer = small, INVALID, "dx_saved ends at byte");
}

static layerops_activation_forward_args valid_activation_forward(void) {
  return (layerops_activation_forward_args){.x = view(in, 2, 3), .y = view(out, 2, 3)};
}
static layerops_activation_backward_args valid_activation_backward(void) {
  return (layerops_activation_backward_args){.dy = view(in, 2, 3),
                                             .saved = view(in, 2, 3),
                                             .dx = view(out, 2, 3),
                                             .activation = LAYEROPS_RELU};
}
static layerops_softmax_args valid_softmax(void) {
  return (layerops_softmax_args){.x = view(in, 2, 3), .y = view(out, 2, 3)};
}

static void test_rows(void) {
  VALID(activation_forward);
  REFUSED(activation_forward, a.activation = 44, INVALID, "activation is 44");
  REFUSED(activation_forward, a.x.type = LAYEROPS_I32, UNSUPPORTED, "x is i32");
  REFUSED(activation_forward, a.y.type = LAYEROPS_F8E5M2, UNSUPPORTED, "y is f8e5m2");
  REFUSED(activation_forward, a.y = view(in + 1, 2, 3), ALIAS, "y overlaps x");
  VALID(activation_backward);
  REFUSED(activation_backward, a.saved = (layerops_matrix){0}, INVALID, "saved is needed");
  REFUSED(activation_backward, a.dx.rows = 1, INVALID, "dx is 1 x 3", "2 x 3");
  REFUSED(activation_backward, a.slope = layerops_value(-0.5), INVALID, "slope is -0.5");
  VALID(softmax);
  REFUSED(softmax, a.log = 2, INVALID, "log is 2");
  REFUSED(softmax, a.reserved = 1, UNSUPPORTED, "reserved is 1");
  REFUSED(softmax, a.y.cols = 2, INVALID, "y is 2 x 2", "2 x 3");
  REFUSED(softmax, a.y = view(in + 3, 2, 3), ALIAS, "y overlaps x");
}

static layerops_cross_entropy_args valid_cross_entropy(void) {
  return (layerops_cross_entropy_args){.logits = view(in, 4, 3),
                                       .labels = layerops_host_matrix(labels, LAYEROPS_I32, 1, 4),
                                       .loss = view(out, 1, 1),
                                       .losses = view(more, 1, 4),
                                       .dlogits = view(third, 4, 3)};
}
static layerops_mse_args valid_mse(void) {
  return (layerops_mse_args){.y = view(in, 2, 3),
                             .target = view(in, 2, 3),
                             .loss = view(out, 1, 1),
                             .dy = view(more, 2, 3)};
}

static void test_losses(void) {
  static const layerops_matrix none;
  VALID(cross_entropy);
  REFUSED(cross_entropy, a.labels = none, INVALID, "labels and probabilities are both absent");
  REFUSED(cross_entropy, a.probabilities = view(in, 4, 3), INVALID,
          "labels and probabilities are both set");
  REFUSED(cross_entropy, a.labels.cols = 3, INVALID, "labels is 1 x 3", "1 x 4");
  REFUSED(cross_entropy, a.labels.type = LAYEROPS_F32, UNSUPPORTED, "labels is f32", "i32");
  REFUSED(cross_entropy, a.loss = a.losses = a.dlogits = none, INVALID, "all absent");
  REFUSED(cross_entropy, a.loss = view(out, 1, 2), INVALID, "loss is 1 x 2", "1 x 1");
  REFUSED(cross_entropy, a.loss.type = LAYEROPS_F16, UNSUPPORTED, "loss is f16");
  REFUSED(cross_entropy, a.reduction = 3, INVALID, "reduction is 3");
  REFUSED(cross_entropy, a.ignore_label = layerops_value(1e12), INVALID, "ignore_label is 1e+12");
  REFUSED(cross_entropy, a.ignore_label = layerops_value(1.5), INVALID, "ignore_label is 1.5");
  REFUSED(cross_entropy, a.labels.type = 0, INVALID, "labels is needed, but is without a type");
  REFUSED(cross_entropy, a.ignore_label = layerops_element(small, 0), UNSUPPORTED, "ignore_label");
  REFUSED(cross_entropy, a.labels = none; a.probabilities = view(in, 4, 3);
          a.ignore_label = layerops_value(1), INVALID, "ignore_label", "labels is absent");
  labels[2] = 3;
  REFUSED(cross_entropy, (void)a, LABEL, "labels[2] is 3", "[0, 3)");
  labels[2] = -1;
  REFUSED(cross_entropy, (void)a, LABEL, "labels[2] is -1", "[0, 3)");
  labels[2] = 0;
  VALID(mse);
  REFUSED(mse, a.target = none, INVALID, "target is needed");
  REFUSED(mse, a.target.rows = 1, INVALID, "target is 1 x 3", "2 x 3");
  REFUSED(mse, a.loss = a.dy = none, INVALID, "both absent");
  REFUSED(mse, a.reduction = -1, INVALID, "reduction is -1");
  REFUSED(mse, a.dy = view(out, 2, 3), ALIAS, "loss", "dy");
  REFUSED(mse, a.y = view(out, 1, 1); a.target = view(in, 1, 1); a.dy = none;
          a.loss = view(out, 1, 1), ALIAS, "loss overlaps y");
}

static layerops_sgd_args valid_sgd(void) {
  return (layerops_sgd_args){.w = view(out, 2, 3),
                             .g = view(in, 2, 3),
                             .velocity = view(more, 2, 3),
                             .lr = layerops_value(0.1)};
}
static layerops_adam_args valid_adam(void) {
  return (layerops_adam_args){.w = view(out, 2, 3),
                              .g = view(in, 2, 3),
                              .m = view(more, 2, 3),
                              .v = view(third, 2, 3),
                              .step = layerops_value(1)};
}

static void test_optimizers(void) {
  static const layerops_matrix none;
  VALID(sgd);
  REFUSED(sgd, a.lr = (layerops_scalar){0}, INVALID, "lr is needed");
  REFUSED(sgd, a.velocity = none;
          a.momentum = layerops_value(0.9), INVALID, "momentum", "velocity is absent");
  REFUSED(sgd, a.g.cols = 2, INVALID, "g is 2 x 2", "2 x 3");
  REFUSED(sgd, a.velocity.type = LAYEROPS_F16, UNSUPPORTED, "velocity is f16");
  REFUSED(sgd, a.nesterov = 5, INVALID, "nesterov is 5");
  REFUSED(sgd, a.g = view(out, 2, 3), ALIAS, "w overlaps g");
  VALID(adam);
  REFUSED(adam, a.step = (layerops_scalar){0}, INVALID, "step is needed");
  REFUSED(adam, a.step = layerops_value(0), INVALID, "step is 0");
  REFUSED(adam, a.step = layerops_value(NAN), INVALID, "step is nan");
  REFUSED(adam, a.m = none, INVALID, "m is needed");
  REFUSED(adam, a.v.rows = 1, INVALID, "v is 1 x 3", "2 x 3");
  REFUSED(adam, a.decoupled = 2, INVALID, "decoupled is 2");
  REFUSED(adam, a.v = view(more, 2, 3), ALIAS, "m", "v");
}

static layerops_fill_args valid_fill(void) {
  return (layerops_fill_args){.y = view(out, 2, 3)};
}
static layerops_transpose_args valid_transpose(void) {
  return (layerops_transpose_args){.x = view(in, 2, 3), .y = view(out, 3, 2)};
}
static layerops_gather_args valid_gather(void) {
  return (layerops_gather_args){.x = view(in, 2, 3),
                                .y = view(out, 4, 3),
                                .index = layerops_host_matrix(labels, LAYEROPS_I32, 1, 4)};
}

static void test_moves(void) {
  VALID(fill);
  REFUSED(fill, a.y = (layerops_matrix){0}, INVALID, "y is needed");
  VALID(transpose);
  REFUSED(transpose, a.y.rows = 2; a.y.cols = 3; a.y.stride = 3, INVALID, "y is 2 x 3", "3 x 2");
  REFUSED(transpose, a.y.type = LAYEROPS_I32, UNSUPPORTED, "y is i32", "f32");
  REFUSED(transpose, a.y = view(in, 3, 2), ALIAS, "y overlaps x");
  VALID(gather);
  REFUSED(gather, a.index.cols = 3, INVALID, "index is 1 x 3", "1 x 4");
  REFUSED(gather, a.y.cols = 2, INVALID, "y is 4 x 2", "4 x 3");
  labels[3] = 2;
  REFUSED(gather, (void)a, LABEL, "index[3] is 2", "[0, 2)");
  labels[3] = -5;
  REFUSED(gather, (void)a, LABEL, "index[3] is -5", "[0, 2)");
  labels[3] = 0;
}

/* ---- packed weights ---- */

static layerops_weights *pack(layerops_context *on, int64_t rows, int64_t cols, int backward) {
  layerops_weights_args a = {.w = view(in, rows, cols), .backward = backward};
  layerops_weights *w = NULL;
  if (layerops_weights_pack(on, &a, &w)) diag("%s", layerops_last_error());
  return w;
}

static void test_weights_pack(void) {
#define PACK(change, status, ...)                                                                  \
  do {                                                                                             \
    layerops_weights_args a = {.w = view(in, 5, 6)};                                               \
    layerops_weights *w = (layerops_weights *)in;                                                  \
    change;                                                                                        \
    refused("weights_pack: " #change, "weights_pack", layerops_weights_pack(ctx, &a, &w),          \
            LAYEROPS_ERROR_##status, LIST(__VA_ARGS__));                                           \
    ok(!w, "  and gives no object");                                                               \
  } while (0)
  PACK(a.w = (layerops_matrix){0}, INVALID, "w is needed, but is absent");
  PACK(a.w.type = LAYEROPS_U8, UNSUPPORTED, "w is u8", "f32, f16, bf16, i8, f8e4m3, f8e5m2");
  PACK(a.w.type = LAYEROPS_I8; a.backward = 1, UNSUPPORTED, "backward is 1, but w is i8");
  PACK(a.w.type = LAYEROPS_F8E5M2; a.backward = 1, UNSUPPORTED, "backward is 1, but w is f8e5m2");
  PACK(a.w.stride = 5, INVALID, "w", "stride 5", "cols 6");
  PACK(a.w.host = NULL; a.w.buffer = small, INVALID, "w ends at byte 120", "64 bytes");
  PACK(a.w.host = NULL; a.w.buffer = foreign, INVALID, "w lies in a buffer of reference", "cpu");
  PACK(a.w.batch = 2; a.w.batch_stride = 30, INVALID, "w has batch 2");
  PACK(a.backward = 2, INVALID, "backward is 2", "0 to 1");
  PACK(a.flags = 1, UNSUPPORTED, "flags is 0x1");
  layerops_weights_args a = {.w = view(in, 5, 6)};
  GETS(layerops_weights_pack(ctx, &a, NULL), INVALID, "weights_pack: weights is NULL");
  GETS(layerops_weights_pack(ctx, NULL, NULL), INVALID, "weights_pack: args is NULL");
  GETS(layerops_weights_pack(NULL, &a, NULL), INVALID, "weights_pack: context is NULL");
  layerops_weights_destroy(NULL);
}

static void test_weights(void) {
  static const layerops_matrix none;
  layerops_weights *w = pack(ctx, 5, 6, 0), *both = pack(ctx, 5, 6, 1), *far = pack(other, 5, 6, 1);
  if (!ok(w && both && far, "weights are packed")) return;
  GETS(layerops_weights_update(ctx, NULL, view(in, 5, 6)), INVALID, "weights is NULL");
  GETS(layerops_weights_update(ctx, far, view(in, 5, 6)), INVALID,
       "weights_update: weights is on reference, the context on cpu");
  GETS(layerops_weights_update(ctx, w, view(in, 6, 5)), INVALID, "w is 6 x 5", "5 x 6");
  GETS(layerops_weights_update(ctx, w, none), INVALID, "w is needed");
  GETS(layerops_weights_update(ctx, w, layerops_host_matrix(in, LAYEROPS_F16, 5, 6)), UNSUPPORTED,
       "w is f16", "f32");
  GETS(layerops_weights_unpack(ctx, NULL, view(out, 5, 6)), INVALID, "weights is NULL");
  GETS(layerops_weights_unpack(ctx, w, view(out, 5, 7)), INVALID, "weights_unpack: w is 5 x 7");
  REFUSED(linear_forward, a.w = none, INVALID, "w is needed");
  REFUSED(linear_forward, a.packed = w, INVALID, "w and packed are both set");
  REFUSED(linear_forward, a.w = none; a.packed = far, INVALID, "packed is on reference", "cpu");
  REFUSED(linear_forward, a.w = none; a.packed = w;
          a.x.cols = 4, INVALID, "packed is 5 x 6, but must be 5 x 4 beside x of 3 x 4");
  REFUSED(linear_forward, a.w = none; a.packed = w; a.y.cols = 4, INVALID, "y is 3 x 4", "3 x 5");
  REFUSED(linear_forward, a.w = none; a.packed = w;
          a.x.type = LAYEROPS_F16, UNSUPPORTED, "packed is f32", "f16");
  REFUSED(linear_backward, a.w = none; a.packed = w, INVALID, "packed was packed without");
  REFUSED(linear_backward, a.w = none; a.packed = far, INVALID, "packed is on reference", "cpu");
  REFUSED(linear_backward, a.w = none; a.packed = both; a.dx.cols = 4, INVALID, "dx is 3 x 4");
  REFUSED(linear_backward, a.w = none; a.packed = both;
          a.dy.cols = a.saved.cols = a.dz.cols = 4, INVALID, "packed is 5 x 6, but must be 4 x 6");
  layerops_linear_backward_args a = valid_linear_backward();
  a.w = none;
  a.packed = far;
  a.dx = none;
  a.dx_activation = LAYEROPS_IDENTITY;
  ok(!layerops_linear_backward(ctx, &a), "without dx packed is not looked at");
  reset();
  layerops_weights_destroy(w);
  layerops_weights_destroy(both);
  layerops_weights_destroy(far);
}

/* What packed weights of 8 bits do not serve. */
static void test_bytes_packed(void) {
  static const layerops_matrix none;
  layerops_weights *w[2] = {NULL, NULL};
  for (int i = 0; i < 2; i++) {
    layerops_weights_args a = {.w = bytes(i ? LAYEROPS_F8E4M3 : LAYEROPS_I8, 5, 6)};
    if (!ok(!layerops_weights_pack(ctx, &a, &w[i]), "weights of 8 bits are packed")) return;
  }
  REFUSED(linear_forward, a.w = none; a.packed = w[0];
          a.x = bytes(LAYEROPS_F16, 3, 6), UNSUPPORTED,
          "packed is i8, and is laid out for an x of i8 or u8: give w", "x is f16");
  REFUSED(linear_forward, a.w = none; a.packed = w[0];
          a.x = bytes(LAYEROPS_F8E4M3, 3, 6), UNSUPPORTED,
          "packed is i8 here; supported: f8e4m3, f8e5m2");
  REFUSED(linear_forward, a.w = none;
          a.packed = w[1], UNSUPPORTED, "packed is f8e4m3 here; supported: f32");
  layerops_weights_destroy(w[0]);
  layerops_weights_destroy(w[1]);
}

/* ---- block-sparse ---- */

static void bsr(const char *what, layerops_bsr_args a, layerops_status wanted,
                const char *const *parts) {
  layerops_bsr *w = (layerops_bsr *)in;
  layerops_status status = layerops_bsr_create(ctx, &a, &w);
  refused(what, "bsr_create", status, wanted, parts);
  ok(!w, "  and gives no object");
}

static layerops_bsr_linear_forward_args valid_bsr_linear_forward(void) {
  static layerops_bsr *w;
  static const int32_t start[] = {0, 1}, column[] = {0};
  layerops_bsr_args a = {.rows = 16,
                         .cols = 16,
                         .block = 16,
                         .count = 1,
                         .row_start = start,
                         .column = column,
                         .values = in,
                         .type = LAYEROPS_F32};
  if (!w && layerops_bsr_create(ctx, &a, &w)) diag("%s", layerops_last_error());
  return (layerops_bsr_linear_forward_args){.x = view(in, 2, 16), .w = w, .y = view(out, 2, 16)};
}

static layerops_bsr_linear_backward_args valid_bsr_linear_backward(void) {
  return (layerops_bsr_linear_backward_args){.dy = view(in, 2, 16),
                                             .x = view(in, 2, 16),
                                             .w = valid_bsr_linear_forward().w,
                                             .saved = view(in, 2, 16),
                                             .dx = view(out, 2, 16),
                                             .dx_saved = view(in, 2, 16),
                                             .dw = view(third, 16, 16),
                                             .activation = LAYEROPS_RELU,
                                             .dx_activation = LAYEROPS_RELU};
}

static void test_bsr_linear_backward(void) {
  const layerops_matrix none = {0};
  VALID(bsr_linear_backward);
  REFUSED(bsr_linear_backward, a.w = NULL, INVALID, "w is needed");
  REFUSED(bsr_linear_backward, a.dy = none, INVALID, "dy is needed");
  REFUSED(bsr_linear_backward, a.dy.type = LAYEROPS_I8, UNSUPPORTED, "dy is i8");
  REFUSED(bsr_linear_backward, a.dy.type = LAYEROPS_F16, UNSUPPORTED, "w is f32", "f16");
  REFUSED(bsr_linear_backward, a.dy.cols = 15, INVALID, "dy is 2 x 15", "2 x 16");
  REFUSED(bsr_linear_backward, a.x = none, INVALID, "x is needed");
  REFUSED(bsr_linear_backward, a.x.rows = 1, INVALID, "x is 1 x 16", "2 x 16");
  REFUSED(bsr_linear_backward, a.saved = none, INVALID, "saved is needed");
  REFUSED(bsr_linear_backward, a.dx_saved = none, INVALID, "dx_saved is needed");
  REFUSED(bsr_linear_backward, a.dx = none, INVALID, "dx_activation is set, but dx is absent");
  REFUSED(bsr_linear_backward, a.dx = a.dw = none; a.dx_activation = LAYEROPS_IDENTITY, INVALID,
                                                   "dz, dx, dw, dbias and dgate are all absent");
  REFUSED(bsr_linear_backward, a.dw.rows = 8, INVALID, "dw is 8 x 16", "16 x 16");
  REFUSED(bsr_linear_backward, a.dbias = view(third, 1, 15), INVALID, "dbias is 1 x 15", "1 x 16");
  REFUSED(bsr_linear_backward, a.gate = view(in, 1, 2), INVALID, "gate is 1 x 2", "1 x 1");
  REFUSED(bsr_linear_backward, a.dgate = view(in, 1, 2), INVALID, "dgate is 1 x 2", "1 x 1");
  REFUSED(bsr_linear_backward, a.dz = view(third, 2, 16);
          a.dz.type = LAYEROPS_F16, UNSUPPORTED, "dz is f16");
  REFUSED(bsr_linear_backward, a.dw = layerops_bsr_values(a.w), ALIAS, "w", "dw");
  REFUSED(bsr_linear_backward, a.dw = view(out, 16, 16), ALIAS, "dx", "dw");
  REFUSED(bsr_linear_backward, a.dw = view(third, 16, 16);
          a.dy = view(third, 2, 16), ALIAS, "dw overlaps dy");
  REFUSED(bsr_linear_backward, a.dx = view(third + 300, 2, 16);
          a.dy = view(third + 300, 2, 16), ALIAS, "dx overlaps dy");
  REFUSED(bsr_linear_backward, a.dz = a.dx_saved = view(third + 300, 2, 16), ALIAS,
          "dz overlaps dx_saved");
  REFUSED(bsr_linear_backward, a.slope = layerops_value(-1), INVALID, "slope is -1");
  REFUSED(bsr_linear_backward, a.layout = 2, INVALID, "layout is 2");
  REFUSED(bsr_linear_backward, a.flags = 1u << 31, UNSUPPORTED, "flags is 0x80000000");
  REFUSED(bsr_linear_backward, a.dgate = view(out, 1, 1);
          a.dgate.type = 0, INVALID, "dgate is needed, but is without a type");
}

static void test_bsr(void) {
  static const int32_t start[] = {0, 1, 2}, column[] = {0, 1};
  layerops_bsr_args good = {.rows = 32,
                            .cols = 32,
                            .block = 16,
                            .count = 2,
                            .row_start = start,
                            .column = column,
                            .type = LAYEROPS_F32};
#define BSR(change, status, ...)                                                                   \
  do {                                                                                             \
    layerops_bsr_args a = good;                                                                    \
    change;                                                                                        \
    bsr("bsr_create: " #change, a, LAYEROPS_ERROR_##status, LIST(__VA_ARGS__));                    \
  } while (0)
  BSR(a.block = 0, INVALID, "block is 0");
  BSR(a.block = -16, INVALID, "block is -16");
  BSR(a.block = 1, UNSUPPORTED, "block is 1", "4, 8, 16, 32, 64, 128");
  BSR(a.block = 2, UNSUPPORTED, "block is 2");
  BSR(a.block = 24, UNSUPPORTED, "block is 24");
  BSR(a.block = 256, UNSUPPORTED, "block is 256");
  BSR(a.width = -8, INVALID, "width is -8");
  BSR(a.width = 12, UNSUPPORTED, "width is 12", "4, 8, 16, 32, 64, 128");
  BSR(a.rows = -1, INVALID, "rows is -1");
  BSR(a.cols = -32, INVALID, "cols -32", "negative");
  BSR(a.count = -1, INVALID, "count is -1");
  BSR(a.count = (int64_t)1 << 40, OVERFLOW, "count is 1099511627776");
  BSR(a.rows = (int64_t)1 << 45, OVERFLOW, "rows 35184372088832");
  BSR(a.rows = INT64_MAX, OVERFLOW, "rows 9223372036854775807");
  BSR(a.type = LAYEROPS_U8, UNSUPPORTED, "type is u8", "f32, f16, bf16, i8");
  BSR(a.type = 77, INVALID, "type is ? (77)");
  BSR(a.type = LAYEROPS_NONE_TYPE, INVALID, "(0)");
  BSR(a.scales = in, INVALID, "scales is set", "i8", "f32");
  BSR(a.reserved = 5, UNSUPPORTED, "reserved is 5");
  BSR(a.width = 32, INVALID, "column[1] is 1", "[0, 1)");
  BSR(a.width = 32; a.cols = 33;
      a.column = ((const int32_t[]){0, 2}), INVALID, "column[1] is 2", "[0, 2)");
  BSR(a.row_start = NULL, INVALID, "row_start is NULL");
  BSR(a.column = NULL, INVALID, "column is NULL");
  BSR(a.count = 1, INVALID, "row_start", "ends with 2", "0 and 1");
  BSR(a.row_start = ((const int32_t[]){1, 1, 2}), INVALID, "begins with 1");
  BSR(a.row_start = ((const int32_t[]){0, 3, 2}), INVALID, "row_start[1] is 3");
  BSR(a.row_start = ((const int32_t[]){0, -1, 2}), INVALID, "row_start[1] is -1");
  BSR(a.column = ((const int32_t[]){0, 2}), INVALID, "column[1] is 2", "[0, 2)");
  BSR(a.column = ((const int32_t[]){-1, 1}), INVALID, "column[0] is -1");
  BSR(a.row_start = ((const int32_t[]){0, 2, 2});
      a.column = ((const int32_t[]){1, 0}), INVALID, "column[1] is 0 after 1", "ascend");
  BSR(a.row_start = ((const int32_t[]){0, 2, 2});
      a.column = ((const int32_t[]){1, 1}), INVALID, "column[1] is 1 after 1");
  VALID(bsr_linear_forward);
  REFUSED(bsr_linear_forward, a.w = NULL, INVALID, "w is needed");
  REFUSED(bsr_linear_forward, a.x.cols = 15, INVALID, "x is 2 x 15", "2 x 16");
  REFUSED(bsr_linear_forward, a.x.type = LAYEROPS_I8, UNSUPPORTED, "x is i8", "f32, f16, bf16");
  REFUSED(bsr_linear_forward, a.x.type = LAYEROPS_F16, UNSUPPORTED, "w is f32", "f16, i8");
  REFUSED(bsr_linear_forward, a.layout = 2, INVALID, "layout is 2");
  REFUSED(bsr_linear_forward, a.layout = LAYEROPS_FEATURES_BY_ROW, INVALID, "x is 2 x 16");
  REFUSED(bsr_linear_forward, a.gate = view(in, 1, 2), INVALID, "gate is 1 x 2", "1 x 1");
  REFUSED(bsr_linear_forward, a.gate = view(in, 1, 1);
          a.gate.type = LAYEROPS_F16, UNSUPPORTED, "gate is f16");
  REFUSED(bsr_linear_forward, a.y = layerops_bsr_values(a.w), INVALID, "y is 16 x 16");
  REFUSED(bsr_linear_forward, a.x = view(in, 16, 16);
          a.y = layerops_bsr_values(a.w), ALIAS, "y overlaps w");
  REFUSED(bsr_linear_forward, a.reserved = 1, UNSUPPORTED, "reserved is 1");
  REFUSED(bsr_linear_forward, a.bias = view(in, 1, 15), INVALID, "bias is 1 x 15", "1 x 16");
  REFUSED(bsr_linear_forward, a.y = view(in, 2, 16), ALIAS, "y overlaps x");
  REFUSED(bsr_linear_forward, a.preact = a.residual = view(third, 2, 16), ALIAS,
          "preact overlaps residual");
  layerops_bsr_linear_forward_args a = valid_bsr_linear_forward();
  a.x = view(in, 2, 16);
  refused("bsr_linear_forward: w of another device", "bsr_linear_forward",
          layerops_bsr_linear_forward(other, &a), LAYEROPS_ERROR_INVALID,
          LIST("w is on cpu", "reference"));
  test_bsr_linear_backward();
  layerops_bsr_destroy((layerops_bsr *)a.w);
}

int main(void) {
  if (!errors_begin()) return done();
  test_views();
  test_sizes_of_structs();
  test_gemm();
  test_integers();
  test_f8();
  test_mixed();
  test_linear_forward();
  test_linear_backward();
  test_rows();
  test_losses();
  test_optimizers();
  test_moves();
  test_weights_pack();
  test_weights();
  test_bytes_packed();
  test_bsr();
  return errors_end();
}
