/* Products with block-sparse weights of 16-bit types, on tensor cores. */
#include <config.h>

#include "backends/cuda/bsr_launch.h"
#include "backends/cuda/ops_bsr.h"

#include "backends/cuda/boxes.h"
#include "backends/cuda/bsr_plan.h"
#include "backends/cuda/plan.h"
#include "common/bsr.h"

typedef struct problem {
  const lo_cuda_bsr_product *p;
  const layerops_bsr *w;
  const lo_cuda_bsr *state;        /* NULL: so large that kernels' numbers have no room for them */
  int64_t m, n, k, lines, longest; /* lines: of blocks */
  int k_side, n_side;
  bool aligned, whole; /* rows of X begin, or begin and end, on borders of 16 bytes */
} problem;

static problem problem_of(const lo_cuda_bsr_product *p) {
  const layerops_bsr *w = p->w;
  return (problem){.p = p,
                   .w = w,
                   .state = w->state,
                   .m = p->x.rows,
                   .n = p->turned ? w->cols : w->rows,
                   .k = p->turned ? w->rows : w->cols,
                   .lines = p->turned ? w->block_cols : w->block_rows,
                   .longest = p->turned ? w->longest_col : w->longest_row,
                   .k_side = (int)(p->turned ? w->height : w->width),
                   .n_side = (int)(p->turned ? w->width : w->height),
                   .aligned = lo_cuda_aligned(&p->x, 8),
                   .whole = lo_cuda_bsr_whole(&p->x)};
}

static const struct {
  int unit, slab, rows, group, chunk_slab;
} shapes[] = {
#define X(UNIT, SLAB, ROWS, GROUP, SLABS, UNITS, CHUNK_SLAB, CHUNK_SLABS, CHUNK_UNITS, RESIDENT)   \
  {UNIT, SLAB, ROWS, GROUP, CHUNK_SLAB},
    LO_CU_BSR_SHAPES(X)
#undef X
};
/* Tiles of kernels whose warps share out the kept blocks of a line. */
typedef struct line_tile {
  int bm, bn, warps; /* warps: that share the blocks */
  int shared;        /* bytes, of rings */
} line_tile;
static const line_tile direct_tiles[] = {
#define X(NAME, MT, NT, WARPS_M, WARPS_K, DEPTH, RESIDENT)                                         \
  {16 * (MT) * (WARPS_M), 8 * (NT), WARPS_K, 0},
    LO_CU_BSR_DIRECT(X)
#undef X
};
static const line_tile ring_tiles[] = {
#define X(NAME, NT, WARPS_M, WARPS_K, STAGES, RESIDENT)                                            \
  {32 * (WARPS_M), 8 * (NT), WARPS_K, (WARPS_M) * (WARPS_K) * (STAGES) * (2048 + 512 * (NT))},
    LO_CU_BSR_RINGS(X)
#undef X
};

enum { HOPPER = 90, AMPERE = 80, CHUNK_ROWS = 32, GROUP_SHARED = 160 * 1024, FEW_SAMPLES = 512 };
#define LONGEST_STRIDE ((int64_t)1 << 38)
enum {
  LONGEST_SLAB = 8 * (LO_CU_BSR_SLAB_BYTES / (16 * LO_CU_BSR_SLAB_ROWS) - 1), /* lines are odd */
  SLAB_SHARED = 120 * 1024
};
#define X(NAME, ...) DIRECT_##NAME,
enum { LO_CU_BSR_DIRECT(X) DIRECT_TILES };
#undef X
#define X(NAME, ...) RINGS_##NAME,
enum { LO_CU_BSR_RINGS(X) RING_TILES };
#undef X

static bool has_steps(const layerops_bsr *w) {
  const lo_cuda_bsr *state = w->state;
  return state && state->shape >= 0 && w->count;
}
static int64_t group_tiles(const problem *q) {
  return lo_ceil_div(q->m, shapes[q->state->shape].rows) * q->state->by[q->p->turned].groups;
}

