/* Products with block-sparse weights and activations of 16 bits, by features or with factors of
 * blocks: on tensor cores, through a ring of stages. */
#include <config.h>

#include "backends/cuda/bsr_launch.h"
#include "backends/cuda/ops_bsr.h"

#include "backends/cuda/plan.h"
#include "common/bsr.h"

enum { AMPERE = 80 };

/* What both need: activations that tensor cores multiply. */
static const char *refuse_type(layerops_context *ctx, layerops_type type) {
  if (type == LAYEROPS_BF16 && lo_cuda(ctx)->architecture < AMPERE)
    return "bf16 needs Ampere's tensor cores";
  return lo_type_bytes(type) == 2 ? NULL : "activations are not of 16 bits";
}

/* ---- Products */
typedef struct problem {
  const lo_cuda_bsr_product *p;
  const layerops_bsr *w;
  int64_t m, n, k, lines; /* lines: of blocks */
  int k_side, n_side;
  bool factors, narrow;
} problem;

static problem problem_of(const lo_cuda_bsr_product *p) {
  const layerops_bsr *w = p->w;
  const bool narrow = w->type == LAYEROPS_I8;
  return (problem){.p = p,
                   .w = w,
                   .m = p->features ? p->x.cols : p->x.rows,
                   .n = p->turned ? w->cols : w->rows,
                   .k = p->turned ? w->rows : w->cols,
                   .lines = p->turned ? w->block_cols : w->block_rows,
                   .k_side = (int)(p->turned ? w->height : w->width),
                   .n_side = (int)(p->turned ? w->width : w->height),
                   .factors = narrow || lo_present(&p->gate),
                   .narrow = narrow};
}

/* shared: bytes of its stages. */
typedef struct tile {
  int bm, bn, shared;
} tile;
#define X(NAME, BM, BN, PARTS_M, PARTS_N, STAGES, RESIDENT)                                        \
  {BM, BN, LO_CU_BSR_FEATURES_STAGES(BM, BN, STAGES)},
static const tile plain[] = {LO_CU_BSR_FEATURES(X)}, weighted[] = {LO_CU_BSR_FEATURES_FACTORS(X)};
#undef X
enum {
  PLAIN_COUNT = sizeof plain / sizeof *plain,
  WEIGHTED_COUNT = sizeof weighted / sizeof *weighted,
  BESIDE = 8 * 1024 /* what a block of threads needs beside them, at most */
};

static const tile *tile_of(const problem *q, int number) {
  return (q->factors ? weighted : plain) + number;
}
/* Tiles that make up a line of blocks. */
static int64_t parts_of(const problem *q, const tile *t) {
  return q->n_side > t->bn ? q->n_side / t->bn : 1;
}
static int64_t tiles_of(const problem *q, const tile *t) {
  return lo_ceil_div(q->m, t->bm) * q->lines * parts_of(q, t);
}

static bool fits(layerops_context *ctx, const tile *t) {
  return t->shared + BESIDE <= lo_cuda(ctx)->device->shared;
}
/* Whether such tiles are enough to keep all SMs busy. Fitted to times on an H200 (2026-12). */
static bool are_enough(layerops_context *ctx, const problem *q, const tile *t) {
  return 2 * tiles_of(q, t) > 3 * (int64_t)lo_cuda(ctx)->device->sms;
}
/* Of the tiles in the list's order, which is that of their sizes, the last that are enough; else
 * the first that a block of W fills. */
static int wanted(layerops_context *ctx, const problem *q) {
  const tile *tiles = q->factors ? weighted : plain;
  const int count = q->factors ? WEIGHTED_COUNT : PLAIN_COUNT, narrow = q->n_side < 32 ? 16 : 32;
  int best = -1;
  for (int i = 0; i < count; i++) {
    const tile *t = tiles + i;
    if (q->narrow && t->bn > 32) continue; /* more that wait to be widened cost more */
    if (!fits(ctx, t) || t->bn < narrow || (t->bn > narrow && t->bn > q->n_side)) continue;
    if (best < 0 || are_enough(ctx, q, t)) best = i;
  }
  return best;
}
static const char *refuse(layerops_context *ctx, const problem *q, const char *name, int number,
                          bool factors) {
  const char *reason = lo_cuda_shut_out(ctx, name);
  if (!reason) reason = refuse_type(ctx, q->p->x.type);
  if (reason) return reason;
  if (factors != q->factors) return factors ? "blocks have no factors" : "blocks have factors";
  if (!factors && !q->p->features) return "activations are samples by row";
  const tile *t = tile_of(q, number);
  if (!fits(ctx, t)) return "a block has too little shared memory";
  if (t->bn > 16 && t->bn > q->n_side) return "blocks are of another size";
  if (tiles_of(q, t) > LO_CUDA_LARGEST_GRID) return "so many rows";
  if (q->p->x.stride > INT32_MAX || q->k > INT32_MAX) return "rows of X lie too far apart";
  if (q->w->count > UINT32_MAX / (q->n_side * q->k_side / 8)) return "so many values";
  if (!*lo_cuda(ctx)->forced && number != wanted(ctx, q))
    return "a tile of another size suits the product";
  return NULL;
}
#define PLAIN(NAME, NUMBER)                                                                        \
  static const char *refuse_##NAME(layerops_context *ctx, const void *q) {                         \
    return refuse(ctx, q, "bsr_features_" #NAME, NUMBER, false);                                   \
  }
