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
