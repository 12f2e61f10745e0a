/* Forward and dgrad sum blocks times slices of their input: `direct` with outputs on the vector's
   lanes; `samples` with samples there, for which tiles of samples are transposed on their way in
   and out, within the call. wgrad is a product for each kept block, whose factors are slices of Y
   and X; or of Y transposed, within the call. libxsmm is column-major: its C [M,N] = A [M,K] B
   [K,N] is the transposed of ours. */
#include <config.h>

#include "bench/peers/libxsmm_sparse.h"

#include <libxsmm.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/peers/common.h"

typedef unsigned long long blocks_count;
typedef libxsmm_smmfunction_reducebatch_offs sum_kernel;

/* A tile has so many samples; of wgrad, a step of the sum. 0: all */
static const struct way {
  const char *name;
  bool turned; /* samples; of wgrad Y transposed */
  int64_t tile;
} ways[] = {{"direct-16", false, 16},   {"direct-32", false, 32}, {"direct-64", false, 64},
            {"direct-128", false, 128}, {"direct-all", false, 0}, {"turned-16", true, 16},
            {"turned-32", true, 32},    {"turned-64", true, 64},  {"turned-128", true, 128},
            {"turned-all", true, 0}};
enum { WAYS = sizeof ways / sizeof *ways };

struct bench_xsmm_sparse {
  struct bench_layer layer;
  int64_t b, m;
  int fastest;
  /* Of forward and dgrad: out [m, out_cols] = sums over in [m, in_cols]; group g of outputs sums
     the blocks order[start[g]] ... */
  const float *in;
  float *out;
  int64_t in_cols, out_cols, groups;
  int32_t *start, *order, *slice;      /* slice: which of the input a block is multiplied with */
  float *transposed;                   /* the values, each block transposed */
  blocks_count *w_at, *in_at[WAYS][2]; /* in bytes; of a whole tile, of the last */
  sum_kernel sum[WAYS][2];
  /* Of wgrad */
  libxsmm_smmfunction_reducebatch_strd run[WAYS];
  float *scratch; /* the input transposed; of wgrad Y */
  float *outputs; /* transposed, [threads][b, m] */
};

static int64_t smaller(int64_t a, int64_t b) {
  return a < b ? a : b;
}

static int64_t tile_of(const struct bench_xsmm_sparse *s, int way) {
  return ways[way].tile ? smaller(ways[way].tile, s->m) : s->m;
}

/* ---- forward and dgrad ---- */

/* Which matrix a kernel multiplies with: of forward `direct` has W's blocks transposed, of dgrad
   `samples` does. */
static const float *values_of(const struct bench_xsmm_sparse *s, int way) {
  const bool forward = s->layer.product == BENCH_FORWARD;
  return ways[way].turned == forward ? s->layer.w : s->transposed;
}

static void sum_direct(const struct bench_xsmm_sparse *s, int way, int64_t i, int64_t g) {
  const int64_t tile = tile_of(s, way), rows = smaller(tile, s->m - i), first = s->start[g];
  blocks_count count = (blocks_count)(s->start[g + 1] - first);
  float *out = s->out + i * s->out_cols + g * s->b;
  if (count)
    s->sum[way][rows < tile](values_of(s, way), s->in + i * s->in_cols, out, &count,
                             s->w_at + first, s->in_at[way][0] + first);
  else
    for (int64_t l = 0; l < rows; l++) memset(out + l * s->out_cols, 0, (size_t)s->b * sizeof *out);
}

/* Input tile i of the transposed input is [in_cols][rows]. */
static void sum_samples(const struct bench_xsmm_sparse *s, int way, int64_t i, int64_t g) {
  const int64_t tile = tile_of(s, way), rows = smaller(tile, s->m - i), first = s->start[g];
  blocks_count count = (blocks_count)(s->start[g + 1] - first);
  float *turned = s->outputs + omp_get_thread_num() * s->b * s->m;
  float *out = s->out + i * s->out_cols + g * s->b;
  if (!count) {
    sum_direct(s, way, i, g);
    return;
  }
  s->sum[way][rows < tile](s->scratch + i * s->in_cols, values_of(s, way), turned, &count,
                           s->in_at[way][rows < tile] + first, s->w_at + first);
  libxsmm_otrans(out, turned, sizeof *out, (libxsmm_blasint)rows, (libxsmm_blasint)s->b,
                 (libxsmm_blasint)rows, (libxsmm_blasint)s->out_cols);
}

static void turn_input(const struct bench_xsmm_sparse *s, int way) {
  const int64_t tile = tile_of(s, way);
#pragma omp parallel for num_threads(s->layer.threads) schedule(static)
  for (int64_t i = 0; i < s->m; i += tile) {
    const int64_t rows = smaller(tile, s->m - i);
    libxsmm_otrans(s->scratch + i * s->in_cols, s->in + i * s->in_cols, sizeof(float),
                   (libxsmm_blasint)s->in_cols, (libxsmm_blasint)rows, (libxsmm_blasint)s->in_cols,
                   (libxsmm_blasint)rows);
  }
}

