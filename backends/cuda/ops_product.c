/* gemm and the linear layer: lowered to products (common/product.h), planned, launched. */
#include <config.h>

#include "backends/cuda/plan.h"

static int64_t round_up(int64_t bytes) {
  return (bytes + 255) / 256 * 256;
}

lo_cu_operand lo_cuda_operand(const layerops_matrix *m, int64_t extent, int k_inner) {
  return (lo_cu_operand){lo_present(m) ? lo_address(m) : NULL,
                         extent,
                         m->stride,
                         m->batch == 1 ? 0 : m->batch_stride,
                         m->type,
                         k_inner,
                         lo_cuda_aligned(m, 4),
                         lo_cuda_aligned(m, 16 / (int)layerops_type_size(m->type))};
}

static lo_cu_vector vector(const layerops_matrix *m) {
  if (!lo_present(m)) return (lo_cu_vector){0};
  return (lo_cu_vector){lo_address(m), m->type, m->cols == 1};
}

/* A matrix beside C; C's quads are moved at once only if this one's can be too. */
static lo_cu_beside beside(const layerops_matrix *m, lo_cu_output *c) {
  if (!lo_present(m)) return (lo_cu_beside){0};
  c->quads &= lo_cuda_aligned(m, 4);
  return (lo_cu_beside){lo_address(m), m->stride, m->type};
}

static lo_cu_factor factor(const layerops_scalar *s) {
  lo_cu_scalar all = lo_cuda_scalar(s);
  return (lo_cu_factor){.p = all.p, .value = (float)all.value};
}

static int ends_of(const lo_cu_epilogue *e) {
  if (e->c.type == LAYEROPS_I32) return LO_END_SUMS;
  bool straight = e->activation == LAYEROPS_IDENTITY || e->activation == LAYEROPS_RELU;
  return (straight ? 0 : LO_END_ACTIVATION) | (e->beta.p || e->beta.value != 0 ? LO_END_BETA : 0) |
         (e->preact.p ? LO_END_PREACT : 0) | (e->residual.p ? LO_END_RESIDUAL : 0) |
         (e->derivative == LAYEROPS_IDENTITY ? 0 : LO_END_DERIVATIVE) |
         (e->c.type >= LAYEROPS_F8E4M3 ? LO_END_F8 : 0);
}

/* Where nothing follows that could make a small error of the activation large beside what is
 * stored. */
static int activation_of(const lo_cu_epilogue *e) {
  if (e->c.type == LAYEROPS_F32 || e->ends & (LO_END_RESIDUAL | LO_END_DERIVATIVE))
    return e->activation;
  switch (e->activation) {
  case LAYEROPS_GELU: /* 8 bits may be any small numbers, divided by a scale */
    return e->c.type == LAYEROPS_F16 ? LO_ACT_GELU_F16 : LO_ACT_GELU_BF16;
  case LAYEROPS_SILU:
    return LO_ACT_SILU_16;
  default:
    return e->activation;
  }
}

/* Sums of floats: one scale for each operand is a factor of alpha. */
static void scale_floats(lo_cu_epilogue *e) {
  if (!e->scale_a.p && !e->scale_b.p) return;
  if ((!e->scale_a.p || e->scale_a.one) && (!e->scale_b.p || e->scale_b.one))
    e->alpha.scaled = 1;
  else
    e->ends |= LO_END_SCALES;
}

void lo_cuda_set_epilogue(lo_cu_epilogue *out, const lo_epilogue *e, const layerops_matrix *c,
                          int64_t k) {
  if (lo_present(c))
    out->c = (lo_cu_output){lo_address(c), c->stride, c->batch == 1 ? 0 : c->batch_stride, c->type,
                            lo_cuda_aligned(c, 4)};
  if (k) out->alpha = factor(&e->alpha); /* else nothing, whatever alpha is */
  out->beta = factor(&e->beta);
  out->bias = vector(&e->bias);
  out->preact = beside(&e->preact, &out->c);
  out->residual = beside(&e->residual, &out->c);
  out->saved = beside(&e->saved, &out->c);
  out->activation = e->activation;
  out->derivative = e->derivative;
  out->slope = e->slope;
  out->derivative_slope = e->derivative_slope;
  out->ends = ends_of(out);
  out->activation = activation_of(out);
}

/* Tiles up to g->tile1, from g->tile0 on. */
static layerops_status launch_tiles(layerops_context *ctx, const lo_cuda_plan *plan, lo_cu_gemm *g,
                                    const char *what) {
  for (int64_t end = g->tile1; g->tile0 < end; g->tile0 += LO_CUDA_LARGEST_GRID) {
    int64_t left = end - g->tile0;
    lo_cu_grid grid = {.x = left < LO_CUDA_LARGEST_GRID ? left : LO_CUDA_LARGEST_GRID,
                       .y = g->split,
                       .z = g->batch < 65535 ? g->batch : 65535,
                       .alone = plan->alone};
    const lo_cuda_kernel *k = plan->kernel;
    g->tile1 = g->tile0 + grid.x;
    LO_TRY(lo_cuda_check(ctx, k->run(k->number, plan->kind, g, grid, lo_cuda(ctx)->stream), what));
  }
  return LAYEROPS_OK;
}

