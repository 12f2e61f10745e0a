#include <config.h>

#include <inttypes.h>
#include <math.h>

#include "t/conformance/session.h"

typedef struct product {
  int64_t m, n, k;
  int trans_a, trans_b;
  layerops_type type, out;
  double alpha, beta; /* as values */
  bool unset;         /* alpha and beta are left unset */
  int64_t batch_a, batch_b, batch_c;
  cf_fill fill_a, fill_b, fill_c;
  bool planted; /* NaN and infinities in A and B */
  bool fast;    /* FAST_ACCUM */
} product;

static product of(layerops_type type, int64_t m, int64_t n, int64_t k, int trans) {
  return (product){.m = m,
                   .n = n,
                   .k = k,
                   .trans_a = trans & 1,
                   .trans_b = trans >> 1,
                   .type = type,
                   .out = cf_wide(type),
                   .alpha = 1,
                   .beta = 0,
                   .batch_a = 1,
                   .batch_b = 1,
                   .batch_c = 1,
                   .fill_a = CF_REAL,
                   .fill_b = CF_REAL,
                   .fill_c = CF_NAN};
}

static product integers(layerops_type type, int64_t m, int64_t n, int64_t k, int trans) {
  product p = of(type, m, n, k, trans);
  p.fill_a = p.fill_b = CF_INTEGER;
  return p;
}

static cf_operand *factor(cf_session *s, const char *name, layerops_type type, int trans,
                          int64_t batch, int64_t rows, int64_t cols, cf_fill fill) {
  if (type == LAYEROPS_I8 && fill == CF_REAL) fill = CF_RANGE;
  return cf_batched(s, name, type, batch, trans ? cols : rows, trans ? rows : cols, fill);
}

/* alpha acc + beta C: c(k) roundings of the sum, one more each for alpha itself and its product,
 * beta itself, its product and the sum. */
static void bound(cf_session *s, const product *p, cf_operand *a, cf_operand *b, cf_operand *c) {
  double *sums = cf_magnitudes(s, a, p->trans_a, b, p->trans_b), *bounds = cf_bound(s, c);
  double *kept = cf_kept(s, a, p->trans_a, b, p->trans_b, p->fast);
  double beta = p->unset ? 0 : fabs(p->beta), alpha = p->unset ? 1 : fabs(p->alpha);
  int64_t one = p->m * p->n, batch = p->batch_a > p->batch_b ? p->batch_a : p->batch_b;
  for (int64_t i = 0; i < c->count; i++) {
    const int64_t at = batch == 1 ? i % one : i;
    double sum = alpha ? alpha * sums[at] : 0;
    double old = beta ? beta * fabs(c->values[i]) : 0;
    bounds[i] = CF_U * ((cf_steps(p->type, p->k) + 3) * sum + 4 * old);
    if (kept && alpha) bounds[i] += alpha * kept[at];
  }
  cf_add_store(s, c);
}

static bool exact(const product *p) {
  return p->fill_a == CF_INTEGER && p->fill_b == CF_INTEGER && !p->planted;
}

static void run(cf_session *s, const product *p) {
  cf_case(s,
          "m=%" PRId64 " n=%" PRId64 " k=%" PRId64
          " trans=%c%c out=%s alpha=%g beta=%g batch=%" PRId64 ",%" PRId64 ",%" PRId64
          "%s offset=%" PRId64 " pad=%" PRId64,
          p->m, p->n, p->k, p->trans_a ? 't' : 'n', p->trans_b ? 't' : 'n',
          layerops_type_name(p->out), p->alpha, p->beta, p->batch_a, p->batch_b, p->batch_c,
          p->fast ? " fast" : "", s->layout.offset, s->layout.pad);
  const layerops_type second = s->second ? s->second : p->type;
  cf_operand *a = factor(s, "a", p->type, p->trans_a, p->batch_a, p->m, p->k, p->fill_a);
  cf_operand *b = factor(s, "b", second, p->trans_b, p->batch_b, p->k, p->n, p->fill_b);
  cf_operand *c = cf_batched(s, "c", p->out, p->batch_c, p->m, p->n, p->fill_c);
  c->is_output = true;
  if (p->planted) {
    cf_plant(s, a);
    cf_plant(s, b);
  }
  CF_SIDES(s, side) {
    layerops_gemm_args args = {.a = cf_on(a, side),
                               .b = cf_on(b, side),
                               .c = cf_on(c, side),
                               .trans_a = p->trans_a,
                               .trans_b = p->trans_b,
                               .flags = p->fast ? LAYEROPS_FAST_ACCUM : 0};
    if (!p->unset) {
      args.alpha = layerops_value(p->alpha);
      args.beta = layerops_value(p->beta);
    }
    CF_CALL(s, side, gemm, &args);
  }
  if (!exact(p)) bound(s, p, a, b, c);
  cf_end(s);
}