static void run_sums(const struct bench_xsmm_sparse *s, int way) {
  const int64_t tile = tile_of(s, way);
  if (ways[way].turned) turn_input(s, way);
#pragma omp parallel for collapse(2) num_threads(s->layer.threads) schedule(dynamic, 4)
  for (int64_t i = 0; i < s->m; i += tile)
    for (int64_t g = 0; g < s->groups; g++)
      (ways[way].turned ? sum_samples : sum_direct)(s, way, i, g);
}

static sum_kernel dispatch_sum(const struct bench_xsmm_sparse *s, int way, int64_t rows) {
  const libxsmm_blasint b = (libxsmm_blasint)s->b, r = (libxsmm_blasint)rows;
  const libxsmm_blasint in = (libxsmm_blasint)s->in_cols, out = (libxsmm_blasint)s->out_cols;
  const float one = 1, zero = 0;
  const int none = LIBXSMM_GEMM_PREFETCH_NONE;
  return ways[way].turned
             ? libxsmm_smmdispatch_reducebatch_offs(r, b, b, &r, &b, &r, &one, &zero, NULL, &none)
             : libxsmm_smmdispatch_reducebatch_offs(b, r, b, &b, &in, &out, &one, &zero, NULL,
                                                    &none);
}

/* A tile of so many samples, transposed or as it is. */
static bool make_tile(struct bench_xsmm_sparse *s, int way, int last, int64_t rows) {
  const int64_t count = s->start[s->groups];
  const int64_t step = s->b * (ways[way].turned ? rows : 1) * (int64_t)sizeof(float);
  blocks_count *at = s->in_at[way][last] = malloc((size_t)(count + 1) * sizeof *at);
  for (int64_t e = 0; at && e < count; e++) at[e] = (blocks_count)(s->slice[e] * step);
  s->sum[way][last] = dispatch_sum(s, way, rows);
  return at && s->sum[way][last];
}

static bool make_sum(struct bench_xsmm_sparse *s, int way) {
  const int64_t tile = tile_of(s, way), rest = s->m % tile;
  return make_tile(s, way, 0, tile) && (!rest || make_tile(s, way, 1, rest));
}

void bench_xsmm_sparse_pack(struct bench_xsmm_sparse *s) {
  const int64_t b = s->b, count = bench_pattern_kept(s->layer.pattern);
  const float *w = s->layer.w;
  for (int64_t e = 0; s->transposed && e < count; e++)
    for (int64_t i = 0; i < b * b; i++)
      s->transposed[e * b * b + i % b * b + i / b] = w[e * b * b + i];
}

/* Kept blocks by groups of outputs: block rows for forward, block columns for dgrad. */
static void order_blocks(struct bench_xsmm_sparse *s) {
  const struct bench_pattern *p = s->layer.pattern;
  const bool forward = s->layer.product == BENCH_FORWARD;
  int32_t at = 0;
  for (int64_t g = 0; g < s->groups; g++) {
    s->start[g] = at;
    for (int64_t r = forward ? g : 0; r < (forward ? g + 1 : p->rows); r++)
      for (int32_t e = p->row_start[r]; e < p->row_start[r + 1]; e++) {
        if (!forward && p->col[e] != g) continue;
        s->order[at] = e;
        s->slice[at] = forward ? p->col[e] : (int32_t)r;
        s->w_at[at++] = (blocks_count)(e * s->b * s->b) * sizeof(float);
      }
  }
  s->start[s->groups] = at;
}

static bool make_sums(struct bench_xsmm_sparse *s) {
  const struct bench_layer *l = &s->layer;
  const bool forward = l->product == BENCH_FORWARD;
  const size_t count = (size_t)bench_pattern_kept(l->pattern) + 1;
  s->in = forward ? l->x : l->y;
  s->out = forward ? l->y : l->x;
  s->in_cols = forward ? l->row->k : l->row->n;
  s->out_cols = forward ? l->row->n : l->row->k;
  s->groups = forward ? l->pattern->rows : l->pattern->cols;
  s->start = malloc(((size_t)s->groups + 1) * sizeof *s->start);
  s->order = malloc(count * sizeof *s->order);
  s->slice = malloc(count * sizeof *s->slice);
  s->w_at = malloc(count * sizeof *s->w_at);
  s->transposed = malloc(count * (size_t)(s->b * s->b) * sizeof(float));
  s->scratch = malloc((size_t)(s->m * s->in_cols) * sizeof(float));
  s->outputs = malloc((size_t)(l->threads * s->b * s->m) * sizeof(float));
  if (!s->outputs || !s->start || !s->order || !s->slice || !s->w_at || !s->transposed ||
      !s->scratch)
    return false;
  order_blocks(s);
  bench_xsmm_sparse_pack(s);
  bool some = false;
  for (int way = 0; way < WAYS; way++) {
    const bool made = make_sum(s, way);
    if (!made) s->sum[way][0] = NULL;
    some = some || made;
  }
  return some;
}

