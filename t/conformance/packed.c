/* Packed weights: the bits of a call with w in their place. */
#include <config.h>

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "t/conformance/session.h"

static const cf_layout layouts[] = {{0, 0, 0}, {1, 3, 0}, {3, 0, 0}, {4, 4, 0}};

/* Rows around a tile's height, columns around a panel's width, depths in and beyond a block of k.
 */
static const int64_t shapes[][3] = {{1, 1, 1},     {1, 37, 31},    {13, 33, 65},  {14, 31, 64},
                                    {15, 65, 63},  {14, 1, 129},   {2, 130, 40},  {64, 10, 128},
                                    {5, 7, 11},    {5, 6, 0},      {0, 5, 5},     {5, 0, 5},
                                    {0, 0, 0},     {30, 70, 1100}, {3, 1100, 70}, {130, 64, 64},
                                    {1, 128, 784}, {29, 257, 515}, {70, 300, 300}};

/* The weights of a case: packed, then updated. */
enum { PACKED, UPDATED, ROUNDS };
typedef struct weights {
  cf_operand *w[ROUNDS], *unpacked[ROUNDS];
  layerops_weights *packed[CF_SIDE_COUNT];
  layerops_buffer *tight[CF_SIDE_COUNT];
} weights;

static void must(cf_session *s, layerops_status status, const char *what) {
  cf_expect(s, status == LAYEROPS_OK, "%s returned %s: %s", what, layerops_status_name(status),
            layerops_last_error());
}

static void make(cf_session *s, weights *o, layerops_type type, int64_t n, int64_t k) {
  if (s->second) type = s->second;
  memset(o, 0, sizeof *o);
  for (int round = 0; round < ROUNDS; round++) {
    o->w[round] = cf_matrix(s, "w", type, n, k, type == LAYEROPS_I8 ? CF_RANGE : CF_REAL);
    s->narrow = true;
    o->unpacked[round] = cf_output(s, "unpacked", type, n, k, CF_NAN);
    s->narrow = false;
  }
}

/* Packs or updates, and unpacks; the view that `packed` stands for: on the host any, on another
 * device a tight copy, since its kernels may depend on the alignment of w. */
static layerops_matrix pack(cf_session *s, weights *o, int side, int round, bool backward) {
  layerops_context *ctx = s->ctx[side];
  layerops_weights_args args = {.w = cf_on(o->w[round], side), .backward = backward};
  if (round == PACKED)
    must(s, layerops_weights_pack(ctx, &args, &o->packed[side]), "weights_pack");
  else
    must(s, layerops_weights_update(ctx, o->packed[side], args.w), "weights_update");
  must(s, layerops_weights_unpack(ctx, o->packed[side], cf_on(o->unpacked[round], side)),
       "weights_unpack");
  if (s->on_host) return args.w;
  layerops_matrix tight = layerops_matrix_of(NULL, args.w.type, args.w.rows, args.w.cols);
  int64_t bytes = tight.rows * tight.cols * (int64_t)layerops_type_size(tight.type);
  if (!o->tight[side]) must(s, layerops_buffer_create(ctx, bytes, &o->tight[side]), "a buffer");
  tight.buffer = o->tight[side];
  layerops_copy_args copy = {.x = args.w, .y = tight};
  must(s, layerops_copy(ctx, &copy), "copy");
  return tight;
}

static void same_bits(cf_session *s, cf_operand *packed, cf_operand *plain) {
  double *a = cf_read(s, packed, CF_DEVICE), *b = cf_read(s, plain, CF_DEVICE);
  for (int64_t i = 0; i < packed->count; i++)
    if (memcmp(&a[i], &b[i], sizeof *a)) {
      cf_fail(s, "%s[%" PRId64 "] is %.9g with packed, %.9g with w", packed->name, i, a[i], b[i]);
      return;
    }
}

/* The CPU may add in another order where packing one call's W would not pay. */
static void same_sums(cf_session *s, cf_operand *packed, cf_operand *plain) {
  if (!s->on_host) same_bits(s, packed, plain);
}