/* T-1, T, T+1 of the tile sizes that kernels have, in every combination; integers, so that a wrong
 * index shows and rounding does not. */
static void tile_edges(cf_session *s, layerops_type type) {
  static const int64_t tiles[] = {2, 8, 16, 32, 64, 128};
  int turn = 0;
  int64_t count = cf_in_full(s) ? CF_COUNT(tiles) : CF_COUNT(tiles) - 1;
  for (int64_t t = 0; t < count; t++)
    for (int64_t m = -1; m <= 1; m++)
      for (int64_t n = -1; n <= 1; n++)
        for (int64_t k = -1; k <= 1; k++)
          for (int trans = 0; trans < 4; trans++) {
            /* each combination with one transposition, or with all four where there is time */
            turn++;
            if (!s->options->full && tiles[t] > 16 && (turn + turn / 4) % 4) continue;
            product p = integers(type, tiles[t] + m, tiles[t] + n, tiles[t] + k, trans);
            if (trans % 3) p.out = LAYEROPS_F32;
            run(s, &p);
          }
}

/* Every m, n, k of a set of sizes that no tile divides, with one size large and the others small
 * too. */
static void odd_shapes(cf_session *s, layerops_type type) {
  static const int64_t shapes[][3] = {
      {1, 1, 1},   {1, 1, 2},     {2, 1, 3},    {1, 97, 31},   {97, 1, 31},  {3, 2, 9},
      {5, 7, 11},  {13, 17, 19},  {61, 37, 53}, {1, 1, 1009},  {2, 3, 521},  {257, 3, 5},
      {3, 257, 5}, {11, 109, 67}, {32, 15, 32}, {64, 239, 64}, {67, 131, 71}};
  static const cf_layout layouts[] = {{0, 0, 0}, {1, 1, 0}, {3, 5, 0}, {4, 4, 0}, {7, 0, 0}};
  for (int64_t i = 0; i < CF_COUNT(shapes); i++)
    for (int trans = 0; trans < 4; trans++) {
      s->layout = layouts[(i + trans) % CF_COUNT(layouts)];
      product p = of(type, shapes[i][0], shapes[i][1], shapes[i][2], trans);
      if ((i + trans) % 2) p.out = LAYEROPS_F32;
      run(s, &p);
    }
}

static void random_shapes(cf_session *s, layerops_type type) {
  for (int i = 0; i < (s->options->full ? 200 : 30); i++) {
    product p = of(type, 1 + cf_below(s, 150), 1 + cf_below(s, 150), 1 + cf_below(s, 150),
                   (int)cf_below(s, 4));
    s->layout = (cf_layout){cf_below(s, 9), cf_below(s, 9), 0};
    if (cf_below(s, 2)) p.out = LAYEROPS_F32;
    p.alpha = cf_uniform(s, -2, 2);
    p.beta = cf_uniform(s, -2, 2);
    p.fill_c = CF_REAL;
    run(s, &p);
  }
}

/* beta = 0 never reads C, alpha = 0 or k = 0 never reads A and B: NaN there does no harm. */
static void alpha_and_beta(cf_session *s, layerops_type type) {
  static const double pairs[][2] = {{1, 0}, {1, 1},  {-0.5, 2}, {0, 1},
                                    {0, 0}, {0, -3}, {2, -1},   {0.1, 0.3}};
  static const int64_t shapes[][3] = {{33, 33, 17}, {64, 64, 64}, {1, 70, 130}, {8, 8, 0}};
  for (int64_t i = 0; i < CF_COUNT(shapes); i++)
    for (int64_t j = 0; j < CF_COUNT(pairs); j++) {
      product p = of(type, shapes[i][0], shapes[i][1], shapes[i][2], (int)(j % 4));
      p.alpha = pairs[j][0];
      p.beta = pairs[j][1];
      if (p.alpha == 0) p.fill_a = p.fill_b = CF_NAN;
      p.fill_c = p.beta == 0 ? CF_NAN : CF_REAL;
      run(s, &p);
      p.out = LAYEROPS_F32;
      run(s, &p);
    }
  product p = of(type, 40, 30, 20, 2);
  p.unset = true;
  run(s, &p);
}

/* Integers once more where beta counts: C is read where it stands. */
static void accumulates(cf_session *s, layerops_type type) {
  for (int trans = 0; trans < 4; trans++) {
    product p = integers(type, 67, 71, 73, trans);
    s->layout = (cf_layout){3, 2, 0};
    p.beta = 1;
    p.fill_c = CF_INTEGER;
    run(s, &p);
    p.out = LAYEROPS_F32;
    p.alpha = -2;
    p.beta = -1;
    run(s, &p);
  }
}

