/* Products with block-sparse weights of 16-bit activations by features, or with factors of blocks:
 * on tensor cores, through a ring of stages. */
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
                   .m = p->by_features ? p->x.cols : p->x.rows,
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
  {BM, BN, LO_CU_BSR_RING_STAGES(BM, BN, STAGES)},
static const tile plain[] = {LO_CU_BSR_RING(X)}, weighted[] = {LO_CU_BSR_RING_FACTORS(X)};
#undef X
enum { BESIDE = 8 * 1024 }; /* what a block of threads needs beside them, at most */

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

/* Features of a tile: as many as blocks have, if there are tiles enough. Fitted to times on an H200
 * (2026-12). */
static int64_t wanted_bn(layerops_context *ctx, const problem *q) {
  const int64_t sms = lo_cuda(ctx)->device->sms;
  (void)sms;
  return q->n_side < 16 ? 16 : q->n_side > 64 ? 64 : q->n_side;
}
static int64_t wanted_bm(layerops_context *ctx, const problem *q) {
  (void)ctx, (void)q;
  return 128;
}
static const char *refuse(layerops_context *ctx, const problem *q, const char *name, int number,
                          bool factors) {
  const char *reason = lo_cuda_shut_out(ctx, name);
  if (!reason) reason = refuse_type(ctx, q->p->x.type);
  if (reason) return reason;
  if (factors != q->factors) return factors ? "blocks have no factors" : "blocks have factors";
  if (!factors && !q->p->by_features) return "activations are samples by row";
  const tile *t = tile_of(q, number);
  if (lo_cuda(ctx)->device->shared < t->shared + BESIDE)
    return "a block has too little shared memory";
  if (t->bn > 16 && t->bn > q->n_side) return "blocks are of another size";
  if (tiles_of(q, t) > LO_CUDA_LARGEST_GRID) return "so many rows";
  if (!*lo_cuda(ctx)->forced && (t->bn != wanted_bn(ctx, q) || t->bm != wanted_bm(ctx, q)))
    return "a tile of another size suits the product";
  return NULL;
}
#define PLAIN(NAME, NUMBER)                                                                        \
  static const char *refuse_##NAME(layerops_context *ctx, const void *q) {                         \
    return refuse(ctx, q, "bsr_ring_" #NAME, NUMBER, false);                                       \
  }
#define WEIGHTED(NAME, NUMBER)                                                                     \
  static const char *refuse_weighted_##NAME(layerops_context *ctx, const void *q) {                \
    return refuse(ctx, q, "bsr_ring_weighted_" #NAME, NUMBER, true);                               \
  }
PLAIN(64x32, 0)
PLAIN(128x16, 1)
PLAIN(128x32, 2)
PLAIN(128x64, 3)
PLAIN(128x128, 4)
WEIGHTED(128x16, 0)
WEIGHTED(128x32, 1)
WEIGHTED(128x64, 2)
#undef PLAIN
#undef WEIGHTED

/* tile: of LO_CU_BSR_RING, or LO_CU_BSR_RING_FACTORS. */
typedef struct kernel {
  lo_kernel base;
  int tile;
} kernel;
static const kernel kernels[] = {
    {{"bsr_ring_64x32", refuse_64x32}, 0},
    {{"bsr_ring_128x16", refuse_128x16}, 1},
    {{"bsr_ring_128x32", refuse_128x32}, 2},
    {{"bsr_ring_128x64", refuse_128x64}, 3},
    {{"bsr_ring_128x128", refuse_128x128}, 4},
    {{"bsr_ring_weighted_128x16", refuse_weighted_128x16}, 0},
    {{"bsr_ring_weighted_128x32", refuse_weighted_128x32}, 1},
    {{"bsr_ring_weighted_128x64", refuse_weighted_128x64}, 2},
};

static bool types_match(const problem *q) {
  return q->narrow || q->w->type == q->p->x.type;
}

bool lo_cuda_bsr_ring_takes(layerops_context *ctx, const lo_cuda_bsr_product *p) {
  const problem q = problem_of(p);
  return types_match(&q) && lo_type_bytes(p->x.type) == 2 && LO_SELECT(ctx, kernels, &q);
}

