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
  const lo_cuda_bsr *state;        /* NULL: units do not divide its blocks */
  int64_t m, n, k, lines, longest; /* lines: of blocks */
  int k_side, n_side;
  bool whole; /* rows of X lie on borders of 16 bytes */
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
                   .whole = lo_cuda_aligned(&p->x, 8)};
}

static const struct {
  int unit, slab, rows, group, chunk_slab;
} shapes[] = {
#define X(UNIT, SLAB, ROWS, GROUP, SLABS, UNITS, CHUNK_SLAB, CHUNK_SLABS, CHUNK_UNITS, RESIDENT)   \
  {UNIT, SLAB, ROWS, GROUP, CHUNK_SLAB},
    LO_CU_BSR_SHAPES(X)
#undef X
};
static const struct {
  int bm, bn, warps;
} tiles[] = {
#define X(NAME, MT, NT, WARPS, DEPTH, RESIDENT) {16 * (MT), 8 * (NT), WARPS},
    LO_CU_BSR_DIRECT(X)
#undef X
};

enum { HOPPER = 90, AMPERE = 80, CHUNK_ROWS = 32, GROUP_SHARED = 160 * 1024 };
#define LONGEST_STRIDE ((int64_t)1 << 38)

static int64_t group_tiles(const problem *q) {
  return lo_ceil_div(q->m, shapes[q->state->shape].rows) * q->state->by[q->p->turned].groups;
}

