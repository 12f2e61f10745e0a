/* fill, copy (cast), transpose, gather: exact. */
#include <config.h>

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "t/conformance/session.h"

static const int64_t sizes[] = {1, 2, 3, 7, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 129, 1000};
static const cf_layout layouts[] = {{0, 0, 0}, {1, 0, 0}, {3, 5, 0}, {0, 3, 0}};

static const layerops_type all_types[] = {LAYEROPS_F32,    LAYEROPS_F16,   LAYEROPS_BF16,
                                          LAYEROPS_I32,    LAYEROPS_I8,    LAYEROPS_U8,
                                          LAYEROPS_F8E4M3, LAYEROPS_F8E5M2};

/* Values at which conversions go wrong: ties, the edges of each format, subnormals, what is no
 * number. */
static const double edges[] = {0.0,           -0.0,        1,           -1,         0.5,
                               1.5,           2.5,         -0.5,        -1.5,       -2.5,
                               126.5,         127.4,       127.5,       128,        -128.4,
                               -128.5,        -129,        254.5,       255,        255.5,
                               256,           300,         65504,       65519.99,   65520,
                               -65520,        1e10,        -1e10,       2147483520, 2147483648,
                               -2147483648.0, -4e9,        FLT_MAX,     -FLT_MAX,   FLT_MIN,
                               0x1p-149,      0x1p-24,     0x1p-25,     0x1.8p-25,  0x1.000002p-25,
                               0x1p-14,       0x1.ffcp-15, 0x1.ffep-15, 0x1.002p0,  0x1.006p0,
                               0x1.01p0,      0x1.03p0,    0x1.fep127,  0x1.ffp127, 0x1p-133,
                               0x1p-134,      0x1.8p-134,  2049,        2051,       16777217,
                               NAN,           INFINITY,    -INFINITY,   1e-40,      3.14159,
                               -1000.75,      448,         463.9,       464,        -464.1,
                               480,           57344,       61439,       -61440,     61441,
                               0x1p-9,        0x1p-10,     0x1.8p-10,   0x1.8p-9,   0x1.cp-7,
                               0x1.ep-7,      0x1p-16,     0x1p-17,     0x1.8p-17,  0x1.8p-15};

static void fill_one(cf_session *s, layerops_type type, int64_t rows, int64_t cols, double value) {
  cf_case(s, "%" PRId64 " x %" PRId64 " of %g", rows, cols, value);
  cf_operand *y = cf_output(s, "y", type, rows, cols, CF_ONE);
  CF_SIDES(s, side) {
    layerops_fill_args args = {.y = cf_on(y, side), .value = layerops_value(value)};
    CF_CALL(s, side, fill, &args);
  }
  cf_end(s);
}

static void fills(cf_session *s, layerops_type type) {
  for (int64_t i = 0; i < CF_COUNT(sizes); i++) {
    s->layout = layouts[i % CF_COUNT(layouts)];
    fill_one(s, type, 1, sizes[i], 3);
    fill_one(s, type, sizes[i], 5, -2);
  }
  for (int64_t i = 0; i < CF_COUNT(edges); i++) fill_one(s, type, 3, 5, (float)edges[i]);
  fill_one(s, type, 0, 5, 1);
  fill_one(s, type, 5, 0, 1);
}

static void fill_scalars(cf_session *s, layerops_type type) {
  cf_case(s, "the value is an element of a buffer");
  cf_operand *y = cf_output(s, "y", type, 7, 9, CF_ZERO);
  cf_operand *value = cf_matrix(s, "value", LAYEROPS_F32, 1, 1, CF_ONE);
  value->values[0] = 42;
  CF_SIDES(s, side) {
    layerops_fill_args args = {.y = cf_on(y, side), .value = cf_element(value, side)};
    CF_CALL(s, side, fill, &args);
  }
  cf_end(s);
  cf_case(s, "the value is unset");
  y = cf_output(s, "y", type, 7, 9, CF_ONE);
  CF_SIDES(s, side) {
    layerops_fill_args args = {.y = cf_on(y, side)};
    CF_CALL(s, side, fill, &args);
  }
  cf_end(s);
}