static void batches(cf_session *s, layerops_type type) {
  static const int64_t counts[][3] = {{3, 3, 3}, {1, 3, 3}, {3, 1, 3},
                                      {1, 1, 3}, {5, 5, 5}, {1, 1, 1}};
  static const cf_layout layouts[] = {{0, 0, 0}, {1, 3, 7}};
  for (int64_t i = 0; i < CF_COUNT(counts); i++)
    for (int trans = 0; trans < 4; trans++) {
      s->layout = layouts[(i + trans) % 2];
      product p = integers(type, 17 + i, 33 - i, 29, trans);
      p.batch_a = counts[i][0];
      p.batch_b = counts[i][1];
      p.batch_c = counts[i][2];
      run(s, &p);
      p.fill_a = p.fill_b = p.fill_c = CF_REAL;
      p.alpha = 0.5;
      p.beta = 0.25;
      run(s, &p);
    }
}

/* No product at all, and products over nothing. */
static void empty_sizes(cf_session *s, layerops_type type) {
  static const int64_t shapes[][4] = {{0, 5, 5, 1}, {5, 0, 5, 1}, {5, 5, 0, 1}, {0, 0, 0, 1},
                                      {5, 0, 0, 1}, {0, 5, 0, 1}, {5, 5, 5, 0}, {16, 16, 0, 3}};
  static const double betas[] = {0, 1, -2};
  for (int64_t i = 0; i < CF_COUNT(shapes); i++)
    for (int64_t j = 0; j < CF_COUNT(betas); j++) {
      product p = integers(type, shapes[i][0], shapes[i][1], shapes[i][2], (int)(i % 4));
      p.batch_a = p.batch_b = p.batch_c = shapes[i][3];
      p.beta = betas[j];
      p.alpha = j == 2 ? INFINITY : 1; /* times nothing is nothing */
      p.fill_c = p.beta == 0 ? CF_NAN : CF_INTEGER;
      if (j == 2 && shapes[i][2]) p.alpha = 1;
      run(s, &p);
    }
}

static void nan_and_infinity(cf_session *s, layerops_type type) {
  for (int i = 0; i < 8; i++) {
    product p = of(type, 30 + 5 * i, 65 - i, 40 + i, i % 4);
    p.planted = true;
    if (i & 1) p.out = LAYEROPS_F32;
    run(s, &p);
  }
  product p = of(type, 33, 17, 16, 0);
  p.fill_c = CF_NAN;
  p.beta = 0.5; /* NaN in C comes through where beta counts */
  run(s, &p);
}

/* A 16-bit accumulator would stop at 2048 (f16) or 256 (bf16); long sums of reals grow as c(k)
 * says. */
static void long_sums(cf_session *s, layerops_type type) {
  static const int64_t lengths[] = {1000, 4096, 10007};
  for (int64_t i = 0; i < CF_COUNT(lengths); i++)
    for (int trans = 0; trans < 4; trans++) {
      product p = of(type, 5, 9, lengths[i], trans);
      p.out = LAYEROPS_F32;
      run(s, &p);
      p.fill_a = CF_UNIT; /* all of one sign in A: the sum wanders */
      run(s, &p);
      p = integers(type, 3, 5, lengths[i], trans);
      p.fill_a = p.fill_b = CF_ONE;
      run(s, &p);
    }
}

/* alpha and beta stand in buffers, are read when the call runs, and so may change between replays.
 */