/* Kernels that go by steps. */
static const char *refuse_steps(layerops_context *ctx, const problem *q, const char *name) {
  const char *reason = lo_cuda_shut_out(ctx, name);
  if (reason) return reason;
  if (!has_steps(q->w)) return "no units of 16 or 32 make up the blocks";
  if (!q->aligned) return "rows of X begin elsewhere than on borders of 16 bytes";
  if (q->m > INT32_MAX || group_tiles(q) > LO_CUDA_LARGEST_GRID) return "so many rows";
  if (!*lo_cuda(ctx)->forced && group_tiles(q) < lo_cuda(ctx)->device->sms)
    return "so few tiles leave SMs idle";
  return NULL;
}
static const char *refuse_boxes(layerops_context *ctx, const void *problem_) {
  const problem *q = problem_;
  if (lo_cuda(ctx)->architecture != HOPPER) return "boxes and wgmma are Hopper's";
  if (q->p->x.stride > LONGEST_STRIDE) return "rows of X lie too far apart for boxes";
  return refuse_steps(ctx, q, "bsr_boxes");
}
static const char ends_elsewhere[] = "rows of X begin or end elsewhere than on borders of 16 bytes";

static const char *refuse_group(layerops_context *ctx, const void *problem_) {
  if (lo_cuda(ctx)->architecture < AMPERE) return "the architecture lacks its instructions";
  if (!((const problem *)problem_)->whole) return ends_elsewhere;
  if (lo_cuda(ctx)->device->shared < GROUP_SHARED) return "a block has too little shared memory";
  return refuse_steps(ctx, problem_, "bsr_group");
}

/* Those of large blocks. */
static const char *refuse_wgmma(layerops_context *ctx, const problem *q, const char *name,
                                int tile) {
  const char *reason = lo_cuda_shut_out(ctx, name);
  return reason ? reason : lo_cuda_bsr_wgmma_refuses(ctx, tile, q->p);
}
#define REFUSE(NAME, TILE)                                                                         \
  static const char *refuse_wgmma_##NAME(layerops_context *ctx, const void *q) {                   \
    return refuse_wgmma(ctx, q, "bsr_wgmma_" #NAME, TILE);                                         \
  }
REFUSE(256x128, 0)
REFUSE(256x64, 1)
REFUSE(128x64, 2)
#undef REFUSE
/* What of k the lines keep, on average, and the one that keeps most. */
static int64_t kept(const problem *q) {
  return q->w->count * q->k_side / q->lines;
}
/* One line is so much longer than most that all would wait for it. */
static bool is_skewed(const problem *q) {
  const int64_t longest = q->longest * q->k_side;
  return longest > 512 && longest > 4 * kept(q);
}
static int64_t tiles_of(const problem *q, int bm, int bn) {
  return lo_ceil_div(q->m, bm) * q->lines * (q->n_side / bn);
}

/* Direct kernels: how many warps share the kept blocks of a line. Eight, where so few tiles leave
 * SMs idle, or for the sake of one line; two, where warps would have next to nothing to do, or
 * tiles are many. Fitted to times on an H200 (2026-12), as what follows is. */
