/* Which kernel multiplies, and the kernels that need no scratch memory. */
#include <config.h>

#include "backends/opencl/product.h"

/* A kernel that multiplies; `tile` is BM, BN, TM, TN of those on GPUs. */
typedef struct lo_cl_product_kernel {
  lo_kernel entry;
  layerops_status (*run)(layerops_context *ctx, const lo_cl_plan *plan, lo_cl_region region);
  int64_t (*scratch)(layerops_context *ctx, const lo_product *p);
  int tile[4];
} lo_cl_product_kernel;

enum {
  PAD = 1,           /* as in loop_gpu.cl */
  GRID_LIMIT = 32768 /* groups along y and z: NVIDIA's limit is 65535 */
};

/* ---- What kernels are given ---- */

static lo_cl_operand operand(const layerops_matrix *m, int across_rows, int64_t count,
                             int64_t batch) {
  return (lo_cl_operand){.offset = m->offset,
                         .across = across_rows ? m->stride : 1,
                         .along = across_rows ? 1 : m->stride,
                         .batch_stride = m->batch == 1 || batch == 1 ? 0 : m->batch_stride,
                         .count = count,
                         .type = m->type};
}

lo_cl_operand lo_cl_operand_a(const lo_product *p) {
  return operand(&p->a, !p->trans_a, p->m, p->batch);
}
lo_cl_operand lo_cl_operand_b(const lo_product *p) {
  return operand(&p->b, p->trans_b, p->n, p->batch);
}

int64_t lo_cl_depth(const lo_product *p) {
  const layerops_scalar *alpha = &p->epilogue.alpha;
  return alpha->kind == 1 && alpha->value == 0 ? 0 : p->k;
}

lo_cl_epilogue lo_cl_epilogue_of(const lo_epilogue *e, const layerops_matrix *c) {
  return (lo_cl_epilogue){.alpha = lo_cl_scalar_of(&e->alpha),
                          .beta = lo_cl_scalar_of(&e->beta),
                          .c = lo_cl_view_of(c),
                          .bias = lo_cl_view_of(&e->bias),
                          .preact = lo_cl_view_of(&e->preact),
                          .residual = lo_cl_view_of(&e->residual),
                          .saved = lo_cl_view_of(&e->saved),
                          .activation = e->activation,
                          .derivative = e->derivative,
                          .slope = e->slope,
                          .derivative_slope = e->derivative_slope};
}

void lo_cl_targets(lo_cl_launch *l, const lo_epilogue *e, const layerops_matrix *c) {
  lo_cl_view_memory(l, c);
  lo_cl_scalar_memory(l, &e->alpha);
  lo_cl_scalar_memory(l, &e->beta);
  lo_cl_view_memory(l, &e->bias);
  lo_cl_view_memory(l, &e->preact);
  lo_cl_view_memory(l, &e->residual);
  lo_cl_view_memory(l, &e->saved);
}

/* ---- Kernels on the operands as they lie: a grid of tiles, in pieces where it is too large ----
 */

typedef struct grid {
  lo_cl_source source;
  const int *number;
  int group;
  int64_t rows, cols; /* of a tile; 0: an item for each vector */
} grid;

static layerops_status run_piece(layerops_context *ctx, const lo_product *p, const grid *g,
                                 const lo_cl_product *params, int64_t batches) {
  int vector = lo_cl_of(ctx)->device->class.vector;
  lo_cl_launch l = lo_cl_start(ctx, g->source, g->number, "product");
  lo_cl_view_memory(&l, &p->a);
  lo_cl_view_memory(&l, &p->b);
  lo_cl_targets(&l, &p->epilogue, &p->c);
  if (g->source == LO_CL_PRODUCT_GPU)
    lo_cl_local(&l, lo_cl_gpu_local(g->rows, g->cols), sizeof(cl_float));
  lo_cl_bytes(&l, sizeof *params, params);
  if (!g->rows) {
    int64_t items = p->m * lo_cl_ceil(params->b.count, vector);
    return lo_cl_run(&l, g->group, lo_cl_ceil(items, g->group), 1, batches);
  }
  return lo_cl_run(&l, g->group, lo_cl_ceil(p->m, g->rows), lo_cl_ceil(params->b.count, g->cols),
                   batches);
}

