#include <config.h>

#include "common/product.h"

static layerops_scalar one(void) {
  return layerops_value(1);
}

static void start(lo_product *p, const layerops_matrix *a, int trans_a, const layerops_matrix *b,
                  int trans_b, const layerops_matrix *c, uint32_t flags) {
  *p = (lo_product){
      .a = *a, .b = *b, .c = *c, .trans_a = trans_a, .trans_b = trans_b, .flags = flags};
  p->m = trans_a ? a->cols : a->rows;
  p->n = trans_b ? b->rows : b->cols;
  p->k = trans_a ? a->rows : a->cols;
  p->batch = c->batch;
  p->epilogue.alpha = one();
  p->epilogue.beta = layerops_value(0);
}

void lo_product_gemm(const layerops_gemm_args *args, lo_product *p) {
  start(p, &args->a, args->trans_a != 0, &args->b, args->trans_b != 0, &args->c, args->flags);
  p->epilogue.alpha = args->alpha;
  p->epilogue.beta = args->beta;
  p->scale_a = args->scale_a;
  p->scale_b = args->scale_b;
  p->zero_a = args->zero_a;
}

/* The layer's W: a view, or the shape of what is packed. */
static const layerops_matrix *weights(const layerops_matrix *w, const layerops_weights *packed) {
  return packed ? &packed->shape : w;
}

void lo_product_linear(const layerops_linear_forward_args *args, lo_product *p) {
  start(p, &args->x, 0, weights(&args->w, args->packed), 1, &args->y, args->flags);
  p->packed = args->packed;
  p->epilogue.alpha = args->alpha;
  p->epilogue.bias = args->bias;
  p->epilogue.preact = args->preact;
  p->epilogue.residual = args->residual;
  p->epilogue.activation = args->activation;
  p->epilogue.slope = (float)args->slope.value;
  p->scale_a = args->scale_x;
  p->scale_b = args->scale_w;
  p->zero_a = args->zero_x;
  p->scale_c = args->scale_y;
}

void lo_product_dgrad(const layerops_linear_backward_args *args, const layerops_matrix *dz,
                      lo_product *p) {
  start(p, dz, 0, weights(&args->w, args->packed), 0, &args->dx, args->flags);
  p->packed = args->packed;
  p->epilogue.derivative = args->dx_activation;
  p->epilogue.saved = args->dx_saved;
  p->epilogue.derivative_slope = (float)args->dx_slope.value;
}

void lo_product_wgrad(const layerops_linear_backward_args *args, const layerops_matrix *dz,
                      lo_product *p) {
  start(p, dz, 1, &args->x, 0, &args->dw, args->flags);
  p->epilogue.beta = args->beta;
  p->row_sum = args->dbias;
}

void lo_epilogue_bsr(const layerops_bsr_linear_forward_args *args, lo_epilogue *e) {
  *e = (lo_epilogue){.alpha = args->alpha,
                     .beta = layerops_value(0),
                     .bias = args->bias,
                     .preact = args->preact,
                     .residual = args->residual,
                     .activation = args->activation,
                     .slope = (float)args->slope.value};
}
