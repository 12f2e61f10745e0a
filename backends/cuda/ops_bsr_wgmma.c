/* Products whose blocks have sides of multiples of 64, by boxes and wgmma on Hopper. */
#include <config.h>

#include "backends/cuda/boxes.h"
#include "backends/cuda/bsr_plan.h"
#include "backends/cuda/ops_bsr.h"
#include "backends/cuda/plan.h"

static const struct {
  int rows, out, teams;
} line_tiles[] = {
#define X(NAME, TEAMS, SHARE, ROWS, STAGES) {ROWS, 64 * (SHARE), TEAMS},
    LO_CU_BSR_LINE_TILES(X)
#undef X
};
static const int run_rows[] = {
#define X(NAME, GM, GN, TALL, BN, STAGES) 64 * (GM),
    LO_CU_BSR_RUN_TILES(X)
#undef X
};

/* Coordinates of boxes have 32 bits, and a tile may stand out. */
enum { HOPPER = 90, SIDE = 64, MOST = INT32_MAX - 1024 };
#define LONGEST_STRIDE ((int64_t)1 << 38)

/* What all products ask of the device, the weights and an operand. */
static const char *refuse(layerops_context *ctx, const layerops_bsr *w, const layerops_matrix *x) {
  const lo_cuda_bsr *state = w->state;
  if (lo_cuda(ctx)->architecture != HOPPER) return "boxes and wgmma are Hopper's";
  if (!state || state->run_tile < 0) return "64 does not divide the sides of blocks";
  if (!w->count) return "no block is kept";
  if (w->rows > MOST || w->cols > MOST || w->count * w->height > MOST || x->rows > MOST)
    return "coordinates of boxes have 32 bits";
  if (!lo_cuda_aligned(x, 8)) return "rows begin elsewhere than on borders of 16 bytes";
  if (x->rows > 1 && x->stride > LONGEST_STRIDE) return "rows lie too far apart for boxes";
  return NULL;
}

/* Tiles are counted in 31 bits; where there is a choice they keep the device busy. */
static const char *refuse_tiles(layerops_context *ctx, int64_t tiles, int teams) {
  if (tiles > LO_CUDA_LARGEST_GRID) return "so many tiles";
  if (!*lo_cuda(ctx)->forced && tiles < (int64_t)teams * lo_cuda(ctx)->device->sms)
    return "so few tiles leave SMs idle";
  return NULL;
}

static const char *refuse_rows(layerops_context *ctx, int64_t m, int rows) {
  const int64_t all = lo_ceil_div(m, rows) * rows;
  return !*lo_cuda(ctx)->forced && all - m > all / 4 ? "rows fill tiles badly" : NULL;
}

static lo_box_type box_of(const layerops_bsr *w) {
  return w->type == LAYEROPS_BF16 ? LO_BOX_BF16 : LO_BOX_F16;
}

static lo_cu_bsr_wgmma params_of(layerops_context *ctx, const layerops_bsr *w, int product) {
  const lo_cuda_bsr *state = w->state;
  const char *memory = state->buffer->native;
  return (lo_cu_bsr_wgmma){.boxed.g = {.batch = 1,
                                       .split = 1,
                                       .bf16 = w->type == LAYEROPS_BF16,
                                       .sms = lo_cuda(ctx)->device->sms},
                           .spans = (const int *)(memory + state->spans[product].at),
                           .lines = (unsigned)state->spans[product].count,
                           .taken = (unsigned *)lo_cuda(ctx)->counters,
                           .height = (int)w->height};
}

static const lo_cu_grid grid = {.y = 1, .z = 1};

static layerops_status no_box(layerops_context *ctx, int error, const char *what) {
  return error ? lo_fail(LAYEROPS_ERROR_DEVICE, "%s: the driver of %s refuses a box (error %d)",
                         what, ctx->device->name, error)
               : LAYEROPS_OK;
}

/* ---- Forward and dgrad */

static int64_t line_count(const lo_cuda_bsr_product *p, int tile) {
  const layerops_bsr *w = p->w;
  const int64_t lines = p->turned ? w->block_cols : w->block_rows;
  const int64_t side = p->turned ? w->width : w->height;
  return lo_ceil_div(p->x.rows, line_tiles[tile].rows) * lines * (side / line_tiles[tile].out);
}

const char *lo_cuda_bsr_wgmma_refuses(layerops_context *ctx, int tile,
                                      const lo_cuda_bsr_product *p) {
  const char *reason = refuse(ctx, p->w, &p->x);
  if (reason) return reason;
  if ((p->turned ? p->w->width : p->w->height) < line_tiles[tile].out) return "blocks are smaller";
  reason = refuse_rows(ctx, p->x.rows, line_tiles[tile].rows);
  return reason ? reason : refuse_tiles(ctx, line_count(p, tile), line_tiles[tile].teams);
}

/* So many tiles below each other go through all lines together that their rows of X stay in the
 * second-level cache, and that W, where it is large too, is read anew but a few times. Fitted to
 * times on an H200 (2026-12). */