static int warps_wanted(layerops_context *ctx, const problem *q) {
  const int64_t sms = lo_cuda(ctx)->device->sms, tiles = tiles_of(q, 32, 32);
  if (tiles <= sms || is_skewed(q)) return 8;
  return tiles > 6 * sms || kept(q) <= 80 ? 2 : 4;
}
/* Rings: 32 rows, where about all tiles are there at once; else 64, where there are such. */
static bool rings_suit(layerops_context *ctx, const problem *q, const line_tile *t) {
  const int64_t sms = lo_cuda(ctx)->device->sms;
  if (q->m <= 16 || kept(q) > 512 || is_skewed(q)) return false;
  return (tiles_of(q, 32, t->bn) <= 5 * sms) == (t->bm == 32);
}
/* Whether the tile is as wide as blocks are, or as a part of them. */
static const char *refuse_tile(layerops_context *ctx, const problem *q, const line_tile *t,
                               const char *name) {
  const char *reason = lo_cuda_shut_out(ctx, name);
  if (reason) return reason;
  if (!q->state) return "there are so many weights";
  if (q->n_side < t->bn || (t->bn < 32 && q->n_side > t->bn)) return "blocks are of another size";
  return NULL;
}
static const char *refuse_direct(layerops_context *ctx, const problem *q, const char *name,
                                 int tile) {
  if (q->w->type == LAYEROPS_BF16 && lo_cuda(ctx)->architecture < AMPERE)
    return "bf16 needs Ampere's tensor cores";
  const line_tile *t = &direct_tiles[tile];
  const char *reason = refuse_tile(ctx, q, t, name);
  if (!reason && t->bn == 32 && !*lo_cuda(ctx)->forced && t->warps != warps_wanted(ctx, q))
    return "another number of warps suits the lines";
  return reason;
}
static const char *refuse_rings(layerops_context *ctx, const problem *q, const char *name,
                                int tile) {
  if (lo_cuda(ctx)->architecture < AMPERE) return "the architecture lacks its instructions";
  if (!q->whole) return ends_elsewhere;
  if (ring_tiles[tile].shared > lo_cuda(ctx)->device->shared)
    return "a block has too little shared memory";
  const line_tile *t = &ring_tiles[tile];
  const char *reason = refuse_tile(ctx, q, t, name);
  if (!reason && !*lo_cuda(ctx)->forced && !rings_suit(ctx, q, t))
    return "the lines are not as long, or tiles not as many, as suits it";
  return reason;
}
static const char *refuse_slab(layerops_context *ctx, const void *problem_) {
  const problem *q = problem_;
  const char *reason = lo_cuda_shut_out(ctx, "bsr_slab");
  if (reason) return reason;
  if (lo_cuda(ctx)->architecture < AMPERE) return "the architecture lacks its instructions";
  if (!q->whole) return ends_elsewhere;
  if (lo_cuda(ctx)->device->shared < SLAB_SHARED) return "a block has too little shared memory";
  if (q->k > LONGEST_SLAB) return "rows of X are longer than shared memory";
  if (!*lo_cuda(ctx)->forced && q->n_side > 8) return "blocks are large";
  return NULL;
}
#define X(NAME, ...)                                                                               \
  static const char *refuse_direct_##NAME(layerops_context *ctx, const void *q) {                  \
    return refuse_direct(ctx, q, "bsr_direct_" #NAME, DIRECT_##NAME);                              \
  }
LO_CU_BSR_DIRECT(X)
#undef X
#define X(NAME, ...)                                                                               \
  static const char *refuse_rings_##NAME(layerops_context *ctx, const void *q) {                   \
    return refuse_rings(ctx, q, "bsr_rings_" #NAME, RINGS_##NAME);                                 \
  }
LO_CU_BSR_RINGS(X)
#undef X

/* tile: of LO_CU_BSR_DIRECT, LO_CU_BSR_RINGS or LO_CU_BSR_LINE_TILES. */
typedef struct kernel {
  lo_kernel base;
  layerops_status (*run)(layerops_context *ctx, const problem *q, const struct kernel *k);
  int tile;
} kernel;

static lo_cu_bsr16 params_of(const problem *q) {
  const layerops_bsr *w = q->w;
  const bool turned = q->p->turned;
  lo_cu_bsr16 p = {
      .x = lo_address(&q->p->x),
      .w = w->values->native,
      .x_stride = q->p->x.stride,
      .m = q->m,
      .n = q->n,
      .k = q->k,
      .k_log2 = __builtin_ctz((unsigned)q->k_side),
      .n_log2 = __builtin_ctz((unsigned)q->n_side),
      .heads = (const int *)((const char *)q->state->buffer->native + q->state->by[turned].heads),
      .start = (turned ? w->col_start : w->row_start)->native,
      .index = (turned ? w->row : w->column)->native,
      .place = w->place->native,
      .pitch_log2 = __builtin_ctz((unsigned)w->width)};
  lo_cuda_set_epilogue(&p.e, &q->p->epilogue, &q->p->y, q->k);
  return p;
}

static bool is_bf16(const problem *q) {
  return q->w->type == LAYEROPS_BF16;
}

/* Tiles of lines of blocks, each in `parts`. */
static layerops_status grid_of(const problem *q, lo_cu_bsr16 *p, int bm, int64_t parts,
                               lo_cu_grid *grid) {
  p->tiles_m = lo_ceil_div(q->m, bm);
  p->parts_log2 = __builtin_ctz((unsigned)parts);
  if (p->tiles_m > LO_CUDA_LARGEST_GRID / (q->lines * parts))
    return lo_fail(LAYEROPS_ERROR_OVERFLOW, "%s: %lld rows are too many for %lld x %lld weights",
                   q->p->what, (long long)q->m, (long long)q->w->rows, (long long)q->w->cols);
  *grid = (lo_cu_grid){.x = p->tiles_m * q->lines * parts, .y = 1, .z = 1};
  return LAYEROPS_OK;
}

