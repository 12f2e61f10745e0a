/* dW and dgate of block-sparse layers. */
#include <config.h>

#include "backends/opencl/bsr.h"

enum { PANEL_FLOATS = 32 << 20 }; /* CPU: of the samples that are packed at a time: 128 MiB */

static int64_t least(int64_t a, int64_t b) {
  return a < b ? a : b;
}
static int64_t most(int64_t a, int64_t b) {
  return a > b ? a : b;
}

/* Features of samples: across from one feature to the next, along the samples. */
static lo_cl_operand features(const layerops_matrix *view, bool features_by_row) {
  return lo_cl_bsr_samples(view, !features_by_row);
}

/* What both classes of devices are told; sums in scratch memory where dgate needs them. */
static lo_cl_bsr_gradient describe(const lo_cl_bsr_wgrad *g, const lo_epilogue *e) {
  const layerops_bsr *w = g->w;
  lo_cl_bsr_gradient p = {.epilogue = lo_cl_epilogue_of(e, &g->dw),
                          .dz = features(&g->dz, g->features_by_row),
                          .x = features(&g->x, g->features_by_row),
                          .m = g->features_by_row ? g->dz.cols : g->dz.rows,
                          .height = w->height,
                          .width = w->width,
                          .block_rows = w->block_rows,
                          .gate = lo_present(&g->gate) ? g->gate.offset : -1,
                          .sums = -1,
                          .begins = 1,
                          .ends = 1,
                          .width_log2 = lo_cl_bsr_log2(w->width)};
  return p;
}

/* Units of `rows` by `cols`. */
static void divide(lo_cl_bsr_gradient *p, int64_t rows, int64_t cols) {
  p->blocks = most(1, cols / p->width);
  p->blocks_log2 = lo_cl_bsr_log2(p->blocks);
  p->row_parts = lo_cl_ceil(p->height, rows);
  p->col_parts = lo_cl_ceil(p->width, cols);
}

static int64_t units(const lo_cl_bsr_wgrad *g, const lo_cl_bsr_gradient *p) {
  return g->w->count / p->blocks + p->block_rows;
}

static void give_operands(lo_cl_launch *l, const lo_cl_bsr_wgrad *g, const lo_epilogue *e,
                          lo_cl_region sums) {
  lo_cl_memory(l, g->w->row_start);
  lo_cl_memory(l, g->w->column);
  lo_cl_view_memory(l, &g->gate);
  lo_cl_memory(l, sums.buffer);
  lo_cl_targets(l, e, &g->dw);
}

/* ---- CPU devices: features are packed, some samples at a time ---- */

typedef struct pieces {
  int64_t samples; /* of a piece */
  int64_t z_bytes, x_bytes, sum_bytes;
} pieces;

static int64_t sum_bytes(const lo_cl_bsr_wgrad *g) {
  return g->w->count * g->w->height * g->w->width * (int64_t)sizeof(cl_float);
}

static pieces cut(const lo_cl_bsr_wgrad *g) {
  const layerops_bsr *w = g->w;
  const int64_t z = w->block_rows * w->height, x = w->block_cols * w->width;
  const int64_t m = g->features_by_row ? g->dz.cols : g->dz.rows;
  pieces c = {.samples = least(m, most(1, PANEL_FLOATS / (z + x)))};
  c.z_bytes = lo_cl_round(z * c.samples * (int64_t)sizeof(cl_float));
  c.x_bytes = lo_cl_round(x * c.samples * (int64_t)sizeof(cl_float));
  if (c.samples < m || lo_present(&g->dgate)) c.sum_bytes = sum_bytes(g);
  return c;
}

static layerops_status pack(layerops_context *ctx, const layerops_matrix *m, lo_cl_operand *from,
                            int64_t width, int64_t first, int64_t count, lo_cl_region to) {
  lo_cl_pack p = {.from = *from, .k = count};
  p.from.offset += first * p.from.along;
  from->offset = to.offset / (int64_t)sizeof(cl_float);
  return count ? lo_cl_cpu_pack(ctx, (int)width, m, &p, 1, to) : LAYEROPS_OK;
}

static layerops_status run_piece(layerops_context *ctx, const lo_cl_bsr_wgrad *g, const pieces *c,
                                 int64_t first, lo_cl_region region) {
  const lo_cl_class *class = &lo_cl_of(ctx)->device->class;
  const lo_epilogue e = {.alpha = layerops_value(1), .beta = g->beta};
  const lo_cl_region x = {region.buffer, region.offset + c->z_bytes};
  const lo_cl_region sums = {region.buffer, x.offset + c->x_bytes};
  lo_cl_bsr_gradient p = describe(g, &e);
  const int64_t m = p.m, vectors = 2;
  p.m = least(c->samples, m - first);
  p.begins = first == 0;
  p.ends = first + p.m == m;
  if (c->sum_bytes) p.sums = sums.offset / (int64_t)sizeof(cl_float);
  divide(&p, p.height, vectors * class->vector);
  LO_TRY(pack(ctx, &g->dz, &p.dz, p.height, first, p.m, region));
  LO_TRY(pack(ctx, &g->x, &p.x, p.width, first, p.m, x));
  const int number[LO_CL_NUMBERS] = {(int)vectors, (int)least(class->vector, p.width)};
  lo_cl_launch l = lo_cl_start(ctx, LO_CL_BSR_WGRAD_CPU, number, "wgrad");
  lo_cl_memory(&l, region.buffer);
  lo_cl_memory(&l, region.buffer);
  give_operands(&l, g, &e, sums);
  lo_cl_bytes(&l, sizeof p, &p);
  return lo_cl_run(&l, 1, units(g, &p) * p.col_parts, 1, 1);
}