static void copy_pair(cf_session *s, cf_operand *x, cf_operand *y) {
  CF_SIDES(s, side) {
    layerops_copy_args args = {.x = cf_on(x, side), .y = cf_on(y, side)};
    CF_CALL(s, side, copy, &args);
  }
  cf_end(s);
}

/* Integers of any size, uniform over what the type holds. */
static void fill_any(cf_session *s, cf_operand *x) {
  for (int64_t n = 0; n < x->count; n++)
    x->values[n] = ldexp(cf_uniform(s, -1, 1), (int)cf_below(s, 33));
}

static void copies(cf_session *s, layerops_type type) {
  for (int64_t t = 0; t < CF_COUNT(all_types); t++) {
    const char *to = layerops_type_name(all_types[t]);
    for (int64_t i = 0; i < CF_COUNT(sizes); i++) {
      int64_t rows = i % 3 ? 3 : 1;
      s->layout = layouts[(i + t) % CF_COUNT(layouts)];
      cf_case(s, "%" PRId64 " x %" PRId64 " to %s", rows, sizes[i], to);
      cf_operand *x = cf_matrix(s, "x", type, rows, sizes[i], CF_ZERO);
      fill_any(s, x);
      s->layout = layouts[i % CF_COUNT(layouts)]; /* other strides than x */
      copy_pair(s, x, cf_output(s, "y", all_types[t], rows, sizes[i], CF_ONE));
    }
    cf_case(s, "nothing to %s", to);
    copy_pair(s, cf_matrix(s, "x", type, 0, 3, CF_ZERO),
              cf_output(s, "y", all_types[t], 0, 3, CF_ZERO));
    cf_case(s, "ties, limits, subnormals, NaN, infinity to %s", to);
    cf_operand *x = cf_matrix(s, "x", type, 1, CF_COUNT(edges), CF_ZERO);
    memcpy(x->values, edges, sizeof edges);
    copy_pair(s, x, cf_output(s, "y", all_types[t], 1, CF_COUNT(edges), CF_ONE));
  }
}

/* All codes of an 8-bit float, to every type: the same type gets the same bits. */
static void copies_of_codes(cf_session *s, layerops_type type) {
  for (int64_t t = 0; t < CF_COUNT(all_types); t++) {
    cf_case(s, "all codes to %s", layerops_type_name(all_types[t]));
    cf_operand *x = cf_matrix(s, "x", LAYEROPS_U8, 4, 64, CF_ZERO);
    for (int64_t n = 0; n < x->count; n++) x->values[n] = (double)n;
    cf_operand *y =
        cf_output(s, "y", all_types[t] == type ? LAYEROPS_U8 : all_types[t], 4, 64, CF_ONE);
    CF_SIDES(s, side) {
      layerops_copy_args args = {.x = cf_on(x, side), .y = cf_on(y, side)};
      args.x.type = type;
      if (all_types[t] == type) args.y.type = type;
      CF_CALL(s, side, copy, &args);
    }
    if (all_types[t] == type) {
      double *got = cf_read(s, y, CF_DEVICE);
      for (int64_t n = 0; n < y->count; n++)
        cf_expect(s, got[n] == (double)n, "code %02x became %02x", (unsigned)n, (unsigned)got[n]);
    }
    cf_end(s);
  }
}

/* To an 8-bit float: its numbers, the points halfway between them, and what stands next to these.
 */