static layerops_status run_direct(layerops_context *ctx, const problem *q, const kernel *k) {
  const line_tile *t = &direct_tiles[k->tile];
  lo_cu_bsr16 p = params_of(q);
  lo_cu_grid grid;
  LO_TRY(grid_of(q, &p, t->bm, q->n_side / t->bn, &grid));
  return lo_cuda_check(ctx,
                       lo_cu_run_bsr_direct(k->tile, is_bf16(q), q->p->turned, !q->whole, &p, grid,
                                            lo_cuda(ctx)->stream),
                       q->p->what);
}

static layerops_status run_rings(layerops_context *ctx, const problem *q, const kernel *k) {
  const line_tile *t = &ring_tiles[k->tile];
  lo_cu_bsr16 p = params_of(q);
  lo_cu_grid grid;
  LO_TRY(grid_of(q, &p, t->bm, q->n_side / t->bn, &grid));
  return lo_cuda_check(
      ctx, lo_cu_run_bsr_rings(k->tile, is_bf16(q), q->p->turned, &p, grid, lo_cuda(ctx)->stream),
      q->p->what);
}

/* Strips of 16 columns are of one line, or of two. */
static layerops_status run_slab(layerops_context *ctx, const problem *q, const kernel *k) {
  (void)k;
  const int64_t strips = lo_ceil_div(q->n, 16), parts = q->n_side > 16 ? q->n_side / 16 : 1;
  lo_cu_bsr16 p = params_of(q);
  lo_cu_grid grid;
  LO_TRY(grid_of(q, &p, LO_CU_BSR_SLAB_ROWS, parts, &grid));
  grid.x = p.tiles_m * lo_ceil_div(strips, LO_CU_BSR_STRIPS);
  return lo_cuda_check(ctx,
                       lo_cu_run_bsr_slab(is_bf16(q), q->p->turned, &p, grid, lo_cuda(ctx)->stream),
                       q->p->what);
}

/* The same, for kernels that go by steps. */
static lo_cu_bsr16 params_of_steps(const problem *q, unsigned *taken) {
  lo_cu_bsr16 p = params_of(q);
  const char *memory = q->state->buffer->native;
  const bool turned = q->p->turned;
  p.steps = memory + q->state->by[turned].steps;
  p.first = (const int *)(memory + q->state->by[turned].first);
  p.order = (const int *)(memory + q->state->by[turned].order);
  p.groups = (int)q->state->by[turned].groups;
  p.taken = taken;
  p.tiles_m = lo_ceil_div(q->m, shapes[q->state->shape].rows);
  return p;
}

static layerops_status run_group(layerops_context *ctx, const problem *q, const kernel *k) {
  (void)k;
  lo_cu_bsr16 p = params_of_steps(q, NULL);
  lo_cu_grid grid = {.x = group_tiles(q), .y = 1, .z = 1};
  return lo_cuda_check(ctx,
                       lo_cu_run_bsr_group(q->state->shape, is_bf16(q), q->p->turned, &p, grid,
                                           lo_cuda(ctx)->stream),
                       q->p->what);
}

static layerops_status no_box(layerops_context *ctx, int error, const char *what) {
  return error ? lo_fail(LAYEROPS_ERROR_DEVICE, "%s: the driver of %s refuses a box (error %d)",
                         what, ctx->device->name, error)
               : LAYEROPS_OK;
}

static layerops_status run_boxes(layerops_context *ctx, const problem *q, const kernel *k) {
  (void)k;
  const int shape = q->state->shape, unit = shapes[shape].unit, sms = lo_cuda(ctx)->device->sms;
  const lo_box_type type = is_bf16(q) ? LO_BOX_BF16 : LO_BOX_F16;
  lo_cu_boxed_bsr16 b = {.p = params_of_steps(q, (unsigned *)lo_cuda(ctx)->counters)};
  int error = lo_cuda_narrow_box(b.p.x, type, q->m, q->k, b.p.x_stride, shapes[shape].slab,
                                 shapes[shape].rows, &b.x);
  if (!error)
    error = lo_cuda_narrow_box(b.p.w, type, q->w->count * q->w->height, q->w->width, q->w->width,
                               unit, unit, &b.w);
  LO_TRY(no_box(ctx, error, q->p->what));
  lo_cu_grid grid = {.x = group_tiles(q) < sms ? group_tiles(q) : sms, .y = 1, .z = 1};
  return lo_cuda_check(
      ctx, lo_cu_run_bsr_boxes(shape, is_bf16(q), q->p->turned, &b, grid, lo_cuda(ctx)->stream),
      q->p->what);
}