static void changing_scalars(cf_session *s, layerops_type type) {
  static const double values[][2] = {{1, 0}, {2, 1}, {0, 1}, {-1, 3}};
  cf_case(s, "alpha and beta are elements of a buffer that changes between replays");
  cf_operand *a = cf_matrix(s, "a", type, 19, 23, CF_INTEGER);
  cf_operand *b = cf_matrix(s, "b", s->second ? s->second : type, 23, 21, CF_INTEGER);
  cf_operand *c = cf_output(s, "c", LAYEROPS_F32, 19, 21, CF_NAN);
  cf_operand *alpha = cf_matrix(s, "alpha", LAYEROPS_F32, 1, 1, CF_ONE);
  cf_operand *beta = cf_matrix(s, "beta", LAYEROPS_F32, 1, 1, CF_ZERO);
  layerops_graph *graph[2] = {NULL, NULL};
  for (int side = CF_DEVICE; side <= CF_REFERENCE; side++) {
    layerops_gemm_args args = {.a = cf_on(a, side),
                               .b = cf_on(b, side),
                               .c = cf_on(c, side),
                               .alpha = cf_element(alpha, side),
                               .beta = cf_element(beta, side)};
    layerops_context *ctx = s->ctx[side];
    cf_expect(s,
              !layerops_record_begin(ctx) && !layerops_gemm(ctx, &args) &&
                  !layerops_record_end(ctx, &graph[side]),
              "recording: %s", layerops_last_error());
  }
  for (int64_t i = 0; i < CF_COUNT(values) && !s->failed; i++) {
    alpha->values[0] = values[i][0];
    beta->values[0] = values[i][1];
    cf_rewrite(s, alpha);
    cf_rewrite(s, beta);
    for (int side = CF_DEVICE; side <= CF_REFERENCE; side++)
      cf_expect(s, !layerops_graph_replay(graph[side]), "replay: %s", layerops_last_error());
    double *got = cf_read(s, c, CF_DEVICE), *expected = cf_read(s, c, CF_REFERENCE);
    for (int64_t n = 0; n < c->count; n++)
      cf_expect(s, got[n] == expected[n], "alpha=%g beta=%g: c[%" PRId64 "]: expected %g, got %g",
                values[i][0], values[i][1], n, expected[n], got[n]);
  }
  layerops_graph_destroy(graph[0]);
  layerops_graph_destroy(graph[1]);
  cf_end(s);
}

/* With FAST_ACCUM, which changes nothing but sums of 8-bit floats; those of few small integers not
 * either: 14 bits hold them. */
static void fast_sums(cf_session *s, layerops_type type) {
  static const int64_t lengths[] = {1, 31, 33, 127, 128, 130, 500, 1000, 4096};
  for (int64_t i = 0; i < CF_COUNT(lengths); i++)
    for (int trans = 0; trans < 4; trans++) {
      product p = of(type, 33, 29, lengths[i], trans);
      p.out = LAYEROPS_F32;
      p.fast = true;
      run(s, &p);
      p.fill_a = p.fill_b = CF_INTEGER;
      if (p.k <= 500) run(s, &p);
    }
}

const cf_check cf_gemm_checks[] = {
    {LAYEROPS_OP_gemm, "edges of tiles", CF_FLOATS, CF_MEMORY, tile_edges},
    {LAYEROPS_OP_gemm, "odd shapes and layouts", CF_FLOATS, CF_EVERY, odd_shapes},
    {LAYEROPS_OP_gemm, "random shapes", CF_FLOATS, 0, random_shapes},
    {LAYEROPS_OP_gemm, "alpha and beta", CF_FLOATS, CF_MEMORY, alpha_and_beta},
    {LAYEROPS_OP_gemm, "accumulation", CF_FLOATS, CF_BIT(CF_REPLAY), accumulates},
    {LAYEROPS_OP_gemm, "batches", CF_FLOATS, CF_EVERY, batches},
    {LAYEROPS_OP_gemm, "empty sizes", CF_FLOATS, CF_EVERY, empty_sizes},
    {LAYEROPS_OP_gemm, "NaN and infinity", CF_FLOATS, 0, nan_and_infinity},
    {LAYEROPS_OP_gemm, "long sums", CF_FLOATS, CF_BIT(CF_TWICE), long_sums},
    {LAYEROPS_OP_gemm, "scalars that change", CF_FLOATS, 0, changing_scalars},
    CF_PAIRS(LAYEROPS_OP_gemm, "edges of tiles", 0, tile_edges),
    CF_PAIRS(LAYEROPS_OP_gemm, "odd shapes and layouts", CF_MEMORY, odd_shapes),
    CF_PAIRS(LAYEROPS_OP_gemm, "random shapes", 0, random_shapes),
    CF_PAIRS(LAYEROPS_OP_gemm, "alpha and beta", 0, alpha_and_beta),
    CF_PAIRS(LAYEROPS_OP_gemm, "accumulation", CF_BIT(CF_REPLAY), accumulates),
    CF_PAIRS(LAYEROPS_OP_gemm, "batches", CF_MEMORY, batches),
    CF_PAIRS(LAYEROPS_OP_gemm, "empty sizes", CF_BIT(CF_HOST), empty_sizes),
    CF_PAIRS(LAYEROPS_OP_gemm, "NaN and infinity", 0, nan_and_infinity),
    CF_PAIRS(LAYEROPS_OP_gemm, "long sums", CF_BIT(CF_TWICE), long_sums),
    CF_PAIRS(LAYEROPS_OP_gemm, "fast sums", CF_BIT(CF_TWICE), fast_sums),
    CF_PAIRS(LAYEROPS_OP_gemm, "scalars that change", 0, changing_scalars),
    {0},
};