static void copies_rounded(cf_session *s, layerops_type type) {
  for (layerops_type to = LAYEROPS_F8E4M3; to <= LAYEROPS_F8E5M2; to++) {
    enum { CODES = 0x7b, KINDS = 6 };
    cf_case(s, "numbers to round to %s", layerops_type_name(to));
    cf_operand *x = cf_matrix(s, "x", type, 2 * KINDS, CODES, CF_ZERO);
    for (int64_t c = 0; c < CODES; c++) {
      const unsigned char low = (unsigned char)c, high = (unsigned char)(c + 1);
      const double value = cf_decode(to, &low), half = (value + cf_decode(to, &high)) / 2;
      const double step = half * ldexp(1, type == LAYEROPS_F32   ? -22
                                          : type == LAYEROPS_F16 ? -9
                                                                 : -6);
      const double values[KINDS] = {value,       half,         half - step,
                                    half + step, value - step, value + step};
      for (int64_t i = 0; i < KINDS; i++) {
        cf_set(x, i, c, values[i]);
        cf_set(x, KINDS + i, c, -values[i]);
      }
    }
    copy_pair(s, x, cf_output(s, "y", to, 2 * KINDS, CODES, CF_ONE));
  }
}

/* In place: to a type of the same size. */
static void copies_in_place(cf_session *s, layerops_type type) {
  for (int64_t t = 0; t < CF_COUNT(all_types); t++) {
    layerops_type to = all_types[t];
    if (layerops_type_size(to) != layerops_type_size(type)) continue;
    cf_case(s, "in place to %s", layerops_type_name(to));
    cf_operand *y = cf_output(s, "y", to, 9, 35, CF_INTEGER);
    for (int side = CF_DEVICE; side <= CF_REFERENCE; side++) {
      layerops_copy_args args = {.x = cf_on(y, side), .y = cf_on(y, side)};
      args.x.type = type; /* the same bits, read as another type */
      CF_CALL(s, side, copy, &args);
    }
    cf_end(s);
  }
}

static void transposes(cf_session *s, layerops_type type) {
  static const int64_t shapes[][2] = {{1, 1},   {1, 7},   {7, 1},   {16, 16}, {15, 17},
                                      {17, 15}, {31, 33}, {32, 32}, {33, 31}, {63, 65},
                                      {64, 64}, {65, 63}, {129, 5}, {5, 129}, {127, 131},
                                      {1, 300}, {300, 1}, {0, 4},   {4, 0}};
  for (int64_t i = 0; i < CF_COUNT(shapes); i++) {
    int64_t rows = shapes[i][0], cols = shapes[i][1];
    s->layout = layouts[i % CF_COUNT(layouts)];
    cf_case(s, "%" PRId64 " x %" PRId64, rows, cols);
    cf_operand *x = cf_matrix(s, "x", type, rows, cols, CF_ZERO);
    for (int64_t n = 0; n < x->count; n++) x->values[n] = (double)(n % 251) - 100;
    s->layout = layouts[(i + 1) % CF_COUNT(layouts)];
    cf_operand *y = cf_output(s, "y", type, cols, rows, CF_ONE);
    CF_SIDES(s, side) {
      layerops_transpose_args args = {.x = cf_on(x, side), .y = cf_on(y, side)};
      CF_CALL(s, side, transpose, &args);
    }
    cf_end(s);
  }
}

static void gather_one(cf_session *s, layerops_type type, layerops_type to, int64_t rows,
                       int64_t cols, int64_t taken) {
  cf_case(s, "%" PRId64 " of %" PRId64 " rows of %" PRId64 " to %s", taken, rows, cols,
          layerops_type_name(to));
  cf_operand *x = cf_matrix(s, "x", type, rows, cols, CF_ZERO);
  fill_any(s, x);
  cf_operand *index = cf_matrix(s, "index", LAYEROPS_I32, 1, taken, CF_ZERO);
  for (int64_t i = 0; i < taken; i++) cf_set(index, 0, i, (double)cf_below(s, rows));
  if (taken > 1) cf_set(index, 0, 1, (double)rows - 1);
  cf_operand *y = cf_output(s, "y", to, taken, cols, CF_ONE);
  CF_SIDES(s, side) {
    layerops_gather_args args = {
        .x = cf_on(x, side), .index = cf_on(index, side), .y = cf_on(y, side)};
    CF_CALL(s, side, gather, &args);
  }
  cf_end(s);
}