#define WEIGHTED(NAME, NUMBER)                                                                     \
  static const char *refuse_weighted_##NAME(layerops_context *ctx, const void *q) {                \
    return refuse(ctx, q, "bsr_weighted_" #NAME, NUMBER, true);                                    \
  }
PLAIN(64x16, 0)
PLAIN(64x32, 1)
PLAIN(128x16, 2)
PLAIN(128x32, 3)
PLAIN(128x64, 4)
PLAIN(128x128, 5)
WEIGHTED(64x16, 0)
WEIGHTED(64x32, 1)
WEIGHTED(128x16, 2)
WEIGHTED(128x32, 3)
WEIGHTED(128x64, 4)
#undef PLAIN
#undef WEIGHTED

/* tile: of LO_CU_BSR_FEATURES, or LO_CU_BSR_FEATURES_FACTORS. */
typedef struct kernel {
  lo_kernel base;
  int tile;
} kernel;
static const kernel kernels[] = {
    {{"bsr_features_64x16", refuse_64x16}, 0},
    {{"bsr_features_64x32", refuse_64x32}, 1},
    {{"bsr_features_128x16", refuse_128x16}, 2},
    {{"bsr_features_128x32", refuse_128x32}, 3},
    {{"bsr_features_128x64", refuse_128x64}, 4},
    {{"bsr_features_128x128", refuse_128x128}, 5},
    {{"bsr_weighted_64x16", refuse_weighted_64x16}, 0},
    {{"bsr_weighted_64x32", refuse_weighted_64x32}, 1},
    {{"bsr_weighted_128x16", refuse_weighted_128x16}, 2},
    {{"bsr_weighted_128x32", refuse_weighted_128x32}, 3},
    {{"bsr_weighted_128x64", refuse_weighted_128x64}, 4},
};

static bool types_match(const problem *q) {
  return q->narrow || q->w->type == q->p->x.type;
}

bool lo_cuda_bsr_features_takes(layerops_context *ctx, const lo_cuda_bsr_product *p) {
  const problem q = problem_of(p);
  return types_match(&q) && lo_type_bytes(p->x.type) == 2 && LO_SELECT(ctx, kernels, &q);
}

layerops_status lo_cuda_bsr_features_run(layerops_context *ctx, const lo_cuda_bsr_product *p) {
  const problem q = problem_of(p);
  const layerops_bsr *w = p->w;
  const kernel *k = LO_SELECT(ctx, kernels, &q);
  const tile *t = tile_of(&q, k->tile);
  lo_cu_bsr_features g = {.p = {.x = lo_address(&p->x),
                                .w = w->values->native,
                                .x_stride = p->x.stride,
                                .m = q.m,
                                .n = q.n,
                                .k = q.k,
                                .tiles_m = lo_ceil_div(q.m, t->bm),
                                .k_log2 = __builtin_ctz((unsigned)q.k_side),
                                .n_log2 = __builtin_ctz((unsigned)q.n_side),
                                .parts_log2 = __builtin_ctz((unsigned)parts_of(&q, t)),
                                .start = (p->turned ? w->col_start : w->row_start)->native,
                                .index = (p->turned ? w->row : w->column)->native,
                                .place = w->place->native,
                                .pitch_log2 = __builtin_ctz((unsigned)w->width)},
                          .gate = lo_present(&p->gate) ? lo_address(&p->gate) : NULL,
                          .scale = w->scales ? w->scales->native : NULL,
                          .loose = !lo_cuda_bsr_whole(&p->x),
                          .narrow = q.narrow};
  lo_cuda_set_epilogue(&g.p.e, &p->epilogue, &p->y, q.k);
  const lo_cu_grid grid = {.x = tiles_of(&q, t), .y = 1, .z = 1};
  const lo_cu_bsr_features_kind kind = {p->turned, p->features, q.factors};
  int (*run)(int, lo_cu_bsr_features_kind, const lo_cu_bsr_features *, lo_cu_grid, void *) =
      p->x.type == LAYEROPS_BF16 ? lo_cu_run_bsr_features_bf16 : lo_cu_run_bsr_features_f16;
  return lo_cuda_check(ctx, run(k->tile, kind, &g, grid, lo_cuda(ctx)->stream), p->what);
}