static layerops_status launch(layerops_context *ctx, const lo_cuda_plan *plan, lo_cu_gemm *g,
                              const char *what) {
  int64_t count = g->tiles_m * g->tiles_n;
  g->tile0 = 0;
  g->tile1 = count - plan->tail.tiles;
  LO_TRY(launch_tiles(ctx, plan, g, what));
  if (!plan->tail.tiles) return LAYEROPS_OK;
  g->split = plan->tail.split;
  g->slice = plan->tail.slice;
  g->tile0 = count - plan->tail.tiles;
  g->tile1 = count;
  return launch_tiles(ctx, plan, g, what);
}

/* Makes an operand lie in a copy, with rows on borders of 16 bytes or more and zeros up to the next
 * one, and elements of that type. */
static void move_operand(const layerops_matrix *m, layerops_type type, lo_cu_operand *o,
                         lo_cu_align *align, char **memory) {
  int64_t from = (int64_t)lo_type_bytes(m->type), size = (int64_t)lo_type_bytes(type);
  int64_t row = m->cols * size;
  lo_cu_rows *r = &align->operands[align->count++];
  *r = (lo_cu_rows){.from = o->p,
                    .to = *memory,
                    .rows = m->rows,
                    .batch = m->batch,
                    .bytes = m->cols * from,
                    .stride = m->stride * from,
                    .batch_stride = m->batch_stride * from,
                    .pitch = lo_cuda_pitch(row),
                    .lanes = 1,
                    .type = m->type,
                    .to_type = type};
  while (r->lanes < 256 && 4 * LO_CU_ROW_WORDS * r->lanes < r->bytes) r->lanes *= 2;
  *memory += round_up(r->rows * r->batch * r->pitch);
  o->p = r->to;
  o->type = type;
  o->stride = r->pitch / size;
  o->batch_stride = m->batch == 1 ? 0 : m->rows * o->stride;
  o->vector = o->vector8 = 1;
}

typedef int run_copies(const lo_cu_align *p, lo_cu_grid grid, void *stream);
static layerops_status run_moves(layerops_context *ctx, const lo_cu_align *align, run_copies *run,
                                 const char *what) {
  int64_t threads = 0;
  if (!align->count) return LAYEROPS_OK;
  for (int i = 0; i < align->count; i++) {
    const lo_cu_rows *r = &align->operands[i];
    if (r->rows * r->batch * r->lanes > threads) threads = r->rows * r->batch * r->lanes;
  }
  lo_cu_grid grid = lo_cuda_grid(ctx, threads);
  return lo_cuda_check(ctx, run(align, grid, lo_cuda(ctx)->stream), what);
}

/* Operands that are copied as they are have elements of one size. */
static layerops_status move_operands(layerops_context *ctx, const lo_product *p,
                                     const lo_cuda_kernel *k, lo_cu_gemm *g, char *memory,
                                     const char *what) {
  const layerops_matrix *operands[] = {&p->a, &p->b};
  lo_cu_operand *taken[] = {&g->a, &g->b};
  lo_cu_align aligned = {0}, widened = {0};
  for (int i = 0; i < 2; i++) {
    const layerops_matrix *m = operands[i];
    layerops_type type = lo_cuda_type_in(p, m, k);
    if (!lo_cuda_is_copied(p, m, k)) continue;
    if (type == m->type) aligned.element = (int)lo_type_bytes(type);
    move_operand(m, type, taken[i], type == m->type ? &aligned : &widened, &memory);
  }
  if (!aligned.count && !widened.count) return LAYEROPS_OK;
  int64_t each = LO_CUDA_CHUNK / (int64_t)lo_type_bytes(taken[0]->type);
  /* Zeros count for nothing. Kernels that take any rows may have one of them as it is. */
  if (k->direct && k->align) g->k = lo_ceil_div(p->k, each) * each;
  LO_TRY(run_moves(ctx, &aligned, lo_cu_run_align, what));
  return run_moves(ctx, &widened, lo_cu_run_widen, what);
}