/* Kernels that go by steps. */
static const char *refuse_steps(layerops_context *ctx, const problem *q, const char *name) {
  const char *reason = lo_cuda_shut_out(ctx, name);
  if (reason) return reason;
  if (!q->state || !q->w->count) return "no units of 16 or 32 make up the blocks";
  if (!q->whole) return "rows of X begin elsewhere than on borders of 16 bytes";
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
static const char *refuse_group(layerops_context *ctx, const void *problem_) {
  if (lo_cuda(ctx)->architecture < AMPERE) return "the architecture lacks its instructions";
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

/* Direct kernels: how many warps share the kept blocks of a line. Eight, where so few tiles leave
 * SMs idle, or one line is so much longer than most that all would wait for it; two, where warps
 * would have next to nothing to do, or tiles are many. Fitted to times on an H200 (2026-12). */
static int warps_wanted(layerops_context *ctx, const problem *q) {
  const int64_t sms = lo_cuda(ctx)->device->sms, parts = q->n_side / 32;
  const int64_t tiles_m = lo_ceil_div(q->m, 32), tiles_n = q->lines * parts;
  const int64_t each = q->w->count / q->lines * q->k_side, longest = q->longest * q->k_side;
  if (tiles_m * tiles_n <= sms || (longest > 512 && longest > 4 * each)) return 8;
  return tiles_m > 6 * sms / tiles_n || each <= 80 ? 2 : 4;
}
static const char *refuse_direct(layerops_context *ctx, const problem *q, const char *name,
                                 int tile) {
  const char *reason = lo_cuda_shut_out(ctx, name);
  const int bn = tiles[tile].bn;
  if (reason) return reason;
  if (q->w->type == LAYEROPS_BF16 && lo_cuda(ctx)->architecture < AMPERE)
    return "bf16 needs Ampere's tensor cores";
  if (q->n_side < bn || (bn < 32 && q->n_side > bn)) return "blocks are of another size";
  if (bn == 32 && !*lo_cuda(ctx)->forced && tiles[tile].warps != warps_wanted(ctx, q))
    return "another number of warps suits the lines";
  return NULL;
}
#define REFUSE(NAME, TILE)                                                                         \
  static const char *refuse_##NAME(layerops_context *ctx, const void *q) {                         \
    return refuse_direct(ctx, q, "bsr_direct_" #NAME, TILE);                                       \
  }
REFUSE(32x32, 0)
REFUSE(32x32_w8, 1)
REFUSE(32x32_w2, 2)
REFUSE(64x16, 3)
REFUSE(32x8, 4)
#undef REFUSE

/* tile: of LO_CU_BSR_DIRECT, or LO_CU_BSR_LINE_TILES. */
typedef struct kernel {
  lo_kernel base;
  layerops_status (*run)(layerops_context *ctx, const problem *q, const struct kernel *k);
  int tile;
} kernel;

static lo_cu_bsr16 params_of(const problem *q) {
  const layerops_bsr *w = q->w;
  const bool turned = q->p->turned;
  lo_cu_bsr16 p = {.x = lo_address(&q->p->x),
                   .w = w->values->native,
                   .x_stride = q->p->x.stride,
                   .m = q->m,
                   .n = q->n,
                   .k = q->k,
                   .k_log2 = __builtin_ctz((unsigned)q->k_side),
                   .n_log2 = __builtin_ctz((unsigned)q->n_side),
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

static layerops_status run_direct(layerops_context *ctx, const problem *q, const kernel *k) {
  lo_cu_bsr16 p = params_of(q);
  const int64_t parts = q->n_side / tiles[k->tile].bn;
  p.tiles_m = lo_ceil_div(q->m, tiles[k->tile].bm);
  p.parts_log2 = __builtin_ctz((unsigned)parts);
  if (p.tiles_m > LO_CUDA_LARGEST_GRID / (q->lines * parts))
    return lo_fail(LAYEROPS_ERROR_OVERFLOW, "%s: %lld rows are too many for %lld x %lld weights",
                   q->p->what, (long long)q->m, (long long)q->w->rows, (long long)q->w->cols);
  lo_cu_grid grid = {.x = p.tiles_m * q->lines * parts, .y = 1, .z = 1};
  return lo_cuda_check(ctx,
                       lo_cu_run_bsr_direct(k->tile, is_bf16(q), q->p->turned,
                                            !q->whole || q->k % 8 != 0, &p, grid,
                                            lo_cuda(ctx)->stream),
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

static const kernel kernels[] = {
    {{"bsr_wgmma_256x128", refuse_wgmma_256x128}, run_wgmma, 0},
    {{"bsr_wgmma_256x64", refuse_wgmma_256x64}, run_wgmma, 1},
    {{"bsr_wgmma_128x64", refuse_wgmma_128x64}, run_wgmma, 2},
    {{"bsr_boxes", refuse_boxes}, run_boxes, 0},
    {{"bsr_group", refuse_group}, run_group, 0},
    {{"bsr_direct_32x32", refuse_32x32}, run_direct, 0},
    {{"bsr_direct_32x32_w8", refuse_32x32_w8}, run_direct, 1},
    {{"bsr_direct_32x32_w2", refuse_32x32_w2}, run_direct, 2},
    {{"bsr_direct_64x16", refuse_64x16}, run_direct, 3},
    {{"bsr_direct_32x8", refuse_32x8}, run_direct, 4},
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

layerops_status lo_cuda_bsr_linear_forward(layerops_context *ctx,
                                           const layerops_bsr_linear_forward_args *a) {
  lo_cuda_bsr_product p = {.w = a->w,
                           .x = a->x,
                           .y = a->y,
                           .gate = a->gate,
                           .features = a->layout == LAYEROPS_FEATURES_BY_ROW,
                           .what = "bsr_linear_forward"};
  lo_epilogue_bsr(a, &p.epilogue);
  return lo_cuda_bsr_takes(ctx, &p) ? lo_cuda_bsr_run(ctx, &p) : lo_cuda_bsr_simt(ctx, &p);
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
  if (!g->w->state) return "no units of 16 or 32 make up the blocks";
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
static const char *refuse_wgrad(layerops_context *ctx, const void *g) {
  if (lo_cuda(ctx)->architecture < AMPERE) return "the architecture lacks its instructions";
  if (lo_cuda(ctx)->device->shared < GROUP_SHARED) return "a block has too little shared memory";
  return refuse_chunks(ctx, g, "bsr_wgrad");
}

static lo_cu_bsr_wgrad wgrad_of(const lo_cuda_bsr_gradient *g) {
  const layerops_bsr *w = g->w;
  const lo_cuda_bsr *state = w->state;
  lo_cu_bsr_wgrad p = {.z = lo_address(&g->dz),
                       .x = lo_address(&g->x),
                       .chunks = (const char *)state->buffer->native + state->chunks,
                       .z_stride = g->dz.stride,
                       .x_stride = g->x.stride,
                       .m = g->x.rows,
                       .n = w->rows,
                       .k = w->cols,
                       .values = w->count * w->height,
                       .pitch_log2 = __builtin_ctz((unsigned)w->width)};
  const lo_epilogue e = {.alpha = layerops_value(1), .beta = g->beta};
  lo_cuda_set_epilogue(&p.e, &e, &g->dw, g->x.rows);
  return p;
}
static lo_cu_grid chunks_of(const lo_cuda_bsr_gradient *g) {
  const lo_cuda_bsr *state = g->w->state;
  return (lo_cu_grid){.x = state->chunk_count, .y = 1, .z = 1};
}

static layerops_status run_wgrad_boxes(layerops_context *ctx, const lo_cuda_bsr_gradient *g) {
  const bool bf16 = g->w->type == LAYEROPS_BF16;
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
  const int shape = ((const lo_cuda_bsr *)g->w->state)->shape, bf16 = g->w->type == LAYEROPS_BF16;
  return lo_cuda_check(
      ctx, lo_cu_run_bsr_wgrad(shape, bf16, &p, chunks_of(g), lo_cuda(ctx)->stream), g->what);
}

typedef struct wgrad_kernel {
  lo_kernel base;
  layerops_status (*run)(layerops_context *ctx, const lo_cuda_bsr_gradient *g);
} wgrad_kernel;

static const wgrad_kernel wgrad_kernels[] = {
    {{"bsr_wgrad_wgmma", refuse_wgrad_wgmma}, lo_cuda_bsr_wgrad_wgmma_run},
    {{"bsr_wgrad_boxes", refuse_wgrad_boxes}, run_wgrad_boxes},
    {{"bsr_wgrad", refuse_wgrad}, run_wgrad},
};

bool lo_cuda_bsr_wgrad_takes(layerops_context *ctx, const lo_cuda_bsr_gradient *g) {
  return LO_SELECT(ctx, wgrad_kernels, g);
}

layerops_status lo_cuda_bsr_wgrad(layerops_context *ctx, const lo_cuda_bsr_gradient *g) {
  if (!g->w->count) return LAYEROPS_OK;
  const wgrad_kernel *k = LO_SELECT(ctx, wgrad_kernels, g);
  return k->run(ctx, g);
}