/* ---- One sample lies alike in both layouts, where its features are neighbours */
static bool is_column(const layerops_matrix *m) {
  return !lo_present(m) || (m->cols == 1 && m->stride == 1);
}
static void make_row(layerops_matrix *m) {
  if (!lo_present(m)) return;
  m->cols = m->stride = m->rows;
  m->rows = 1;
}
static bool make_rows(layerops_matrix *const *views, int count) {
  for (int i = 0; i < count; i++)
    if (!is_column(views[i])) return false;
  for (int i = 0; i < count; i++) make_row(views[i]);
  return true;
}
void lo_cuda_bsr_one_sample(lo_cuda_bsr_product *p) {
  lo_epilogue *e = &p->epilogue;
  layerops_matrix *const views[] = {&p->x, &p->y, &e->preact, &e->residual, &e->saved};
  if (p->features && make_rows(views, 5)) p->features = false;
}

/* ---- The gradients of weights and gates */
static const struct {
  int side, slots, shared; /* slots: kept blocks of a block of threads */
} squares[] = {
#define X(SIDE, SPAN, WARPS) {SIDE, (SPAN) / (SIDE), LO_CU_BSR_FEATURES_WGRAD_STAGES(SPAN)},
    LO_CU_BSR_FEATURES_SIDES(X)
#undef X
};
static int square_of(const layerops_bsr *w) {
  const int64_t longer = w->height > w->width ? w->height : w->width;
  int number = 0;
  while (squares[number].side < longer) number++;
  return number;
}

bool lo_cuda_bsr_features_wgrad_takes(layerops_context *ctx, const lo_cuda_bsr_gradient *g) {
  return !lo_cuda_shut_out(ctx, "bsr_features_wgrad") && !refuse_type(ctx, g->x.type) &&
         (!lo_present(&g->dgate) || g->w->type == g->x.type) &&
         squares[square_of(g->w)].shared + BESIDE <= lo_cuda(ctx)->device->shared;
}

layerops_status lo_cuda_bsr_features_wgrad(layerops_context *ctx, const lo_cuda_bsr_gradient *g) {
  const layerops_bsr *w = g->w;
  const int number = square_of(w);
  if (!w->count) return LAYEROPS_OK;
  lo_cu_bsr_features_wgrad p = {.z = lo_address(&g->dz),
                                .x = lo_address(&g->x),
                                .w = w->values->native,
                                .z_stride = g->dz.stride,
                                .x_stride = g->x.stride,
                                .m = g->features ? g->x.cols : g->x.rows,
                                .n = w->rows,
                                .k = w->cols,
                                .row = w->row->native,
                                .place = w->place->native,
                                .column = w->column->native,
                                .gate = lo_present(&g->gate) ? lo_address(&g->gate) : NULL,
                                .dgate = lo_present(&g->dgate) ? lo_address(&g->dgate) : NULL,
                                .count = (int)w->count,
                                .height = (int)w->height,
                                .width = (int)w->width,
                                .loose = !lo_cuda_bsr_whole(&g->dz) || !lo_cuda_bsr_whole(&g->x)};
  const lo_epilogue e = {.alpha = layerops_value(1), .beta = g->beta};
  lo_cuda_set_epilogue(&p.e, &e, &g->dw, 1);
  p.beta = p.e.beta;
  const lo_cu_grid grid = {.x = lo_ceil_div(w->count, squares[number].slots), .y = 1, .z = 1};
  ctx->kernel = "bsr_features_wgrad";
  return lo_cuda_check(ctx,
                       lo_cu_run_bsr_features_wgrad(number, g->x.type == LAYEROPS_BF16, g->features,
                                                    &p, grid, lo_cuda(ctx)->stream),
                       g->what);
}
