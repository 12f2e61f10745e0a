/* libxsmm: batch-reduce kernels over packed weights, the epilogue on each tile while it is in
   cache. Seen column-major, as libxsmm sees it, a tile is Y^T = sum over blocks of W (bn x bk)
   times X^T (bk x bm); the weights are packed so that a block's bn rows are contiguous.
   Block-sparse rows: libxsmm_sparse.c. */
#include <config.h>

#include <libxsmm.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/peers/common.h"
#include "bench/peers/libxsmm_sparse.h"

typedef unsigned long long blocks_count;

/* One way to cut a layer: blocks of bn x bk weights, tiles of bm rows of X. */
struct cut {
  int64_t bn, bk, bm;
};

static const struct cut cuts[] = {{64, 64, 32},  {32, 64, 64},  {64, 128, 64}, {64, 512, 64},
                                  {48, 256, 48}, {64, 4096, 6}, {16, 256, 64}};
enum { WAYS = sizeof cuts / sizeof *cuts };

/* The kernels of one cut. [n whole or last][m whole or last] */
struct way {
  int64_t bn, bk, bm, last_n, last_m, last_k;
  float *packed; /* [n / bn][k][bn], the last panel as wide as it is */
  libxsmm_smmfunction_reducebatch_strd main[2][2];
  libxsmm_smmfunction rest[2][2]; /* the last, shorter block in k, added */
};

struct state {
  struct bench_layer layer;
  int fastest;
  struct way ways[WAYS];
  struct bench_xsmm_sparse *sparse; /* NULL: dense */
};

static const float one = 1, zero = 0;
static const int no_prefetch = LIBXSMM_GEMM_PREFETCH_NONE;

static int64_t smaller(int64_t a, int64_t b) {
  return a < b ? a : b;
}

/* The size of the last of the tiles of size B: B itself where they divide N. */
static int64_t last_of(int64_t n, int64_t b) {
  return n % b ? n % b : b;
}

static int64_t panel_width(const struct way *w, int64_t n, int64_t first) {
  return smaller(w->bn, n - first);
}

static void pack_way(const struct way *w, const struct bench_layer *layer) {
  int64_t n = layer->row->n, k = layer->row->k;
  const float *weights = layer->w;
#pragma omp parallel for num_threads(layer->threads)
  for (int64_t first = 0; first < n; first += w->bn) {
    int64_t width = panel_width(w, n, first);
    for (int64_t l = 0; l < k; l++)
      for (int64_t j = 0; j < width; j++)
        w->packed[first * k + l * width + j] = weights[(first + j) * k + l];
  }
}

static bool dispatch(struct way *w, int64_t n, int64_t k, bool last_n, bool last_m) {
  libxsmm_blasint bn = (libxsmm_blasint)(last_n ? w->last_n : w->bn);
  libxsmm_blasint bm = (libxsmm_blasint)(last_m ? w->last_m : w->bm);
  libxsmm_blasint bk = (libxsmm_blasint)w->bk, last_k = (libxsmm_blasint)w->last_k;
  libxsmm_blasint ldx = (libxsmm_blasint)k, ldy = (libxsmm_blasint)n;
  w->main[last_n][last_m] = libxsmm_smmdispatch_reducebatch_strd(
      bn, bm, bk, bn * bk * (libxsmm_blasint)sizeof(float), bk * (libxsmm_blasint)sizeof(float),
      &bn, &ldx, &ldy, &one, &zero, NULL, &no_prefetch);
  if (!w->main[last_n][last_m]) return false;
  if (!last_k) return true;
  w->rest[last_n][last_m] =
      libxsmm_smmdispatch(bn, bm, last_k, &bn, &ldx, &ldy, &one, &one, NULL, &no_prefetch);
  return w->rest[last_n][last_m] != NULL;
}

static bool make_way(struct way *w, const struct cut *cut, const struct bench_layer *layer) {
  const struct bench_row *row = layer->row;
  w->bn = smaller(cut->bn, row->n);
  w->bk = smaller(cut->bk, row->k);
  w->bm = smaller(cut->bm, row->m);
  w->last_n = last_of(row->n, w->bn);
  w->last_m = last_of(row->m, w->bm);
  w->last_k = row->k % w->bk;
  w->packed = aligned_alloc(64, ((size_t)(row->n * row->k) * sizeof(float) + 63) / 64 * 64);
  if (!w->packed) return false;
  pack_way(w, layer);
  for (int i = 0; i < 4; i++)
    if (!dispatch(w, row->n, row->k, i & 1, i >> 1)) return false;
  return true;
}