static void gathers(cf_session *s, layerops_type type) {
  for (int64_t t = 0; t < CF_COUNT(all_types); t++)
    for (int64_t i = 0; i < CF_COUNT(sizes); i += t ? 5 : 1) {
      s->layout = layouts[(i + t) % CF_COUNT(layouts)];
      gather_one(s, type, all_types[t], 40, sizes[i], 1 + (i * 7) % 33);
    }
  gather_one(s, type, type, 1, 1, 100);
  gather_one(s, type, type, 5, 3, 0);
  gather_one(s, type, type, 5, 0, 3);
}

/* An index out of range: where the device is the host, nothing is written; else the row is zeros,
 * and the error shows with the next sync. The rest is as if nothing had happened. */
static void gather_out_of_range(cf_session *s, layerops_type type) {
  static const int wrong[] = {-1, 5, INT32_MAX, INT32_MIN};
  for (int64_t i = 0; i < CF_COUNT(wrong); i++) {
    cf_case(s, "index %d of 5 rows", wrong[i]);
    cf_operand *x = cf_matrix(s, "x", type, 5, 33, CF_INTEGER);
    cf_operand *index = cf_matrix(s, "index", LAYEROPS_I32, 1, 3, CF_ONE);
    cf_set(index, 0, 1, wrong[i]);
    cf_operand *y = cf_matrix(s, "y", type, 3, 33, CF_ONE);
    layerops_gather_args args = {
        .x = cf_on(x, CF_DEVICE), .index = cf_on(index, CF_DEVICE), .y = cf_on(y, CF_DEVICE)};
    layerops_status status = layerops_gather(s->ctx[CF_DEVICE], &args);
    bool at_once = s->on_host || s->variant == CF_HOST;
    if (!at_once) {
      cf_expect(s, status == LAYEROPS_OK, "the call returned %s", layerops_status_name(status));
      status = layerops_sync(s->ctx[CF_DEVICE]);
      y->is_output = true;
    }
    cf_expect(s, status == LAYEROPS_ERROR_LABEL, "status %s in place of ERROR_LABEL",
              layerops_status_name(status));
    cf_expect(s, strstr(layerops_last_error(), "index") != NULL, "message \"%s\"",
              layerops_last_error());
    double *got = cf_read(s, y, CF_DEVICE);
    for (int64_t n = 0; !at_once && n < y->count; n++) {
      double expected = n / 33 == 1 ? 0 : x->values[33 + n % 33];
      cf_expect(s, got[n] == expected, "y[%" PRId64 "] is %g, not %g", n, got[n], expected);
    }
    y->is_output = false; /* the reference was not called: only guards and inputs are left to see */
    if (!at_once) y->made = false;
    cf_end(s);
  }
}

const cf_check cf_move_checks[] = {
    {LAYEROPS_OP_fill, "shapes, layouts, values", CF_ALL, CF_EVERY, fills},
    {LAYEROPS_OP_fill, "value as element, value unset", CF_ALL, 0, fill_scalars},
    {LAYEROPS_OP_copy, "to every type", CF_ALL, CF_EVERY, copies},
    {LAYEROPS_OP_copy, "all codes", CF_F8, CF_MEMORY, copies_of_codes},
    {LAYEROPS_OP_copy, "rounded to 8-bit floats", CF_FLOATS, 0, copies_rounded},
    {LAYEROPS_OP_copy, "in place", CF_ALL, 0, copies_in_place},
    {LAYEROPS_OP_transpose, "shapes and layouts", CF_ALL, CF_EVERY, transposes},
    {LAYEROPS_OP_gather, "to every type", CF_ALL, CF_EVERY, gathers},
    {LAYEROPS_OP_gather, "index out of range", CF_F32 | CF_BIT(LAYEROPS_U8), CF_MEMORY,
     gather_out_of_range},
    {0},
};