layerops_status lo_cuda_run_product(layerops_context *ctx, const lo_product *p,
                                    const lo_cuda_plan *plan, char *memory, const char *what) {
  lo_cu_gemm g = {.a = lo_cuda_operand(&p->a, p->m, !p->trans_a),
                  .b = lo_cuda_operand(&p->b, p->n, p->trans_b),
                  .m = p->m,
                  .n = p->n,
                  .k = p->k,
                  .batch = p->batch,
                  .tiles_m = lo_ceil_div(p->m, plan->bm),
                  .tiles_n = lo_ceil_div(p->n, plan->bn),
                  .slice = plan->slice,
                  .split = plan->split,
                  .bf16 = p->a.type == LAYEROPS_BF16,
                  .a_unsigned = p->a.type == LAYEROPS_U8,
                  .swapped = plan->swapped,
                  .sms = lo_cuda(ctx)->device->sms,
                  .partial = (float *)memory,
                  .partial_sums = memory ? (float *)(memory + plan->partial_bytes) : NULL,
                  .counters = lo_cuda(ctx)->counters,
                  .pitch = (p->n + 3) / 4 * 4};
  lo_cuda_set_epilogue(&g.e, &p->epilogue, &p->c, p->k);
  g.e.row_sum = vector(&p->row_sum);
  g.e.scale_a = vector(&p->scale_a);
  g.e.scale_b = vector(&p->scale_b);
  g.e.zero_a = vector(&p->zero_a);
  g.e.scale_c = vector(&p->scale_c);
  if (p->a.type != LAYEROPS_I8 && p->a.type != LAYEROPS_U8) scale_floats(&g.e);
  LO_TRY(move_operands(ctx, p, plan->kernel, &g, memory + plan->copies, what));
  return launch(ctx, plan, &g, what);
}

static layerops_status run_alone(layerops_context *ctx, const lo_product *p, const char *what) {
  lo_cuda_plan plan;
  char *memory;
  LO_TRY(lo_cuda_tune_product(ctx, p));
  LO_TRY(lo_cuda_plan_product(ctx, p, &plan));
  LO_TRY(lo_cuda_scratch(ctx, plan.bytes, &memory));
  return lo_cuda_run_product(ctx, p, &plan, memory, what);
}

layerops_status lo_cuda_gemm(layerops_context *ctx, const layerops_gemm_args *a) {
  lo_product p;
  lo_product_gemm(a, &p);
  return run_alone(ctx, &p, "gemm");
}

layerops_status lo_cuda_linear_forward(layerops_context *ctx,
                                       const layerops_linear_forward_args *a) {
  lo_product p;
  lo_product_linear(a, &p);
  return run_alone(ctx, &p, "linear_forward");
}

/* ---- Backward */
typedef struct backward {
  const layerops_linear_backward_args *a;
  layerops_matrix dz;
  bool makes_dz; /* dZ is not dY itself */
  lo_product dgrad, wgrad;
  lo_cuda_plan dgrad_plan, wgrad_plan;
  lo_cu_column_sum column_sum;
  int64_t dz_bytes, bytes;
} backward;

static bool wants_dz(const layerops_linear_backward_args *a) {
  return lo_present(&a->dz) || a->activation != LAYEROPS_IDENTITY;
}

/* dbias without dW. */
int64_t lo_cuda_plan_column_sum(layerops_context *ctx, const layerops_matrix *dy,
                                lo_cu_column_sum *sum) {
  int64_t fill = lo_ceil_div(4 * (int64_t)lo_cuda(ctx)->device->sms, lo_ceil_div(dy->cols, 32));
  int64_t parts = lo_ceil_div(dy->rows, 64);
  if (parts > fill) parts = fill;
  if (parts < 1) parts = 1;
  sum->rows_each = lo_ceil_div(dy->rows, parts);
  sum->parts_count = (int)parts;
  ctx->kernel = "column_sum";
  return 4 * parts * dy->cols;
}

layerops_status lo_cuda_column_sum(layerops_context *ctx, lo_cu_column_sum *sum,
                                   const layerops_matrix *dz, const layerops_matrix *dbias,
                                   const layerops_scalar *beta, char *memory, const char *what) {
  sum->x = lo_cuda_view(dz);
  sum->y = lo_cuda_view(dbias);
  sum->beta = lo_cuda_scalar(beta);
  sum->parts = (float *)memory;
  return lo_cuda_check(ctx, lo_cu_run_column_sum(sum, lo_cuda(ctx)->stream), what);
}

/* All scratch memory is asked for once: dZ where it has no place of its own, then what the products
 * need, one after the other. */