static void end(cf_session *s, weights *o) {
  for (int round = 0; round < ROUNDS; round++) {
    double *w = cf_read(s, o->w[round], CF_DEVICE);
    double *unpacked = cf_read(s, o->unpacked[round], CF_DEVICE);
    cf_expect(s, !memcmp(w, unpacked, (size_t)o->w[round]->count * sizeof *w),
              "%s weights: not what was packed", round == PACKED ? "packed" : "updated");
  }
  cf_end(s);
  for (int side = 0; side < CF_SIDE_COUNT; side++) {
    layerops_weights_destroy(o->packed[side]);
    layerops_buffer_destroy(o->tight[side]);
  }
}

/* One chain of multiply-adds, the bias; ReLU adds nothing. */
static void bound(cf_session *s, cf_operand *y, const double *sums, const double *kept,
                  double steps, const cf_operand *bias) {
  double *bounds = cf_bound(s, y);
  for (int64_t i = 0; i < y->count; i++)
    bounds[i] =
        CF_U * (steps + 4) * (sums[i] + (bias ? fabs(bias->values[i % y->shape.cols]) : 0)) +
        (kept ? kept[i] : 0);
  cf_add_store(s, y);
}

static void forward_case(cf_session *s, layerops_type type, int64_t m, int64_t n, int64_t k) {
  weights o;
  cf_operand *y[ROUNDS], *plain[ROUNDS];
  cf_case(s, "m=%" PRId64 " n=%" PRId64 " k=%" PRId64 " offset=%" PRId64 " pad=%" PRId64, m, n, k,
          s->layout.offset, s->layout.pad);
  make(s, &o, type, n, k);
  cf_operand *x = cf_matrix(s, "x", type, m, k, CF_REAL);
  cf_operand *bias = cf_matrix(s, "bias", LAYEROPS_F32, 1, n, CF_REAL);
  for (int round = 0; round < ROUNDS; round++) {
    y[round] = cf_output(s, "y", LAYEROPS_F32, m, n, CF_NAN);
    plain[round] = cf_output(s, "y of w", LAYEROPS_F32, m, n, CF_NAN);
  }
  CF_SIDES(s, side) {
    for (int round = 0; round < ROUNDS; round++) {
      layerops_matrix w = pack(s, &o, side, round, round % 2 && !s->second);
      layerops_linear_forward_args args = {.x = cf_on(x, side),
                                           .packed = o.packed[side],
                                           .bias = cf_on(bias, side),
                                           .y = cf_on(y[round], side),
                                           .activation = LAYEROPS_RELU};
      CF_CALL(s, side, linear_forward, &args);
      args.packed = NULL;
      args.w = w;
      args.y = cf_on(plain[round], side);
      CF_CALL(s, side, linear_forward, &args);
    }
  }
  for (int round = 0; round < ROUNDS; round++) {
    const double *sums = cf_magnitudes(s, x, 0, o.w[round], 1);
    const double *kept = cf_kept(s, x, 0, o.w[round], 1, false);
    bound(s, y[round], sums, kept, cf_steps(type, k), bias);
    bound(s, plain[round], sums, kept, cf_steps(type, k), bias);
    same_sums(s, y[round], plain[round]);
  }
  end(s, &o);
}

static void forward(cf_session *s, layerops_type type) {
  for (int64_t i = 0; i < CF_COUNT(shapes); i++) {
    s->layout = layouts[i % CF_COUNT(layouts)];
    forward_case(s, type, shapes[i][0], shapes[i][1], shapes[i][2]);
  }
}

static void random_forward(cf_session *s, layerops_type type) {
  for (int i = 0; i < (s->options->full ? 150 : 25); i++) {
    s->layout = (cf_layout){cf_below(s, 9), cf_below(s, 9), 0};
    int64_t m = 1 + cf_below(s, 90), n = 1 + cf_below(s, 150), k = 1 + cf_below(s, 1500);
    forward_case(s, type, m, n, k);
  }
}