static int64_t least(int64_t a, int64_t b) {
  return a < b ? a : b;
}

static layerops_status run_grid(layerops_context *ctx, const lo_product *p, const grid *g) {
  int64_t width = g->cols ? g->cols * GRID_LIMIT : p->n;
  lo_cl_operand a = lo_cl_operand_a(p), b = lo_cl_operand_b(p);
  for (int64_t l = 0; l < p->batch; l += GRID_LIMIT)
    for (int64_t j = 0; j < p->n; j += width) {
      lo_cl_product params = {.epilogue = lo_cl_epilogue_of(&p->epilogue, &p->c),
                              .a = a,
                              .b = b,
                              .k = lo_cl_depth(p),
                              .col = j,
                              .batch = l};
      if (!params.k) params.epilogue.alpha = (lo_cl_scalar){-1, 0, 0};
      params.a.offset += l * a.batch_stride;
      params.b.offset += l * b.batch_stride + j * b.across;
      params.b.count = least(width, p->n - j);
      LO_TRY(run_piece(ctx, p, g, &params, least(GRID_LIMIT, p->batch - l)));
    }
  return LAYEROPS_OK;
}

static layerops_status run_gpu(layerops_context *ctx, const lo_cl_plan *plan, lo_cl_region region) {
  (void)region;
  const lo_product *p = plan->product;
  const int *t = plan->kernel->tile;
  int kind = p->a.type * 4 + !p->trans_a * 2 + p->trans_b;
  int number[LO_CL_NUMBERS] = {t[0], t[1], t[2], t[3], kind};
  grid g = {LO_CL_PRODUCT_GPU, number, t[0] / t[2] * (t[1] / t[3]), t[0], t[1]};
  return run_grid(ctx, p, &g);
}

/* 4 x 4 as in product_skinny.cl. */
static layerops_status run_skinny(layerops_context *ctx, const lo_cl_plan *plan,
                                  lo_cl_region region) {
  (void)region;
  grid g = {LO_CL_PRODUCT_SKINNY, NULL, 1, 4, 4};
  return run_grid(ctx, plan->product, &g);
}

static layerops_status run_plain(layerops_context *ctx, const lo_cl_plan *plan,
                                 lo_cl_region region) {
  (void)region;
  grid g = {LO_CL_PRODUCT_PLAIN, NULL, lo_cl_of(ctx)->device->class.group, 0, 0};
  return run_grid(ctx, plan->product, &g);
}

static int64_t no_scratch(layerops_context *ctx, const lo_product *p) {
  (void)ctx, (void)p;
  return 0;
}

int64_t lo_cl_gpu_local(int64_t rows, int64_t cols) {
  int64_t panels = LO_CL_GPU_DEPTH * (rows + PAD + cols + PAD), staged = rows * cols;
  return panels > staged ? panels : staged;
}

/* ---- The list ---- */

/* What a refusal needs to know. */
typedef struct question {
  const lo_product *p;
  int64_t more;
} question;

static const char *refuse_cpu(layerops_context *ctx, const void *problem) {
  const question *q = problem;
  const lo_cl_device *d = lo_cl_of(ctx)->device;
  if (d->class.vector == 1) return "the device is not a CPU";
  int64_t bytes = lo_cl_cpu_scratch(ctx, q->p) + q->more;
  if (ctx->args.workspace && bytes > ctx->args.workspace->bytes)
    return "the workspace is too small";
  return bytes > d->largest_buffer ? "its panels are larger than a buffer may be" : NULL;
}

