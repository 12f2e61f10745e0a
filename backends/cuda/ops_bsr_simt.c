/* Block-sparse products on ordinary cores: f32, and all that tensor cores do not take. */
#include <config.h>

#include "backends/cuda/bsr_launch.h"
#include "backends/cuda/ops_bsr.h"
#include "backends/cuda/plan.h"
#include "common/bsr.h"

typedef struct tile_shape {
  int bm, bn, bk, slices;
} tile_shape;

typedef struct kernel {
  lo_kernel base;
  tile_shape t;
} kernel;

static int log2_of(int64_t power) {
  return __builtin_ctzll((unsigned long long)power);
}

static layerops_status no_kernel(layerops_context *ctx, const layerops_bsr *w, const char *what) {
  return lo_fail(LAYEROPS_ERROR_UNSUPPORTED,
                 "%s: no kernel takes %s in blocks of %lld x %lld, and LAYEROPS_CUDA_KERNEL is "
                 "\"%s\"",
                 what, layerops_type_name(w->type), (long long)w->height, (long long)w->width,
                 lo_cuda(ctx)->forced);
}

static layerops_status too_many(const layerops_bsr *w, int64_t m, const char *what) {
  return lo_fail(LAYEROPS_ERROR_OVERFLOW, "%s: %lld samples are too many for %lld x %lld weights",
                 what, (long long)m, (long long)w->rows, (long long)w->cols);
}

/* ---- Lines of blocks */
typedef struct line_problem {
  const layerops_bsr *w;
  int64_t m, n, k, lines, longest, n_side, k_side;
  bool invariant;
} line_problem;

static line_problem line_problem_of(const lo_cuda_bsr_product *p) {
  const layerops_bsr *w = p->w;
  return (line_problem){.w = w,
                        .m = p->features ? p->x.cols : p->x.rows,
                        .n = p->turned ? w->cols : w->rows,
                        .k = p->turned ? w->rows : w->cols,
                        .lines = p->turned ? w->block_cols : w->block_rows,
                        .longest = p->turned ? w->longest_col : w->longest_row,
                        .n_side = p->turned ? w->width : w->height,
                        .k_side = p->turned ? w->height : w->width,
                        .invariant = p->invariant};
}

static int64_t line_tiles(const line_problem *q, const tile_shape *t) {
  return lo_ceil_div(q->m, t->bm) * q->lines * (q->n_side / t->bn);
}

/* Whether one line is so much longer than most that all would wait for it. */
static bool has_long_line(const line_problem *q) {
  return q->longest * q->k_side > 512 && q->longest * q->lines > 4 * q->w->count;
}

/* Tiles in slices take what whole ones leave. Fitted to times on an H200 (2026-12). */
static const char *refuse_line(layerops_context *ctx, const line_problem *q, const char *name,
                               const tile_shape *t) {
  const char *reason = lo_cuda_shut_out(ctx, name);
  const int64_t sms = lo_cuda(ctx)->device->sms, tiles = line_tiles(q, t);
  if (reason) return reason;
  if (q->n_side < t->bn || q->k_side < t->bk) return "blocks are smaller";
  if (*lo_cuda(ctx)->forced) return NULL;
  if (t->slices == 1) {
    if (q->n_side >= 2 * t->bn && q->k_side >= 16) return "blocks are larger";
    return tiles < 4 * sms && !q->invariant ? "so few tiles leave SMs idle" : NULL;
  }
  if (q->invariant) return "the call asks for batch invariance";
  if (t->bm == 16) return q->m > 16 && !has_long_line(q) ? "so many samples" : NULL;
  return t->slices == 8 && tiles > 3 * sms ? "so many tiles need fewer warps" : NULL;
}

#define X(NAME, BM, BN, BK, TM, TN, LX, SLICES, BLOCKS)                                            \
  static const char *refuse_line_##NAME(layerops_context *ctx, const void *q) {                    \
    return refuse_line(ctx, q, "bsr_simt_" #NAME, &(tile_shape){BM, BN, BK, SLICES});              \
  }