static void tile(const struct bench_layer *layer, const struct way *w, int64_t i, int64_t j) {
  const struct bench_row *row = layer->row;
  int64_t n = row->n, k = row->k, rows = smaller(w->bm, row->m - i), cols = panel_width(w, n, j);
  bool last_n = cols < w->bn, last_m = rows < w->bm;
  const float *panel = w->packed + j * k, *x = (const float *)layer->x + i * k;
  float *y = (float *)layer->y + i * n + j;
  blocks_count blocks = (blocks_count)(k / w->bk);
  int64_t done = k - w->last_k;
  w->main[last_n][last_m](panel, x, y, &blocks);
  if (w->last_k) w->rest[last_n][last_m](panel + done * cols, x + done, y);
  bench_epilogue(y, rows, cols, n, (const float *)layer->bias + j, row->activation);
}

static void dense_call(const struct bench_layer *layer, const struct way *w) {
#pragma omp parallel for collapse(2) num_threads(layer->threads) schedule(static)
  for (int64_t j = 0; j < layer->row->n; j += w->bn)
    for (int64_t i = 0; i < layer->row->m; i += w->bm) tile(layer, w, i, j);
}

static bool run_way(void *state, int way, int64_t calls) {
  struct state *s = state;
  if (!s->ways[way].main[0][0]) return false;
  for (int64_t i = 0; i < calls; i++) dense_call(&s->layer, &s->ways[way]);
  return true;
}

static bool run(void *state, int64_t calls) {
  struct state *s = state;
  if (!s->sparse) return run_way(state, s->fastest, calls);
  for (int64_t i = 0; i < calls; i++) bench_xsmm_sparse_run(s->sparse);
  return true;
}

static bool fetch(void *state) {
  (void)state;
  return true; /* run writes where the layer has it */
}

static void close_state(void *state) {
  struct state *s = state;
  for (int way = 0; way < WAYS; way++) free(s->ways[way].packed);
  if (s->sparse) bench_xsmm_sparse_free(s->sparse);
  free(s);
}

static bool pack(void *state) {
  struct state *s = state;
  if (s->sparse)
    bench_xsmm_sparse_pack(s->sparse);
  else
    pack_way(&s->ways[s->fastest], &s->layer);
  return true;
}

/* The ways that a layer cannot have (a kernel too large for the generator) drop out of the choice;
   the packed copies of the slower ones go. */
static bool build_dense(struct state *s) {
  for (int way = 0; way < WAYS; way++)
    if (!make_way(&s->ways[way], &cuts[way], &s->layer)) s->ways[way].main[0][0] = NULL;
  s->fastest = bench_pick(s, run_way, WAYS);
  for (int way = 0; way < WAYS; way++) {
    if (way == s->fastest) continue;
    free(s->ways[way].packed);
    s->ways[way].packed = NULL;
  }
  return s->fastest >= 0;
}

static bool setup(const struct bench_layer *layer, void **state, char *label, size_t label_size,
                  char *why, size_t why_size) {
  if (strcmp(layer->dtype, "f32")) {
    snprintf(why, why_size, "the adapter measures its f32 kernels");
    return false;
  }
  struct state *s = calloc(1, sizeof *s);
  if (s) s->layer = *layer;
  libxsmm_init();
  if (s && layer->pattern) s->sparse = bench_xsmm_sparse_make(layer);
  if (!s || !(layer->pattern ? s->sparse != NULL : build_dense(s))) {
    snprintf(why, why_size, s ? "it has no kernel for this layer" : "out of memory");
    if (s) close_state(s);
    return false;
  }
  if (s->sparse)
    bench_xsmm_sparse_label(s->sparse, label, label_size);
  else
    snprintf(label, label_size, "libxsmm-%s:batch-reduce-%dx%dx%d", LIBXSMM_VERSION,
             (int)s->ways[s->fastest].bn, (int)s->ways[s->fastest].bk, (int)s->ways[s->fastest].bm);
  *state = s;
  return true;
}

BENCH_PEER_EXPORT extern const struct bench_peer layerops_bench_peer;
const struct bench_peer layerops_bench_peer = {.abi = BENCH_PEER_ABI,
                                               .name = "libxsmm",
                                               .weights = BENCH_PACKED,
                                               .setup = setup,
                                               .run = run,
                                               .fetch = fetch,
                                               .pack = pack,
                                               .close = close_state};