/* W of i8, X of u8 or i8. The sum is exact; its conversion rounds once, and the scale. */
static void integer_case(cf_session *s, layerops_type type, int64_t m, int64_t n, int64_t k,
                         bool zero) {
  weights o;
  cf_operand *y[ROUNDS], *plain[ROUNDS];
  cf_case(s, "m=%" PRId64 " n=%" PRId64 " k=%" PRId64 " zero_x=%d offset=%" PRId64 " pad=%" PRId64,
          m, n, k, zero, s->layout.offset, s->layout.pad);
  make(s, &o, LAYEROPS_I8, n, k);
  cf_operand *x = cf_matrix(s, "x", type, m, k, CF_RANGE);
  cf_operand *scale = cf_matrix(s, "scale_w", LAYEROPS_F32, 1, n, CF_REAL);
  cf_operand *zeros = zero ? cf_matrix(s, "zero_x", LAYEROPS_I32, 1, m, CF_INTEGER) : NULL;
  for (int round = 0; round < ROUNDS; round++) {
    y[round] = cf_output(s, "y", LAYEROPS_F32, m, n, CF_NAN);
    plain[round] = cf_output(s, "y of w", LAYEROPS_F32, m, n, CF_NAN);
  }
  CF_SIDES(s, side) {
    for (int round = 0; round < ROUNDS; round++) {
      layerops_matrix w = pack(s, &o, side, round, false);
      layerops_linear_forward_args args = {.x = cf_on(x, side),
                                           .packed = o.packed[side],
                                           .scale_w = cf_on(scale, side),
                                           .zero_x = cf_on(zeros, side),
                                           .y = cf_on(y[round], side)};
      CF_CALL(s, side, linear_forward, &args);
      args.packed = NULL;
      args.w = w;
      args.y = cf_on(plain[round], side);
      CF_CALL(s, side, linear_forward, &args);
    }
  }
  for (int round = 0; round < ROUNDS; round++) {
    const double *sums = cf_magnitudes(s, x, 0, o.w[round], 1);
    double *bounds = cf_bound(s, y[round]), *plain_bounds = cf_bound(s, plain[round]);
    for (int64_t i = 0; i < m * n; i++) /* |zero_x| <= 4, |w| <= 128 */
      bounds[i] = plain_bounds[i] =
          2.5 * CF_U * fabs(scale->values[i % n]) * (sums[i] + (zero ? 512.0 * (double)k : 0));
    cf_add_store(s, y[round]);
    cf_add_store(s, plain[round]);
    same_bits(s, y[round], plain[round]);
  }
  end(s, &o);
}

static void integers(cf_session *s, layerops_type type) {
  for (int64_t i = 0; i < CF_COUNT(shapes); i++) {
    s->layout = layouts[i % CF_COUNT(layouts)];
    integer_case(s, type, shapes[i][0], shapes[i][1], shapes[i][2], i % 2);
  }
}

static void random_integers(cf_session *s, layerops_type type) {
  for (int i = 0; i < (s->options->full ? 150 : 25); i++) {
    s->layout = (cf_layout){cf_below(s, 9), cf_below(s, 9), 0};
    int64_t m = 1 + cf_below(s, 90), n = 1 + cf_below(s, 150), k = 1 + cf_below(s, 1500);
    integer_case(s, type, m, n, k, cf_below(s, 2));
  }
}

