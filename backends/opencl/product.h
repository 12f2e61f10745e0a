/* Products: what gemm, linear and block-sparse layers share. */
#ifndef LO_OPENCL_PRODUCT_H
#define LO_OPENCL_PRODUCT_H

#include "backends/opencl/opencl.h"
#include "common/product.h"

/* A part of the workspace, in bytes; offsets are multiples of 64. */
typedef struct lo_cl_region {
  layerops_buffer *buffer;
  int64_t offset;
} lo_cl_region;

/* How a product will run. */
typedef struct lo_cl_plan {
  const lo_product *product;
  const struct lo_cl_product_kernel *kernel;
  int64_t scratch; /* bytes */
} lo_cl_plan;

/* `more`: bytes of scratch that the same call needs beside. */
layerops_status lo_cl_plan_product(layerops_context *ctx, const lo_product *p, int64_t more,
                                   lo_cl_plan *plan);
layerops_status lo_cl_run_plan(layerops_context *ctx, const lo_cl_plan *plan, lo_cl_region region);

lo_cl_epilogue lo_cl_epilogue_of(const lo_epilogue *e, const layerops_matrix *c);
/* The arguments that epilogue.cl names LO_TARGETS. */
void lo_cl_targets(lo_cl_launch *l, const lo_epilogue *e, const layerops_matrix *c);

enum { LO_CL_GPU_DEPTH = 16 }; /* BK of loop_gpu.cl */
/* Floats of local memory that loop_gpu.cl needs for tiles of rows x cols. */
int64_t lo_cl_gpu_local(int64_t rows, int64_t cols);

/* The dense product on CPU devices, product_cpu.c. */
int64_t lo_cl_cpu_scratch(layerops_context *ctx, const lo_product *p);
layerops_status lo_cl_cpu_product(layerops_context *ctx, const lo_cl_plan *plan,
                                  lo_cl_region region);
/* Packs `batch` operands into panels of `width`. */
layerops_status lo_cl_cpu_pack(layerops_context *ctx, int width, const layerops_matrix *m,
                               const lo_cl_pack *p, int64_t batch, lo_cl_region to);

/* to = sums over the rows of x, or over its columns, + beta * to: sum.c. */
int64_t lo_cl_sum_scratch(const layerops_matrix *x); /* of sum_columns: bytes */
layerops_status lo_cl_sum_columns(layerops_context *ctx, const layerops_matrix *x,
                                  const layerops_scalar *beta, const layerops_matrix *to,
                                  lo_cl_region region);
layerops_status lo_cl_sum_rows(layerops_context *ctx, const layerops_matrix *x,
                               const layerops_scalar *beta, const layerops_matrix *to);

/* One product's operands, with strides named by meaning. */
lo_cl_operand lo_cl_operand_a(const lo_product *p);
lo_cl_operand lo_cl_operand_b(const lo_product *p);
/* k, or 0 where A and B are not to be read. */
int64_t lo_cl_depth(const lo_product *p);

static inline int64_t lo_cl_round(int64_t bytes) {
  return lo_cl_ceil(bytes, 64) * 64;
}

#endif
