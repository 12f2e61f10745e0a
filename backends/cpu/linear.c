/* gemm and the dense layer: all of them products. */
#include <config.h>

#include "backends/cpu/product.h"

layerops_status lo_cpu_gemm(layerops_context *ctx, const layerops_gemm_args *args) {
  lo_product p;
  lo_product_gemm(args, &p);
  return lo_product_do(ctx, &p);
}

layerops_status lo_cpu_linear_forward(layerops_context *ctx,
                                      const layerops_linear_forward_args *args) {
  lo_product p;
  lo_product_linear(args, &p);
  return lo_product_do(ctx, &p);
}

/* The backward pass: dZ first, if it is not dY as it stands; then two products and a sum that read
 * it. */
typedef struct backward {
  layerops_matrix dz;
  bool makes_dz;
  lo_product dgrad_product, wgrad_product;
  lo_plan dgrad, wgrad;
  int64_t dz_bytes, rest_bytes; /* scratch: dZ's, and what the steps use one after the other */
} backward;

/* Where dZ will stand: the caller's view, dY, or f32 scratch (its address is still to come). */
static void place_dz(const layerops_linear_backward_args *a, backward *b) {
  const layerops_matrix *dy = &a->dy;
  b->makes_dz = a->activation != LAYEROPS_IDENTITY || lo_present(&a->dz);
  if (lo_present(&a->dz) || !b->makes_dz) {
    b->dz = b->makes_dz ? a->dz : *dy;
    return;
  }
  b->dz = layerops_host_matrix(NULL, LAYEROPS_F32, dy->rows, dy->cols);
  b->dz_bytes = (dy->rows * dy->cols * (int64_t)sizeof(float) + 63) / 64 * 64;
}

static void plan_backward(layerops_context *ctx, const layerops_linear_backward_args *a,
                          backward *b) {
  place_dz(a, b);
  if (lo_present(&a->dbias)) b->rest_bytes = lo_column_sum_scratch(&b->dz);
  if (lo_present(&a->dx)) {
    lo_product_dgrad(a, &b->dz, &b->dgrad_product);
    lo_plan_product(ctx, &b->dgrad_product, &b->dgrad);
    b->rest_bytes = lo_most(b->rest_bytes, lo_plan_scratch(&b->dgrad));
  }
  if (lo_present(&a->dw)) {
    lo_product_wgrad(a, &b->dz, &b->wgrad_product);
    lo_plan_product(ctx, &b->wgrad_product, &b->wgrad);
    b->rest_bytes = lo_most(b->rest_bytes, lo_plan_scratch(&b->wgrad));
  }
}

layerops_status lo_cpu_linear_backward(layerops_context *ctx,
                                       const layerops_linear_backward_args *a) {
  backward b = {.makes_dz = false};
  float *scratch;
  ctx->kernel = lo_cpu_of(ctx)->isa->name;
  plan_backward(ctx, a, &b);
  LO_TRY(lo_scratch(ctx, b.dz_bytes + b.rest_bytes, &scratch));
  float *rest = scratch + b.dz_bytes / (int64_t)sizeof(float);
  if (b.dz_bytes) {
    b.dz.host = scratch;
    b.dgrad_product.a.host = b.wgrad_product.a.host = scratch;
  }
  if (b.makes_dz)
    lo_derive_matrix(ctx, a->activation, (float)a->slope.value, &a->dy,
                     a->activation == LAYEROPS_IDENTITY ? &a->dy : &a->saved, &b.dz);
  if (lo_present(&a->dbias)) lo_column_sum(ctx, &b.dz, (float)lo_scalar(&a->beta), &a->dbias, rest);
  if (lo_present(&a->dx)) lo_product_run(ctx, &b.dgrad, rest);
  if (lo_present(&a->dw)) lo_product_run(ctx, &b.wgrad, rest);
  return LAYEROPS_OK;
}