/* ---- wgrad ---- */

/* Y [m, n] as [n, m]. */
static void turn_y(const struct bench_xsmm_sparse *s) {
  const int64_t n = s->layer.row->n, width = 64;
  const float *y = s->layer.y;
#pragma omp parallel for num_threads(s->layer.threads) schedule(static)
  for (int64_t j = 0; j < n; j += width)
    libxsmm_otrans(s->scratch + j * s->m, y + j, sizeof *y, (libxsmm_blasint)smaller(width, n - j),
                   (libxsmm_blasint)s->m, (libxsmm_blasint)n, (libxsmm_blasint)s->m);
}

static void run_products(const struct bench_xsmm_sparse *s, int way) {
  const struct bench_pattern *p = s->layer.pattern;
  const int64_t b = s->b;
  const float *x = s->layer.x, *y = s->layer.y;
  float *w = s->layer.w;
  const bool turned = ways[way].turned;
  const blocks_count steps = (blocks_count)(s->m / tile_of(s, way));
  if (turned) turn_y(s);
#pragma omp parallel for num_threads(s->layer.threads) schedule(dynamic, 1)
  for (int64_t r = 0; r < p->rows; r++)
    for (int32_t e = p->row_start[r]; e < p->row_start[r + 1]; e++)
      s->run[way](x + p->col[e] * b, turned ? s->scratch + r * b * s->m : y + r * b, w + e * b * b,
                  &steps);
}

/* The steps are whole ones. */
static bool make_product(struct bench_xsmm_sparse *s, int way) {
  const libxsmm_blasint b = (libxsmm_blasint)s->b, tile = (libxsmm_blasint)tile_of(s, way);
  const libxsmm_blasint k = (libxsmm_blasint)s->layer.row->k, n = (libxsmm_blasint)s->layer.row->n;
  const libxsmm_blasint m = (libxsmm_blasint)s->m, bytes = (libxsmm_blasint)sizeof(float);
  const bool turned = ways[way].turned;
  const float one = 1, zero = 0;
  const int none = LIBXSMM_GEMM_PREFETCH_NONE;
  const int flags = turned ? LIBXSMM_GEMM_FLAG_NONE : LIBXSMM_GEMM_FLAG_TRANS_B;
  if (s->m % tile) return false;
  s->run[way] = libxsmm_smmdispatch_reducebatch_strd(
      b, b, tile, tile * k * bytes, tile * (turned ? 1 : n) * bytes, &k, turned ? &m : &n, &b, &one,
      &zero, &flags, &none);
  return s->run[way] != NULL;
}

static bool make_products(struct bench_xsmm_sparse *s) {
  s->scratch = malloc((size_t)(s->m * s->layer.row->n) * sizeof(float));
  bool some = false;
  for (int way = 0; s->scratch && way < WAYS; way++) some = make_product(s, way) || some;
  return some;
}

/* ---- both ---- */

static bool run_way(void *state, int way, int64_t calls) {
  const struct bench_xsmm_sparse *s = state;
  const bool wgrad = s->layer.product == BENCH_WGRAD;
  if (wgrad ? !s->run[way] : !s->sum[way][0]) return false;
  for (int64_t i = 0; i < calls; i++) (wgrad ? run_products : run_sums)(s, way);
  return true;
}

void bench_xsmm_sparse_run(struct bench_xsmm_sparse *s) {
  run_way(s, s->fastest, 1);
}

void bench_xsmm_sparse_label(const struct bench_xsmm_sparse *s, char *label, size_t size) {
  snprintf(label, size, "libxsmm-%s:batch-reduce-%s", LIBXSMM_VERSION, ways[s->fastest].name);
}

void bench_xsmm_sparse_free(struct bench_xsmm_sparse *s) {
  for (int i = 0; i < 2 * WAYS; i++) free(s->in_at[i / 2][i % 2]);
  free(s->start);
  free(s->order);
  free(s->slice);
  free(s->w_at);
  free(s->transposed);
  free(s->scratch);
  free(s->outputs);
  free(s);
}

struct bench_xsmm_sparse *bench_xsmm_sparse_make(const struct bench_layer *layer) {
  struct bench_xsmm_sparse *s = calloc(1, sizeof *s);
  if (!s) return NULL;
  s->layer = *layer;
  s->b = layer->row->block;
  s->m = layer->row->m;
  s->fastest = -1;
  if (layer->product == BENCH_WGRAD ? make_products(s) : make_sums(s))
    s->fastest = bench_pick(s, run_way, WAYS);
  if (s->fastest >= 0) return s;
  bench_xsmm_sparse_free(s);
  return NULL;
}