static layerops_status plan_backward(layerops_context *ctx, backward *b) {
  const layerops_linear_backward_args *a = b->a;
  int64_t most = 0;
  if (b->makes_dz && !lo_present(&a->dz)) {
    b->dz = layerops_matrix_of(NULL, a->dy.type, a->dy.rows, a->dy.cols);
    b->dz_bytes = round_up(a->dy.rows * a->dy.cols * (int64_t)layerops_type_size(a->dy.type));
  }
  if (lo_present(&a->dx)) {
    lo_product_dgrad(a, &b->dz, &b->dgrad);
    LO_TRY(lo_cuda_plan_product(ctx, &b->dgrad, &b->dgrad_plan));
    most = b->dgrad_plan.bytes;
  }
  if (lo_present(&a->dw)) {
    lo_product_wgrad(a, &b->dz, &b->wgrad);
    LO_TRY(lo_cuda_plan_product(ctx, &b->wgrad, &b->wgrad_plan));
    if (b->wgrad_plan.bytes > most) most = b->wgrad_plan.bytes;
  } else if (lo_present(&a->dbias)) {
    int64_t bytes = lo_cuda_plan_column_sum(ctx, &a->dy, &b->column_sum);
    if (bytes > most) most = bytes;
  }
  b->bytes = b->dz_bytes + most;
  return LAYEROPS_OK;
}

static layerops_status make_dz(layerops_context *ctx, const backward *b) {
  layerops_activation_backward_args args = {.dy = b->a->dy,
                                            .saved = b->a->saved,
                                            .dx = b->dz,
                                            .activation = b->a->activation,
                                            .slope = b->a->slope};
  if (b->a->activation == LAYEROPS_IDENTITY) {
    layerops_copy_args copy = {.x = b->a->dy, .y = b->dz};
    return lo_cuda_copy(ctx, &copy);
  }
  return lo_cuda_activation_backward(ctx, &args);
}

static layerops_status run_backward(layerops_context *ctx, backward *b, char *memory) {
  const layerops_linear_backward_args *a = b->a;
  if (b->dz_bytes) b->dz.host = memory; /* an address without a buffer of its own */
  if (memory) memory += b->dz_bytes;
  if (b->makes_dz && a->dy.rows && a->dy.cols) LO_TRY(make_dz(ctx, b));
  b->dgrad.a = b->wgrad.a = b->dz;
  const char *kernel = ctx->kernel;
  if (lo_present(&a->dx))
    LO_TRY(lo_cuda_run_product(ctx, &b->dgrad, &b->dgrad_plan, memory, "linear_backward"));
  if (lo_present(&a->dw))
    LO_TRY(lo_cuda_run_product(ctx, &b->wgrad, &b->wgrad_plan, memory, "linear_backward"));
  if (!lo_present(&a->dw) && lo_present(&a->dbias))
    LO_TRY(lo_cuda_column_sum(ctx, &b->column_sum, &b->dz, &a->dbias, &a->beta, memory,
                              "linear_backward"));
  ctx->kernel = kernel;
  return LAYEROPS_OK;
}

/* Both products on a dZ of its own: the call's may be in place over dY. */
static layerops_status tune_products(layerops_context *ctx, backward *b) {
  const layerops_linear_backward_args *a = b->a;
  if (b->makes_dz && a->dy.rows && a->dy.cols) LO_TRY(make_dz(ctx, b));
  if (lo_present(&a->dx)) {
    lo_product_dgrad(a, &b->dz, &b->dgrad);
    LO_TRY(lo_cuda_tune_product(ctx, &b->dgrad));
  }
  if (!lo_present(&a->dw)) return LAYEROPS_OK;
  lo_product_wgrad(a, &b->dz, &b->wgrad);
  return lo_cuda_tune_product(ctx, &b->wgrad);
}

static layerops_status tune_backward(layerops_context *ctx,
                                     const layerops_linear_backward_args *a) {
  backward b = {.a = a, .dz = a->dy, .makes_dz = wants_dz(a)};
  if (!lo_cuda(ctx)->tuning) return LAYEROPS_OK;
  layerops_buffer *buffer = NULL;
  if (b.makes_dz) {
    int64_t bytes = a->dy.rows * a->dy.cols * (int64_t)layerops_type_size(a->dy.type);
    LO_TRY(layerops_buffer_create(ctx, bytes, &buffer));
    b.dz = layerops_matrix_of(buffer, a->dy.type, a->dy.rows, a->dy.cols);
  }
  layerops_status status = tune_products(ctx, &b);
  layerops_buffer_destroy(buffer);
  return status;
}

layerops_status lo_cuda_linear_backward(layerops_context *ctx,
                                        const layerops_linear_backward_args *a) {
  LO_TRY(tune_backward(ctx, a));
  backward b = {.a = a, .dz = lo_present(&a->dz) ? a->dz : a->dy, .makes_dz = wants_dz(a)};
  char *memory;
  LO_TRY(plan_backward(ctx, &b));
  const char *kernel = ctx->kernel;
  LO_TRY(lo_cuda_scratch(ctx, b.bytes, &memory));
  LO_TRY(run_backward(ctx, &b, memory));
  if (*kernel) ctx->kernel = kernel; /* the product's, not dZ's */
  return LAYEROPS_OK;
}