static int64_t high_of(const lo_cuda_bsr_product *p, int64_t tiles_m, int rows) {
  const layerops_bsr *w = p->w;
  const int64_t values = 2 * w->count * w->height * w->width;
  const int64_t group = values > 12 << 20 ? 24 << 20 : 3 << 20, each = 2 * p->x.cols * rows;
  const int64_t high = group / each < 1 ? 1 : group / each;
  return high < tiles_m ? high : tiles_m;
}

/* All but the tiles of a block. */
static lo_cu_bsr_wgmma line_params(layerops_context *ctx, const lo_cuda_bsr_product *p, int rows) {
  const layerops_bsr *w = p->w;
  lo_cu_bsr_wgmma b = params_of(ctx, w, p->turned ? LO_CU_BSR_DGRAD : LO_CU_BSR_FORWARD);
  lo_cu_gemm *g = &b.boxed.g;
  g->m = p->x.rows;
  g->n = p->turned ? w->cols : w->rows;
  g->k = p->x.cols;
  lo_cuda_set_epilogue(&g->e, &p->epilogue, &p->y, g->k);
  b.tiles_m = (unsigned)lo_ceil_div(g->m, rows);
  b.high = (unsigned)high_of(p, b.tiles_m, rows);
  return b;
}

/* The maps of the values, in boxes of so many lines, and of X, in boxes of so many rows. */
static int map(const lo_cuda_bsr_product *p, lo_cu_bsr_wgmma *b, int lines, int rows) {
  const layerops_bsr *w = p->w;
  const lo_cu_gemm *g = &b->boxed.g;
  int error = lo_cuda_narrow_box(w->values->native, box_of(w), w->count * w->height, w->width,
                                 w->width, SIDE, lines, &b->boxed.a);
  if (error) return error;
  return lo_cuda_narrow_box(lo_address(&p->x), box_of(w), g->m, g->k, p->x.stride, SIDE, rows,
                            &b->boxed.b);
}

layerops_status lo_cuda_bsr_wgmma_run(layerops_context *ctx, int tile,
                                      const lo_cuda_bsr_product *p) {
  const layerops_bsr *w = p->w;
  const int rows = line_tiles[tile].rows, out = line_tiles[tile].out;
  lo_cu_bsr_wgmma b = line_params(ctx, p, rows);
  b.other = (p->turned ? w->row : w->column)->native;
  b.place = p->turned ? w->place->native : NULL;
  b.depth = (int)(p->turned ? w->height : w->width);
  b.width = (int)(p->turned ? w->width : w->height);
  b.parts = b.width / out;
  b.tiles = (unsigned)line_count(p, tile);
  LO_TRY(no_box(ctx, map(p, &b, p->turned ? SIDE : out, rows), p->what));
  return lo_cuda_check(ctx,
                       lo_cu_run_bsr_wgmma(p->turned ? LO_CU_BSR_DGRAD : LO_CU_BSR_FORWARD, tile,
                                           &b, grid, lo_cuda(ctx)->stream),
                       p->what);
}

/* ---- wgrad */

static int64_t run_count(const layerops_bsr *w) {
  const lo_cuda_bsr *state = w->state;
  return state->spans[LO_CU_BSR_WGRAD].count * (w->height / run_rows[state->run_tile]);
}

const char *lo_cuda_bsr_wgrad_wgmma_refuses(layerops_context *ctx, const lo_cuda_bsr_gradient *g) {
  const char *reason = refuse(ctx, g->w, &g->x);
  if (!reason) reason = refuse(ctx, g->w, &g->dz);
  if (reason) return reason;
  if (!g->x.rows) return "there are no samples";
  return refuse_tiles(ctx, run_count(g->w), 1);
}

layerops_status lo_cuda_bsr_wgrad_wgmma_run(layerops_context *ctx, const lo_cuda_bsr_gradient *g) {
  const layerops_bsr *w = g->w;
  const lo_cuda_bsr *state = w->state;
  const lo_epilogue e = {.alpha = layerops_value(1), .beta = g->beta};
  const int64_t m = g->x.rows;
  lo_cu_bsr_wgmma b = params_of(ctx, w, LO_CU_BSR_WGRAD);
  b.boxed.g.m = w->count * w->height;
  b.boxed.g.n = w->width;
  b.boxed.g.k = m;
  lo_cuda_set_epilogue(&b.boxed.g.e, &e, &g->dw, m);
  b.other = w->column->native;
  b.depth = (int)m;
  b.width = (int)w->width;
  b.rows = (int)w->rows;
  b.cols = (int)w->cols;
  b.ragged = w->rows % w->height || w->cols % w->width;
  b.parts = (int)w->height / run_rows[state->run_tile];
  b.tiles = (unsigned)run_count(w);
  b.tiles_m = b.high = 1;
  int error = lo_cuda_narrow_box(lo_address(&g->dz), box_of(w), m, w->rows, g->dz.stride, SIDE,
                                 SIDE, &b.boxed.a);
  if (!error)
    error = lo_cuda_narrow_box(lo_address(&g->x), box_of(w), m, w->cols, g->x.stride, SIDE, SIDE,
                               &b.boxed.b);
  LO_TRY(no_box(ctx, error, g->what));
  return lo_cuda_check(
      ctx, lo_cu_run_bsr_wgmma(LO_CU_BSR_WGRAD, state->run_tile, &b, grid, lo_cuda(ctx)->stream),
      g->what);
}