static layerops_status run_wgmma(layerops_context *ctx, const problem *q, const kernel *k) {
  return lo_cuda_bsr_wgmma_run(ctx, k->tile, q->p);
}

static const kernel kernels[] = {{{"bsr_wgmma_256x128", refuse_wgmma_256x128}, run_wgmma, 0},
                                 {{"bsr_wgmma_256x64", refuse_wgmma_256x64}, run_wgmma, 1},
                                 {{"bsr_boxes", refuse_boxes}, run_boxes, 0},
                                 {{"bsr_group", refuse_group}, run_group, 0},
                                 {{"bsr_slab", refuse_slab}, run_slab, 0},
#define X(NAME, ...) {{"bsr_rings_" #NAME, refuse_rings_##NAME}, run_rings, RINGS_##NAME},
                                 LO_CU_BSR_RINGS(X)
#undef X
                                     {{"bsr_wgmma_128x64", refuse_wgmma_128x64}, run_wgmma, 2},
#define X(NAME, ...) {{"bsr_direct_" #NAME, refuse_direct_##NAME}, run_direct, DIRECT_##NAME},
                                 LO_CU_BSR_DIRECT(X)
#undef X
};

bool lo_cuda_bsr_takes(layerops_context *ctx, const lo_cuda_bsr_product *p) {
  const problem q = problem_of(p);
  const bool same = p->w->type == p->x.type && lo_type_bytes(p->x.type) == 2;
  return same && !p->features && !lo_present(&p->gate) && LO_SELECT(ctx, kernels, &q);
}

layerops_status lo_cuda_bsr_run(layerops_context *ctx, const lo_cuda_bsr_product *p) {
  const problem q = problem_of(p);
  const kernel *k = LO_SELECT(ctx, kernels, &q);
  if (k) return k->run(ctx, &q, k);
  return lo_fail(LAYEROPS_ERROR_UNSUPPORTED,
                 "%s: no kernel takes %s in blocks of %lld x %lld on sm_%d, and "
                 "LAYEROPS_CUDA_KERNEL is \"%s\"",
                 p->what, layerops_type_name(p->w->type), (long long)p->w->height,
                 (long long)p->w->width, lo_cuda(ctx)->architecture, lo_cuda(ctx)->forced);
}

layerops_status lo_cuda_bsr_multiply(layerops_context *ctx, lo_cuda_bsr_product *p) {
  /* whose tiles without slices add up a line in its order, whatever m is */
  if (p->invariant) return lo_cuda_bsr_simt(ctx, p);
  lo_cuda_bsr_one_sample(p);
  if (lo_cuda_bsr_features_takes(ctx, p)) return lo_cuda_bsr_features_run(ctx, p);
  if (lo_cuda_bsr_takes(ctx, p)) return lo_cuda_bsr_run(ctx, p);
  return lo_cuda_bsr_simt(ctx, p);
}

layerops_status lo_cuda_bsr_linear_forward(layerops_context *ctx,
                                           const layerops_bsr_linear_forward_args *a) {
  lo_cuda_bsr_product p = {.w = a->w,
                           .x = a->x,
                           .y = a->y,
                           .gate = a->gate,
                           .features = a->layout == LAYEROPS_FEATURES_BY_ROW,
                           .invariant = a->flags & LAYEROPS_BATCH_INVARIANT,
                           .what = "bsr_linear_forward"};
  lo_epilogue_bsr(a, &p.epilogue);
  return lo_cuda_bsr_multiply(ctx, &p);
}

/* ---- The gradient of the weights */

