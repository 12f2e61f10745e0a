/* bsr_linear_forward in f32: rows of blocks, on ordinary cores. */
#include <config.h>

#include "backends/cuda/bsr_launch.h"
#include "backends/cuda/ops_bsr.h"
#include "backends/cuda/plan.h"
#include "common/bsr.h"

typedef struct f32_problem {
  int64_t m, block, block_rows;
} f32_problem;

static const char *refuse_f32(layerops_context *ctx, const f32_problem *q, const char *name, int bm,
                              int block) {
  const char *reason = lo_cuda_shut_out(ctx, name);
  if (reason) return reason;
  if (q->block != block) return "blocks are of another size";
  if (bm > 32 && !*lo_cuda(ctx)->forced &&
      lo_ceil_div(q->m, bm) * q->block_rows < 2 * (int64_t)lo_cuda(ctx)->device->sms)
    return "so few tiles leave SMs idle";
  return NULL;
}

typedef struct f32_kernel {
  lo_kernel base;
  int tile, bm;
} f32_kernel;

#define REFUSE(BM, BLOCK)                                                                          \
  static const char *refuse_f32_##BM##x##BLOCK(layerops_context *ctx, const void *q) {             \
    return refuse_f32(ctx, q, "bsr_simt_" #BM "x" #BLOCK, BM, BLOCK);                              \
  }
REFUSE(128, 32)
REFUSE(32, 32)
REFUSE(128, 16)
REFUSE(32, 16)

/* In the order of LO_CU_BSR_TILES. */
static const f32_kernel f32_kernels[] = {
    {{"bsr_simt_128x32", refuse_f32_128x32}, 0, 128},
    {{"bsr_simt_32x32", refuse_f32_32x32}, 1, 32},
    {{"bsr_simt_128x16", refuse_f32_128x16}, 2, 128},
    {{"bsr_simt_32x16", refuse_f32_32x16}, 3, 32},
};

layerops_status lo_cuda_bsr_linear_f32(layerops_context *ctx,
                                       const layerops_bsr_linear_forward_args *a) {
  const layerops_bsr *w = a->w;
  LO_TRY(lo_bsr_plain(ctx, a));
  f32_problem q = {a->y.rows, w->height, w->block_rows};
  const f32_kernel *kernel = LO_SELECT(ctx, f32_kernels, &q);
  if (!kernel)
    return lo_fail(
        LAYEROPS_ERROR_UNSUPPORTED,
        "bsr_linear_forward: no kernel takes blocks of %lld, and LAYEROPS_CUDA_KERNEL is \"%s\"",
        (long long)w->height, lo_cuda(ctx)->forced);
  lo_epilogue e;
  lo_epilogue_bsr(a, &e);
  lo_cu_bsr p = {.x = lo_cuda_operand(&a->x, q.m, 1),
                 .w = {w->values->native, w->height, w->width, 0, LAYEROPS_F32, 1, 1, 1},
                 .row_start = w->row_start->native,
                 .column = w->column->native,
                 .m = q.m,
                 .tiles_m = lo_ceil_div(q.m, kernel->bm),
                 .block_rows = q.block_rows};
  lo_cuda_set_epilogue(&p.e, &e, &a->y, a->x.cols);
  int64_t count = p.tiles_m * p.block_rows;
  for (p.tile0 = 0; p.tile0 < count; p.tile0 += LO_CUDA_LARGEST_GRID) {
    int64_t left = count - p.tile0;
    lo_cu_grid grid = {
        .x = left < LO_CUDA_LARGEST_GRID ? left : LO_CUDA_LARGEST_GRID, .y = 1, .z = 1};
    LO_TRY(lo_cuda_check(ctx, lo_cu_run_bsr_f32(kernel->tile, &p, grid, lo_cuda(ctx)->stream),
                         "bsr_linear_forward"));
  }
  return LAYEROPS_OK;
}