layerops_status lo_cuda_bsr_ring_run(layerops_context *ctx, const lo_cuda_bsr_product *p) {
  const problem q = problem_of(p);
  const layerops_bsr *w = p->w;
  const kernel *k = LO_SELECT(ctx, kernels, &q);
  const tile *t = tile_of(&q, k->tile);
  lo_cu_bsr_ring g = {
      .p = {.x = lo_address(&p->x),
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
      .loose = !lo_cuda_aligned(&p->x, 8),
      .narrow = q.narrow};
  lo_cuda_set_epilogue(&g.p.e, &p->epilogue, &p->y, q.k);
  const lo_cu_grid grid = {.x = tiles_of(&q, t), .y = 1, .z = 1};
  const lo_cu_bsr_ring_kind kind = {p->turned, p->by_features, q.factors};
  int (*run)(int, lo_cu_bsr_ring_kind, const lo_cu_bsr_ring *, lo_cu_grid, void *) =
      p->x.type == LAYEROPS_BF16 ? lo_cu_run_bsr_ring_bf16 : lo_cu_run_bsr_ring_f16;
  return lo_cuda_check(ctx, run(k->tile, kind, &g, grid, lo_cuda(ctx)->stream), p->what);
}

/* ---- The gradients of weights and gates */
enum { SPAN = 64 };
#define X(SIDE) SIDE,
static const int sides[] = {LO_CU_BSR_RING_SIDES(X)};
#undef X

bool lo_cuda_bsr_ring_wgrad_takes(layerops_context *ctx, const lo_cuda_bsr_gradient *g) {
  return !lo_cuda_shut_out(ctx, "bsr_ring_wgrad") && !refuse_type(ctx, g->x.type) &&
         (!lo_present(&g->dgate) || g->w->type == g->x.type);
}

layerops_status lo_cuda_bsr_ring_wgrad(layerops_context *ctx, const lo_cuda_bsr_gradient *g) {
  const layerops_bsr *w = g->w;
  const int64_t longer = w->height > w->width ? w->height : w->width;
  const int64_t parts = lo_ceil_div(w->height, SPAN) * lo_ceil_div(w->width, SPAN);
  int side = 0;
  if (!w->count) return LAYEROPS_OK;
  while (sides[side] < SPAN && sides[side] < longer) side++;
  lo_cu_bsr_ring_wgrad p = {.z = lo_address(&g->dz),
                            .x = lo_address(&g->x),
                            .w = w->values->native,
                            .z_stride = g->dz.stride,
                            .x_stride = g->x.stride,
                            .m = g->by_features ? g->x.cols : g->x.rows,
                            .n = w->rows,
                            .k = w->cols,
                            .row_start = w->row_start->native,
                            .column = w->column->native,
                            .gate = lo_present(&g->gate) ? lo_address(&g->gate) : NULL,
                            .dgate = lo_present(&g->dgate) ? lo_address(&g->dgate) : NULL,
                            .count = (int)w->count,
                            .block_rows = (int)w->block_rows,
                            .height = (int)w->height,
                            .width = (int)w->width,
                            .loose = !lo_cuda_aligned(&g->dz, 8) || !lo_cuda_aligned(&g->x, 8)};
  const lo_epilogue e = {.alpha = layerops_value(1), .beta = g->beta};
  lo_cuda_set_epilogue(&p.e, &e, &g->dw, 1);
  p.beta = p.e.beta;
  /* all parts of a block at once where they are of one gate's gradient */
  const int64_t squares = lo_ceil_div(w->count, SPAN / sides[side]);
  const lo_cu_grid grid = {.x = squares * (p.dgate ? 1 : parts), .y = 1, .z = 1};
  ctx->kernel = "bsr_ring_wgrad";
  return lo_cuda_check(ctx,
                       lo_cu_run_bsr_ring_wgrad(side, g->x.type == LAYEROPS_BF16, g->by_features,
                                                &p, grid, lo_cuda(ctx)->stream),
                       g->what);
}