LO_CU_BSR_LINES(X)
#undef X
static const kernel line_kernels[] = {
#define X(NAME, BM, BN, BK, TM, TN, LX, SLICES, BLOCKS)                                            \
  {{"bsr_simt_" #NAME, refuse_line_##NAME}, {BM, BN, BK, SLICES}},
    LO_CU_BSR_LINES(X)
#undef X
};

/* Rows of tiles that are walked together: what X has in them is half of what the second-level cache
 * of a large device holds, or all of a small one's. */
enum { BAND_BYTES = 16 << 20 };
static unsigned band_of(const line_problem *q, const lo_cuda_bsr_product *p, const tile_shape *t) {
  const int64_t row = t->bm * q->k * (int64_t)lo_type_bytes(p->x.type);
  const int64_t band = row ? BAND_BYTES / row : 1, all = lo_ceil_div(q->m, t->bm);
  return (unsigned)(band < 1 ? 1 : band < all ? band : all);
}

static lo_cu_bsr_simt line_params(const lo_cuda_bsr_product *p, const line_problem *q,
                                  const tile_shape *t) {
  const layerops_bsr *w = p->w;
  lo_cu_bsr_simt out = {.x = lo_cuda_view(&p->x),
                        .w = w->values->native,
                        .w_type = w->type,
                        .start = (p->turned ? w->col_start : w->row_start)->native,
                        .index = (p->turned ? w->row : w->column)->native,
                        .place = p->turned ? w->place->native : NULL,
                        .gate = lo_present(&p->gate) ? lo_address(&p->gate) : NULL,
                        .scales = w->scales ? w->scales->native : NULL,
                        .m = q->m,
                        .n = q->n,
                        .k = q->k,
                        .tiles_m = (unsigned)lo_ceil_div(q->m, t->bm),
                        .tiles_n = (unsigned)(q->lines * (q->n_side / t->bn)),
                        .band = band_of(q, p, t),
                        .n_log2 = log2_of(q->n_side),
                        .k_log2 = log2_of(q->k_side),
                        .width_log2 = log2_of(w->width),
                        .parts_log2 = log2_of(q->n_side / t->bn),
                        .turned = p->turned,
                        .features = p->features};
  lo_cuda_set_epilogue(&out.e, &p->epilogue, &p->y, q->k);
  return out;
}

layerops_status lo_cuda_bsr_simt(layerops_context *ctx, const lo_cuda_bsr_product *p) {
  const line_problem q = line_problem_of(p);
  const kernel *k = LO_SELECT(ctx, line_kernels, &q);
  if (!k) return no_kernel(ctx, p->w, p->what);
  if (line_tiles(&q, &k->t) > LO_CUDA_LARGEST_GRID) return too_many(p->w, q.m, p->what);
  const lo_cu_bsr_simt params = line_params(p, &q, &k->t);
  const lo_cu_grid grid = {.x = line_tiles(&q, &k->t), .y = 1, .z = 1};
  const int number = (int)(k - line_kernels);
  return lo_cuda_check(ctx, lo_cu_run_bsr_lines(number, &params, grid, lo_cuda(ctx)->stream),
                       p->what);
}

/* ---- The gradients of values and gates */
static int64_t tiles_down(const layerops_bsr *w, const tile_shape *t) {
  return w->height / t->bm;
}
static int64_t tiles_across(const layerops_bsr *w, const tile_shape *t) {
  return w->width > t->bn ? w->width / t->bn : 1;
}
/* Of the longest row and all others alike: blocks of the grid without a kept block end at once. */
static int64_t value_tiles(const layerops_bsr *w, const tile_shape *t) {
  return lo_ceil_div(w->longest_row * w->width, t->bn) * tiles_down(w, t) * w->block_rows;
}

typedef struct value_problem {
  const layerops_bsr *w;
  int64_t m;
} value_problem;

/* Tiles of 32 x 32 take all larger blocks: scratch memory is for no more parts of one. Fitted to
 * times on an H200 (2026-12). */
static const char *refuse_values(layerops_context *ctx, const value_problem *q, const char *name,
                                 const tile_shape *t) {
  const layerops_bsr *w = q->w;
  const char *reason = lo_cuda_shut_out(ctx, name);
  const int64_t sms = lo_cuda(ctx)->device->sms;
  const int64_t kept = lo_ceil_div(w->count * w->width, t->bn) * tiles_down(w, t);
  if (reason) return reason;
  if (w->height < t->bm) return "blocks are lower";
  if (t->bm < 32 && w->height > t->bm) return "blocks are higher";
  if (*lo_cuda(ctx)->forced) return NULL;
  if (t->slices == 1) {
    if (w->height > t->bm) return "blocks are higher";
    if (q->m < 1024) return "so few samples";
    return kept < sms ? "so few tiles leave SMs idle" : NULL;
  }
  return t->slices == 8 && (kept > 2 * sms || q->m < 128) ? "so few steps need fewer warps" : NULL;
}

#define X(NAME, BM, BN, BK, TM, TN, LX, SLICES, BLOCKS)                                            \
  static const char *refuse_values_##NAME(layerops_context *ctx, const void *q) {                  \
    return refuse_values(ctx, q, "bsr_simt_dw_" #NAME, &(tile_shape){BM, BN, BK, SLICES});         \
  }
LO_CU_BSR_VALUES(X)
#undef X
static const kernel value_kernels[] = {
#define X(NAME, BM, BN, BK, TM, TN, LX, SLICES, BLOCKS)                                            \
  {{"bsr_simt_dw_" #NAME, refuse_values_##NAME}, {BM, BN, BK, SLICES}},
    LO_CU_BSR_VALUES(X)
#undef X
};

int64_t lo_cuda_bsr_simt_scratch(const lo_cuda_bsr_gradient *g) {
  const int64_t down = lo_ceil_div(g->w->height, 32), across = lo_ceil_div(g->w->width, 32);
  return lo_present(&g->dgate) ? 4 * g->w->count * down * across : 0;
}

static lo_cu_bsr_values value_params(const lo_cuda_bsr_gradient *g, const tile_shape *t,
                                     char *memory) {
  const layerops_bsr *w = g->w;
  const layerops_matrix values = layerops_bsr_values(w);
  return (lo_cu_bsr_values){.dz = lo_cuda_view(&g->dz),
                            .x = lo_cuda_view(&g->x),
                            .values = lo_cuda_view(&values),
                            .to = lo_cuda_view(&g->dw),
                            .start = w->row_start->native,
                            .column = w->column->native,
                            .gate = lo_present(&g->gate) ? lo_address(&g->gate) : NULL,
                            .parts = lo_present(&g->dgate) ? (float *)memory : NULL,
                            .beta = lo_cuda_scalar(&g->beta),
                            .m = g->features ? g->x.cols : g->x.rows,
                            .n = w->rows,
                            .k = w->cols,
                            .lines = (unsigned)w->block_rows,
                            .height_log2 = log2_of(w->height),
                            .width_log2 = log2_of(w->width),
                            .down_log2 = log2_of(tiles_down(w, t)),
                            .across_log2 = log2_of(tiles_across(w, t)),
                            .features = g->features};
}

/* dgate of the parts that tiles have stored. */
static layerops_status add_gate_parts(layerops_context *ctx, const lo_cuda_bsr_gradient *g,
                                      const lo_cu_bsr_values *p) {
  layerops_matrix parts = layerops_matrix_of(NULL, LAYEROPS_F32, g->w->count,
                                             (int64_t)1 << (p->down_log2 + p->across_log2));
  parts.host = p->parts;
  return lo_cuda_bsr_row_sums(ctx, &parts, &g->dgate, &g->beta, g->what);
}

layerops_status lo_cuda_bsr_simt_wgrad(layerops_context *ctx, const lo_cuda_bsr_gradient *g,
                                       char *memory) {
  const layerops_bsr *w = g->w;
  if (!w->count) return LAYEROPS_OK;
  const value_problem q = {w, g->features ? g->x.cols : g->x.rows};
  const kernel *k = LO_SELECT(ctx, value_kernels, &q);
  if (!k) return no_kernel(ctx, w, g->what);
  const int64_t tiles = value_tiles(w, &k->t);
  if (tiles > LO_CUDA_LARGEST_GRID) return too_many(w, q.m, g->what);
  const lo_cu_bsr_values params = value_params(g, &k->t, memory);
  const lo_cu_grid grid = {.x = tiles, .y = 1, .z = 1};
  const int number = (int)(k - value_kernels);
  LO_TRY(lo_cuda_check(ctx, lo_cu_run_bsr_values(number, &params, grid, lo_cuda(ctx)->stream),
                       g->what));
  return params.parts ? add_gate_parts(ctx, g, &params) : LAYEROPS_OK;
}

layerops_status lo_cuda_bsr_row_sums(layerops_context *ctx, const layerops_matrix *x,
                                     const layerops_matrix *y, const layerops_scalar *beta,
                                     const char *what) {
  lo_cu_bsr_sums p = {lo_cuda_view(x), lo_cuda_view(y), lo_cuda_scalar(beta)};
  return lo_cuda_check(
      ctx, lo_cu_run_row_sums(&p, lo_cuda_grid(ctx, 32 * x->rows), lo_cuda(ctx)->stream), what);
}