static layerops_status run_cpu(layerops_context *ctx, const lo_cl_bsr_wgrad *g, lo_cl_region region,
                               lo_cl_region *sums) {
  const pieces c = cut(g);
  const int64_t m = g->features_by_row ? g->dz.cols : g->dz.rows;
  int64_t first = 0;
  ctx->kernel = "opencl_cpu_bsr_wgrad";
  *sums = (lo_cl_region){region.buffer, region.offset + c.z_bytes + c.x_bytes};
  do {
    LO_TRY(run_piece(ctx, g, &c, first, region));
    first += c.samples;
  } while (first < m);
  return LAYEROPS_OK;
}

/* ---- GPUs: samples in parts where units are few ---- */

enum {
  LEAST_PART = 128, /* samples */
  MOST_PARTS = 8,
  ITEMS_A_UNIT = 1024 /* that keep it busy */
};

static const lo_cl_bsr_tile tiles[] = {
    {64, 64, 8, 4}, {32, 64, 8, 4}, {16, 64, 4, 4}, {8, 64, 4, 2}};
enum { TILES = sizeof tiles / sizeof *tiles };

static const lo_cl_bsr_tile *choose(const lo_cl_device *d, const layerops_bsr *w) {
  for (int i = 0; i < TILES; i++)
    if (tiles[i].rows <= w->height && lo_cl_bsr_fits(d, &tiles[i])) return &tiles[i];
  return NULL;
}

/* Everything but where sums stand. */
static lo_cl_bsr_gradient plan(const lo_cl_device *d, const lo_cl_bsr_wgrad *g,
                               const lo_epilogue *e, const lo_cl_bsr_tile *t) {
  lo_cl_bsr_gradient p = describe(g, e);
  divide(&p, t->rows, t->cols);
  const int64_t items =
      most(1, units(g, &p) * p.row_parts * p.col_parts) * (int64_t)lo_cl_bsr_items(t);
  const int64_t wanted = least(ITEMS_A_UNIT * (int64_t)d->units / items, p.m / LEAST_PART);
  p.samples = lo_cl_ceil(most(1, p.m), most(1, least(MOST_PARTS, wanted)));
  p.samples = lo_cl_ceil(p.samples, LO_CL_GPU_DEPTH) * LO_CL_GPU_DEPTH;
  p.parts = most(1, lo_cl_ceil(p.m, p.samples));
  p.part = g->w->count * p.height * p.width;
  p.ends = p.parts == 1;
  return p;
}

static int64_t gpu_scratch(const lo_cl_device *d, const lo_cl_bsr_wgrad *g) {
  const lo_epilogue e = {.alpha = layerops_value(1), .beta = g->beta};
  const lo_cl_bsr_tile *t = choose(d, g->w);
  if (!t) return 0;
  const int64_t parts = plan(d, g, &e, t).parts;
  return parts > 1 || lo_present(&g->dgate) ? parts * sum_bytes(g) : 0;
}

static layerops_status run_gpu(layerops_context *ctx, const lo_cl_bsr_wgrad *g, lo_cl_region sums) {
  const lo_cl_device *d = lo_cl_of(ctx)->device;
  const lo_epilogue e = {.alpha = layerops_value(1), .beta = g->beta};
  const lo_cl_bsr_tile *t = choose(d, g->w);
  ctx->kernel = "opencl_gpu_bsr_wgrad";
  if (!t) return lo_cl_bsr_none_fits(d);
  lo_cl_bsr_gradient p = plan(d, g, &e, t);
  if (p.parts > 1 || lo_present(&g->dgate)) p.sums = sums.offset / (int64_t)sizeof(cl_float);
  const int group = lo_cl_bsr_items(t);
  const int number[LO_CL_NUMBERS] = {t->rows, t->cols, t->item_rows, t->item_cols, p.dz.type * 4};
  lo_cl_launch l = lo_cl_start(ctx, LO_CL_BSR_WGRAD_GPU, number, "wgrad");
  lo_cl_view_memory(&l, &g->dz);
  lo_cl_view_memory(&l, &g->x);
  give_operands(&l, g, &e, sums);
  lo_cl_local(&l, lo_cl_bsr_local(t), sizeof(cl_float));
  lo_cl_local(&l, t->cols, sizeof(cl_long));
  lo_cl_bytes(&l, sizeof p, &p);
  LO_TRY(lo_cl_run(&l, group, units(g, &p) * p.row_parts * p.col_parts, p.parts, 1));
  if (p.parts == 1) return LAYEROPS_OK;
  l = lo_cl_start(ctx, LO_CL_BSR_WGRAD_GPU, number, "finish");
  give_operands(&l, g, &e, sums);
  lo_cl_bytes(&l, sizeof p, &p);
  return lo_cl_run(&l, group, g->w->count, 1, 1);
}

int64_t lo_cl_bsr_wgrad_scratch(layerops_context *ctx, const lo_cl_bsr_wgrad *g) {
  const lo_cl_device *d = lo_cl_of(ctx)->device;
  if (d->class.vector == 1) return gpu_scratch(d, g);
  const pieces c = cut(g);
  return c.z_bytes + c.x_bytes + c.sum_bytes;
}

layerops_status lo_cl_bsr_wgrad_run(layerops_context *ctx, const lo_cl_bsr_wgrad *g,
                                    lo_cl_region region) {
  lo_cl_region sums = region;
  LO_TRY(lo_cl_of(ctx)->device->class.vector > 1 ? run_cpu(ctx, g, region, &sums)
                                                 : run_gpu(ctx, g, sums));
  return lo_present(&g->dgate) ? lo_cl_bsr_gates(ctx, g, sums) : LAYEROPS_OK;
}