static const char *refuse_gpu(const lo_cl_device *d, const int *tile) {
  if (d->class.vector != 1) return "the device is not a GPU";
  if (lo_cl_gpu_local(tile[0], tile[1]) * (int64_t)sizeof(float) > d->local_memory)
    return "the device has too little local memory";
  return tile[0] / tile[2] * (tile[1] / tile[3]) > d->largest_group ? "its groups are too large"
                                                                    : NULL;
}

static const int large_tile[4] = {128, 64, 8, 4}, small_tile[4] = {32, 32, 2, 2};

static const char *refuse_large(layerops_context *ctx, const void *problem) {
  const lo_product *p = ((const question *)problem)->p;
  const lo_cl_device *d = lo_cl_of(ctx)->device;
  int64_t tiles = lo_cl_ceil(p->m, large_tile[0]) * lo_cl_ceil(p->n, large_tile[1]);
  if (tiles < lo_cl_ceil(d->units, p->batch)) return "it has fewer tiles than the device has units";
  return refuse_gpu(d, large_tile);
}

static const char *refuse_small(layerops_context *ctx, const void *problem) {
  (void)problem;
  return refuse_gpu(lo_cl_of(ctx)->device, small_tile);
}

/* Packing W costs a pass over it that more rows than these pay for. */
enum { SKINNY_ROWS = 12 };

static const char *refuse_skinny(layerops_context *ctx, const void *problem) {
  const lo_product *p = ((const question *)problem)->p;
  if (lo_cl_of(ctx)->device->class.vector == 1) return "the device is not a CPU";
  if (p->trans_a || !p->trans_b) return "its operands do not both lie along k";
  if (p->flags & LAYEROPS_BATCH_INVARIANT) return "the call asks for batch invariance";
  return p->m > SKINNY_ROWS ? "it has many rows" : NULL;
}

static const lo_cl_product_kernel kernels[] = {
    {{"opencl_cpu_skinny", refuse_skinny}, run_skinny, no_scratch, {0}},
    {{"opencl_cpu_packed", refuse_cpu}, lo_cl_cpu_product, lo_cl_cpu_scratch, {0}},
    {{"opencl_gpu_128x64", refuse_large}, run_gpu, no_scratch, {128, 64, 8, 4}},
    {{"opencl_gpu_32x32", refuse_small}, run_gpu, no_scratch, {32, 32, 2, 2}},
    {{"opencl_plain", NULL}, run_plain, no_scratch, {0}},
};

layerops_status lo_cl_plan_product(layerops_context *ctx, const lo_product *p, int64_t more,
                                   lo_cl_plan *plan) {
  question q = {p, more};
  plan->product = p;
  plan->kernel = LO_SELECT(ctx, kernels, &q);
  plan->scratch = plan->kernel->scratch(ctx, p);
  return LAYEROPS_OK;
}

layerops_status lo_cl_run_plan(layerops_context *ctx, const lo_cl_plan *plan, lo_cl_region region) {
  return plan->kernel->run(ctx, plan, region);
}

/* ---- gemm, linear_forward ---- */

static layerops_status run(layerops_context *ctx, const lo_product *p) {
  lo_cl_plan plan;
  lo_cl_region region = {0};
  LO_TRY(lo_cl_plan_product(ctx, p, 0, &plan));
  if (plan.scratch) LO_TRY(lo_workspace(ctx, plan.scratch, &region.buffer));
  return lo_cl_run_plan(ctx, &plan, region);
}

layerops_status lo_cl_gemm(layerops_context *ctx, const layerops_gemm_args *args) {
  lo_product p;
  lo_product_gemm(args, &p);
  return run(ctx, &p);
}

layerops_status lo_cl_linear_forward(layerops_context *ctx,
                                     const layerops_linear_forward_args *args) {
  lo_product p;
  lo_product_linear(args, &p);
  return run(ctx, &p);
}