static const char *refuse_wgrad_wgmma(layerops_context *ctx, const void *g) {
  const char *reason = lo_cuda_shut_out(ctx, "bsr_wgrad_wgmma");
  return reason ? reason : lo_cuda_bsr_wgrad_wgmma_refuses(ctx, g);
}
/* Kernels that go by chunks. */
static const char *refuse_chunks(layerops_context *ctx, const lo_cuda_bsr_gradient *g,
                                 const char *name) {
  const char *reason = lo_cuda_shut_out(ctx, name);
  if (reason) return reason;
  if (!has_steps(g->w)) return "no units of 16 or 32 make up the blocks";
  if (!lo_cuda_aligned(&g->dz, 8) || !lo_cuda_aligned(&g->x, 8))
    return "rows begin elsewhere than on borders of 16 bytes";
  return g->x.rows > INT32_MAX ? "so many rows" : NULL;
}
static const char *refuse_wgrad_boxes(layerops_context *ctx, const void *g_) {
  const lo_cuda_bsr_gradient *g = g_;
  if (lo_cuda(ctx)->architecture != HOPPER) return "boxes are Hopper's";
  if (g->x.stride > LONGEST_STRIDE || g->dz.stride > LONGEST_STRIDE)
    return "rows lie too far apart for boxes";
  if (!g->x.rows) return "there are no samples";
  return refuse_chunks(ctx, g, "bsr_wgrad_boxes");
}
static const char *refuse_wgrad(layerops_context *ctx, const void *g_) {
  const lo_cuda_bsr_gradient *g = g_;
  if (!lo_cuda_bsr_whole(&g->dz) || !lo_cuda_bsr_whole(&g->x)) return ends_elsewhere;
  if (lo_cuda(ctx)->architecture < AMPERE) return "the architecture lacks its instructions";
  if (lo_cuda(ctx)->device->shared < GROUP_SHARED) return "a block has too little shared memory";
  return refuse_chunks(ctx, g, "bsr_wgrad");
}
/* Of LO_CU_BSR_WGRAD_DIRECT, by falling columns of dZ. */
static const struct {
  int columns;
} wgrad_tiles[] = {
#define X(NAME, STRIPS, WARPS, DEPTH) {8 * (STRIPS)},
    LO_CU_BSR_WGRAD_DIRECT(X)
#undef X
};
static int wgrad_tile(const layerops_bsr *w) {
  int tile = 0;
  while (wgrad_tiles[tile].columns > w->height) tile++;
  return tile;
}
static int64_t wgrad_parts(const layerops_bsr *w) {
  return w->height / wgrad_tiles[wgrad_tile(w)].columns;
}
static const char *refuse_wgrad_direct(layerops_context *ctx, const void *g_) {
  const lo_cuda_bsr_gradient *g = g_;
  const lo_cuda_bsr *state = g->w->state;
  const char *reason = lo_cuda_shut_out(ctx, "bsr_wgrad_direct");
  if (reason) return reason;
  if (!state) return "there are so many weights";
  if (g->w->type == LAYEROPS_BF16 && lo_cuda(ctx)->architecture < AMPERE)
    return "bf16 needs Ampere's tensor cores";
  return state->item_count * wgrad_parts(g->w) > LO_CUDA_LARGEST_GRID ? "so many blocks" : NULL;
}
static const char *refuse_wgrad_few(layerops_context *ctx, const void *g_) {
  const lo_cuda_bsr_gradient *g = g_;
  const char *reason = refuse_wgrad_direct(ctx, g_);
  const lo_cuda_bsr *state = g->w->state;
  if (!reason && (g->x.rows > FEW_SAMPLES ||
                  state->item_count * wgrad_parts(g->w) > lo_cuda(ctx)->device->sms))
    return "there are more blocks than SMs, or many samples";
  return reason;
}

static lo_cu_bsr_wgrad wgrad_of(const lo_cuda_bsr_gradient *g) {
  const layerops_bsr *w = g->w;
  const lo_cuda_bsr *state = w->state;
  const char *memory = state->buffer->native;
  lo_cu_bsr_wgrad p = {.z = lo_address(&g->dz),
                       .x = lo_address(&g->x),
                       .chunks = memory + state->chunks,
                       .items = (const int *)(memory + state->items),
                       .z_stride = g->dz.stride,
                       .x_stride = g->x.stride,
                       .m = g->x.rows,
                       .n = w->rows,
                       .k = w->cols,
                       .values = w->count * w->height,
                       .n_log2 = __builtin_ctz((unsigned)w->height),
                       .parts_log2 = __builtin_ctz((unsigned)wgrad_parts(w)),
                       .pitch_log2 = __builtin_ctz((unsigned)w->width)};
  const lo_epilogue e = {.alpha = layerops_value(1), .beta = g->beta};
  lo_cuda_set_epilogue(&p.e, &e, &g->dw, g->x.rows);
  return p;
}
static bool wgrad_is_bf16(const lo_cuda_bsr_gradient *g) {
  return g->w->type == LAYEROPS_BF16;
}
static lo_cu_grid chunks_of(const lo_cuda_bsr_gradient *g) {
  const lo_cuda_bsr *state = g->w->state;
  return (lo_cu_grid){.x = state->chunk_count, .y = 1, .z = 1};
}

