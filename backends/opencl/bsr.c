/* The block-sparse linear layer. */
#include <config.h>

#include "backends/opencl/product.h"
#include "common/bsr.h"

enum { BLOCK_ROWS = 32768 }; /* along y of a grid: NVIDIA's limit is 65535 */

static layerops_status run(layerops_context *ctx, const layerops_bsr_linear_forward_args *a,
                           lo_cl_source source, const int *number, int group, int64_t tile_rows,
                           lo_cl_region blocks) {
  lo_epilogue e;
  lo_epilogue_bsr(a, &e);
  lo_cl_bsr p = {.epilogue = lo_cl_epilogue_of(&e, &a->y),
                 .a = {.offset = a->x.offset,
                       .across = a->x.stride,
                       .along = 1,
                       .count = a->x.rows,
                       .type = a->x.type},
                 .packed = blocks.offset / (int64_t)sizeof(float)};
  int64_t block_rows = a->w->block_rows;
  for (; p.block_row < block_rows; p.block_row += BLOCK_ROWS) {
    int64_t left = block_rows - p.block_row;
    lo_cl_launch l = lo_cl_start(ctx, source, number, "bsr");
    lo_cl_view_memory(&l, &a->x);
    lo_cl_memory(&l, blocks.buffer);
    lo_cl_memory(&l, a->w->row_start);
    lo_cl_memory(&l, a->w->column);
    lo_cl_targets(&l, &e, &a->y);
    if (source == LO_CL_BSR_GPU)
      lo_cl_local(&l, lo_cl_gpu_local(tile_rows, a->w->height), sizeof(cl_float));
    lo_cl_bytes(&l, sizeof p, &p);
    LO_TRY(lo_cl_run(&l, group, lo_cl_ceil(a->x.rows, tile_rows),
                     left < BLOCK_ROWS ? left : BLOCK_ROWS, 1));
  }
  return LAYEROPS_OK;
}

static layerops_status run_cpu(layerops_context *ctx, const layerops_bsr_linear_forward_args *a) {
  const lo_cl_class *c = &lo_cl_of(ctx)->device->class;
  const layerops_bsr *w = a->w;
  int64_t area = w->height * w->height;
  layerops_matrix values = layerops_bsr_values(w);
  lo_cl_region blocks = {0};
  lo_cl_pack p = {.from = {.across = w->height,
                           .along = 1,
                           .batch_stride = area,
                           .count = w->height,
                           .type = w->type},
                  .k = w->height};
  ctx->kernel = "opencl_cpu_bsr";
  if (w->count) {
    LO_TRY(lo_workspace(ctx, w->count * area * (int64_t)sizeof(float), &blocks.buffer));
    LO_TRY(lo_cl_cpu_pack(ctx, (int)w->height, &values, &p, w->count, blocks));
  }
  int number[LO_CL_NUMBERS] = {(int)w->height / c->vector};
  return run(ctx, a, LO_CL_BSR_CPU, number, 1, c->rows, blocks);
}

static layerops_status run_gpu(layerops_context *ctx, const layerops_bsr_linear_forward_args *a) {
  enum { ROWS = 64, ITEM_ROWS = 4, COLUMNS = 16 };
  int block = (int)a->w->height;
  int number[LO_CL_NUMBERS] = {ROWS, block, ITEM_ROWS, block / COLUMNS, LAYEROPS_F32 * 4 + 3};
  lo_cl_region values = {a->w->values, 0};
  ctx->kernel = "opencl_gpu_bsr";
  return run(ctx, a, LO_CL_BSR_GPU, number, ROWS / ITEM_ROWS * COLUMNS, ROWS, values);
}

layerops_status lo_cl_bsr_linear_forward(layerops_context *ctx,
                                         const layerops_bsr_linear_forward_args *a) {
  LO_TRY(lo_bsr_plain(ctx, a));
  return lo_cl_of(ctx)->device->class.vector > 1 ? run_cpu(ctx, a) : run_gpu(ctx, a);
}
