/* Operations of one kernel each: activations, optimizers, fill, copy, gather, transpose. */
#include <config.h>

#include "backends/cuda/cuda.h"

layerops_status lo_cuda_activation_forward(layerops_context *ctx,
                                           const layerops_activation_forward_args *a) {
  lo_cu_unary p = {lo_cuda_view(&a->x), lo_cuda_view(&a->y), a->activation, (float)a->slope.value};
  lo_cuda_flatten((lo_cu_view *[]){&p.x, &p.y}, 2);
  ctx->kernel = "elementwise_quads";
  return lo_cuda_check(
      ctx, lo_cu_run_activation_forward(&p, lo_cuda_quads(ctx, &p.y), lo_cuda(ctx)->stream),
      "activation_forward");
}

layerops_status lo_cuda_activation_backward(layerops_context *ctx,
                                            const layerops_activation_backward_args *a) {
  lo_cu_binary p = {lo_cuda_view(&a->dy), lo_cuda_view(&a->saved), lo_cuda_view(&a->dx),
                    a->activation, (float)a->slope.value};
  lo_cuda_flatten((lo_cu_view *[]){&p.dy, &p.saved, &p.dx}, 3);
  ctx->kernel = "elementwise_quads";
  return lo_cuda_check(
      ctx, lo_cu_run_activation_backward(&p, lo_cuda_quads(ctx, &p.dx), lo_cuda(ctx)->stream),
      "activation_backward");
}

layerops_status lo_cuda_sgd(layerops_context *ctx, const layerops_sgd_args *a) {
  lo_cu_sgd p = {.w = lo_cuda_view(&a->w),
                 .g = lo_cuda_view(&a->g),
                 .velocity = lo_cuda_view(&a->velocity),
                 .lr = lo_cuda_scalar(&a->lr),
                 .momentum = lo_cuda_scalar(&a->momentum),
                 .weight_decay = lo_cuda_scalar(&a->weight_decay),
                 .nesterov = a->nesterov};
  lo_cuda_flatten((lo_cu_view *[]){&p.w, &p.g, &p.velocity}, 3);
  ctx->kernel = "sgd_quads";
  return lo_cuda_check(ctx, lo_cu_run_sgd_step(&p, lo_cuda_quads(ctx, &p.w), lo_cuda(ctx)->stream),
                       "sgd");
}

layerops_status lo_cuda_adam(layerops_context *ctx, const layerops_adam_args *a) {
  lo_cu_adam p = {.w = lo_cuda_view(&a->w),
                  .g = lo_cuda_view(&a->g),
                  .m = lo_cuda_view(&a->m),
                  .v = lo_cuda_view(&a->v),
                  .lr = lo_cuda_scalar(&a->lr),
                  .beta1 = lo_cuda_scalar(&a->beta1),
                  .beta2 = lo_cuda_scalar(&a->beta2),
                  .epsilon = lo_cuda_scalar(&a->epsilon),
                  .weight_decay = lo_cuda_scalar(&a->weight_decay),
                  .step = lo_cuda_scalar(&a->step),
                  .decoupled = a->decoupled};
  lo_cuda_flatten((lo_cu_view *[]){&p.w, &p.g, &p.m, &p.v}, 4);
  ctx->kernel = "adam_quads";
  return lo_cuda_check(ctx, lo_cu_run_adam_step(&p, lo_cuda_quads(ctx, &p.w), lo_cuda(ctx)->stream),
                       "adam");
}

layerops_status lo_cuda_fill(layerops_context *ctx, const layerops_fill_args *a) {
  lo_cu_fill p = {lo_cuda_view(&a->y), lo_cuda_scalar(&a->value)};
  lo_cuda_flatten((lo_cu_view *[]){&p.y}, 1);
  ctx->kernel = "fill_quads";
  return lo_cuda_check(ctx, lo_cu_run_fill_all(&p, lo_cuda_quads(ctx, &p.y), lo_cuda(ctx)->stream),
                       "fill");
}

/* The widest move, in bytes, that divides both views' places, rows and strides. */
static int move_width(const lo_cu_copy *p, size_t size) {
  uintptr_t all = (uintptr_t)p->x.p | (uintptr_t)p->y.p | (uintptr_t)p->y.cols * size;
  if (p->x.rows > 1) all |= (uintptr_t)p->x.stride * size;
  if (p->y.rows > 1) all |= (uintptr_t)p->y.stride * size;
  int width = 16;
  while (all % (uintptr_t)width) width /= 2;
  return width;
}

static lo_cu_view in_units(lo_cu_view v, int64_t size, int64_t width) {
  v.cols = v.cols * size / width;
  v.stride = v.stride * size / width;
  return v;
}

/* Equal types move as they are, others are converted. */
static layerops_status copy(layerops_context *ctx, lo_cu_copy *p, const char *what) {
  lo_cuda_state *s = lo_cuda(ctx);
  if (p->x.type != p->y.type) {
    ctx->kernel = "convert_quads";
    return lo_cuda_check(ctx, lo_cu_run_convert(p, lo_cuda_quads(ctx, &p->y), s->stream), what);
  }
  size_t size = layerops_type_size(p->y.type);
  int width = move_width(p, size);
  p->x = in_units(p->x, (int64_t)size, width);
  p->y = in_units(p->y, (int64_t)size, width);
  ctx->kernel = width == 16 ? "move_16_bytes" : "move_narrow";
  return lo_cuda_check(
      ctx, lo_cu_run_move(p, width, lo_cuda_grid(ctx, p->y.rows * p->y.cols), s->stream), what);
}

layerops_status lo_cuda_copy(layerops_context *ctx, const layerops_copy_args *a) {
  lo_cu_copy p = {.x = lo_cuda_view(&a->x), .y = lo_cuda_view(&a->y)};
  lo_cuda_flatten((lo_cu_view *[]){&p.x, &p.y}, 2);
  return copy(ctx, &p, "copy");
}

layerops_status lo_cuda_gather(layerops_context *ctx, const layerops_gather_args *a) {
  lo_cu_copy p = {.x = lo_cuda_view(&a->x),
                  .y = lo_cuda_view(&a->y),
                  .index = lo_address(&a->index),
                  .fault = lo_cuda_index_fault(ctx, a->x.rows)};
  return copy(ctx, &p, "gather");
}

layerops_status lo_cuda_transpose(layerops_context *ctx, const layerops_transpose_args *a) {
  lo_cu_copy p = {.x = lo_cuda_view(&a->x), .y = lo_cuda_view(&a->y)};
  int64_t tiles = (p.x.rows + 31) / 32 * ((p.x.cols + 31) / 32);
  ctx->kernel = "transpose_32x32";
  return lo_cuda_check(
      ctx,
      lo_cu_run_transpose_all(&p, (int)layerops_type_size(a->x.type), tiles, lo_cuda(ctx)->stream),
      "transpose");
}