static layerops_status run_wgrad_boxes(layerops_context *ctx, const lo_cuda_bsr_gradient *g) {
  const bool bf16 = wgrad_is_bf16(g);
  const lo_box_type type = bf16 ? LO_BOX_BF16 : LO_BOX_F16;
  const int shape = ((const lo_cuda_bsr *)g->w->state)->shape, slab = shapes[shape].chunk_slab;
  lo_cu_boxed_bsr_wgrad b = {.p = wgrad_of(g)};
  const lo_cu_bsr_wgrad *p = &b.p;
  int error = lo_cuda_narrow_box(p->z, type, p->m, p->n, p->z_stride, slab, CHUNK_ROWS, &b.z);
  if (!error)
    error = lo_cuda_narrow_box(p->x, type, p->m, p->k, p->x_stride, slab, CHUNK_ROWS, &b.x);
  LO_TRY(no_box(ctx, error, g->what));
  return lo_cuda_check(
      ctx, lo_cu_run_bsr_wgrad_boxes(shape, bf16, &b, chunks_of(g), lo_cuda(ctx)->stream), g->what);
}

static layerops_status run_wgrad(layerops_context *ctx, const lo_cuda_bsr_gradient *g) {
  const lo_cu_bsr_wgrad p = wgrad_of(g);
  const int shape = ((const lo_cuda_bsr *)g->w->state)->shape;
  return lo_cuda_check(
      ctx, lo_cu_run_bsr_wgrad(shape, wgrad_is_bf16(g), &p, chunks_of(g), lo_cuda(ctx)->stream),
      g->what);
}

static layerops_status run_wgrad_direct(layerops_context *ctx, const lo_cuda_bsr_gradient *g) {
  const layerops_bsr *w = g->w;
  const lo_cuda_bsr *state = w->state;
  const lo_cu_bsr_wgrad p = wgrad_of(g);
  const bool loose = !lo_cuda_bsr_whole(&g->dz) || !lo_cuda_bsr_whole(&g->x);
  lo_cu_grid grid = {.x = state->item_count * wgrad_parts(w), .y = 1, .z = 1};
  return lo_cuda_check(ctx,
                       lo_cu_run_bsr_wgrad_direct(wgrad_tile(w), wgrad_is_bf16(g), loose, &p, grid,
                                                  lo_cuda(ctx)->stream),
                       g->what);
}

typedef struct wgrad_kernel {
  lo_kernel base;
  layerops_status (*run)(layerops_context *ctx, const lo_cuda_bsr_gradient *g);
} wgrad_kernel;

static const wgrad_kernel wgrad_kernels[] = {
    {{"bsr_wgrad_wgmma", refuse_wgrad_wgmma}, lo_cuda_bsr_wgrad_wgmma_run},
    {{"bsr_wgrad_direct", refuse_wgrad_few}, run_wgrad_direct},
    {{"bsr_wgrad_boxes", refuse_wgrad_boxes}, run_wgrad_boxes},
    {{"bsr_wgrad", refuse_wgrad}, run_wgrad},
    {{"bsr_wgrad_direct", refuse_wgrad_direct}, run_wgrad_direct},
};

bool lo_cuda_bsr_wgrad_takes(layerops_context *ctx, const lo_cuda_bsr_gradient *g) {
  return g->w->type == g->x.type && g->x.type == g->dz.type && lo_type_bytes(g->x.type) == 2 &&
         !g->features && !lo_present(&g->gate) && !lo_present(&g->dgate) &&
         LO_SELECT(ctx, wgrad_kernels, g);
}

layerops_status lo_cuda_bsr_wgrad(layerops_context *ctx, const lo_cuda_bsr_gradient *g) {
  if (!g->w->count) return LAYEROPS_OK;
  const wgrad_kernel *k = LO_SELECT(ctx, wgrad_kernels, g);
  return k->run(ctx, g);
}