/* dX; dW and dbias beside it, which do not read W. */
static void backward_case(cf_session *s, layerops_type type, int64_t m, int64_t n, int64_t k) {
  weights o;
  cf_operand *dx[ROUNDS], *plain[ROUNDS];
  cf_case(s, "m=%" PRId64 " n=%" PRId64 " k=%" PRId64 " offset=%" PRId64 " pad=%" PRId64, m, n, k,
          s->layout.offset, s->layout.pad);
  make(s, &o, type, n, k);
  cf_operand *dy = cf_matrix(s, "dy", type, m, n, CF_REAL);
  cf_operand *dbias = cf_output(s, "dbias", LAYEROPS_F32, 1, n, CF_NAN);
  for (int round = 0; round < ROUNDS; round++) {
    dx[round] = cf_output(s, "dx", LAYEROPS_F32, m, k, CF_NAN);
    plain[round] = cf_output(s, "dx of w", LAYEROPS_F32, m, k, CF_NAN);
  }
  CF_SIDES(s, side) {
    for (int round = 0; round < ROUNDS; round++) {
      layerops_matrix w = pack(s, &o, side, round, true);
      layerops_linear_backward_args args = {.dy = cf_on(dy, side),
                                            .packed = o.packed[side],
                                            .dx = cf_on(dx[round], side),
                                            .dbias = cf_on(dbias, side)};
      CF_CALL(s, side, linear_backward, &args);
      args.packed = NULL;
      args.w = w;
      args.dx = cf_on(plain[round], side);
      CF_CALL(s, side, linear_backward, &args);
    }
  }
  double *column_sums = cf_bound(s, dbias);
  for (int64_t i = 0; i < dy->count; i++)
    column_sums[i % n] += CF_U * cf_steps(type, m) * fabs(dy->values[i]);
  cf_add_store(s, dbias);
  for (int round = 0; round < ROUNDS; round++) {
    const double *sums = cf_magnitudes(s, dy, 0, o.w[round], 0);
    bound(s, dx[round], sums, NULL, cf_steps(type, n), NULL);
    bound(s, plain[round], sums, NULL, cf_steps(type, n), NULL);
    same_sums(s, dx[round], plain[round]);
  }
  end(s, &o);
}

static void backward(cf_session *s, layerops_type type) {
  for (int64_t i = 0; i < CF_COUNT(shapes); i++) {
    s->layout = layouts[i % CF_COUNT(layouts)];
    backward_case(s, type, shapes[i][0], shapes[i][1], shapes[i][2]);
  }
}

/* All codes of an 8-bit float, NaN and infinities too, come back as they were, but for the bits of
 * a NaN. */
static void codes(cf_session *s, layerops_type type) {
  cf_case(s, "all codes");
  cf_operand *w = cf_matrix(s, "w", LAYEROPS_U8, 16, 16, CF_ZERO);
  for (int64_t n = 0; n < w->count; n++) w->values[n] = (double)n;
  cf_operand *unpacked = cf_matrix(s, "unpacked", LAYEROPS_U8, 16, 16, CF_ONE);
  layerops_weights_args args = {.w = cf_on(w, CF_DEVICE)};
  layerops_matrix out = cf_on(unpacked, CF_DEVICE);
  layerops_weights *packed = NULL;
  args.w.type = out.type = type;
  must(s, layerops_weights_pack(s->ctx[CF_DEVICE], &args, &packed), "weights_pack");
  must(s, layerops_weights_unpack(s->ctx[CF_DEVICE], packed, out), "weights_unpack");
  double *got = cf_read(s, unpacked, CF_DEVICE);
  for (int64_t n = 0; n < w->count; n++) {
    const unsigned char before = (unsigned char)n, after = (unsigned char)got[n];
    const bool nan = isnan(cf_decode(type, &before));
    cf_expect(s, nan ? isnan(cf_decode(type, &after)) : after == before, "%02x became %02x", before,
              after);
  }
  layerops_weights_destroy(packed);
  unpacked->made = false; /* the reference was not called */
  cf_end(s);
}

const cf_check cf_packed_checks[] = {
    {LAYEROPS_OP_linear_forward, "packed weights", CF_FLOATS, CF_EVERY, forward},
    {LAYEROPS_OP_linear_forward, "packed weights of random shapes", CF_FLOATS, 0, random_forward},
    {LAYEROPS_OP_linear_forward, "packed weights of integers", CF_BYTES, CF_EVERY, integers},
    {LAYEROPS_OP_linear_forward, "packed weights of integers, random shapes", CF_BYTES, 0,
     random_integers},
    {LAYEROPS_OP_linear_backward, "packed weights", CF_FLOATS, CF_EVERY, backward},
    {LAYEROPS_OP_linear_forward, "packed weights", CF_F8 | CF_WITH(CF_F8), CF_MEMORY, forward},
    {LAYEROPS_OP_linear_forward, "packed weights", CF_HALVES | CF_WITH(CF_F8), CF_BIT(CF_TWICE),
     forward},
    {LAYEROPS_OP_linear_forward, "packed weights", CF_F8, CF_MEMORY, codes},
    {0},
};
