/* Y = X W^T and dX = dZ W with block-sparse W. */
#include <config.h>

#include "backends/opencl/bsr.h"

enum {
  PANEL_FLOATS = 16 << 20, /* CPU: of the samples that are packed at a time: 64 MiB */
  GROUPS_A_UNIT = 16,      /* enough for balance, few enough to be cheap */
  SKINNY_ROWS = 4          /* more samples pay for packing */
};

static int64_t least(int64_t a, int64_t b) {
  return a < b ? a : b;
}
static int64_t most(int64_t a, int64_t b) {
  return a > b ? a : b;
}

static bool on_cpu(layerops_context *ctx) {
  return lo_cl_of(ctx)->device->class.vector > 1;
}

/* What both classes of devices are told. */
static lo_cl_bsr describe(const lo_cl_bsr_lines *s) {
  const layerops_bsr *w = s->w;
  lo_cl_bsr p = {.epilogue = lo_cl_epilogue_of(&s->epilogue, &s->out),
                 .in = lo_cl_bsr_samples(&s->in, s->features_by_row),
                 .w = {.across = s->backward ? 1 : w->width,
                       .along = s->backward ? w->width : 1,
                       .batch_stride = w->height * w->width,
                       .type = w->type},
                 .inputs = s->backward ? w->rows : w->cols,
                 .outputs = s->backward ? w->cols : w->rows,
                 .width = s->backward ? w->width : w->height,
                 .depth = s->backward ? w->height : w->width,
                 .gate = lo_present(&s->gate) ? s->gate.offset : -1,
                 .backward = s->backward,
                 .scaled = w->scales != NULL};
  p.epilogue.features_by_row = s->features_by_row;
  p.depth_log2 = lo_cl_bsr_log2(p.depth);
  return p;
}

static void give_pattern(lo_cl_launch *l, const lo_cl_bsr_lines *s) {
  const layerops_bsr *w = s->w;
  lo_cl_memory(l, s->backward ? w->col_start : w->row_start);
  lo_cl_memory(l, s->backward ? w->row : w->column);
  lo_cl_memory(l, s->backward ? w->place : NULL);
}

/* ---- CPU devices: few samples, as they stand ---- */

static bool skinny(layerops_context *ctx, const lo_cl_bsr_lines *s, const lo_cl_bsr *p) {
  return !s->backward && !s->features_by_row && !(s->flags & LAYEROPS_BATCH_INVARIANT) &&
         p->in.count <= SKINNY_ROWS && p->depth % lo_cl_of(ctx)->device->class.vector == 0;
}

static layerops_status run_skinny(layerops_context *ctx, const lo_cl_bsr_lines *s,
                                  const lo_cl_bsr *p) {
  const int rows = p->in.count > 1 ? 2 : 1, number[LO_CL_NUMBERS] = {rows};
  lo_cl_launch l = lo_cl_start(ctx, LO_CL_BSR_SKINNY, number, "lines");
  ctx->kernel = "opencl_cpu_bsr_skinny";
  lo_cl_view_memory(&l, &s->in);
  lo_cl_memory(&l, s->w->values);
  lo_cl_memory(&l, s->w->scales);
  lo_cl_view_memory(&l, &s->gate);
  lo_cl_memory(&l, s->w->row_start);
  lo_cl_memory(&l, s->w->column);
  lo_cl_targets(&l, &s->epilogue, &s->out);
  lo_cl_bytes(&l, sizeof *p, p);
  return lo_cl_run(&l, 1, lo_cl_ceil(p->outputs, lo_cl_of(ctx)->device->class.vector),
                   lo_cl_ceil(p->in.count, rows), 1);
}

/* ---- CPU devices: samples are packed, piece by piece, and W's values made f32 where they are not
 * ---- */

typedef struct pieces {
  int vectors, samples; /* of a panel */
  int64_t count;        /* samples of a piece: whole panels */
  bool widens;
  int64_t panel_bytes, value_bytes;
} pieces;

static pieces cut(layerops_context *ctx, const lo_cl_bsr_lines *s, const lo_cl_bsr *p) {
  const int vector = lo_cl_of(ctx)->device->class.vector;
  pieces c = {.vectors = p->in.count > vector ? 2 : 1};
  c.samples = c.vectors * vector;
  const int64_t panel = most(1, p->inputs * c.samples);
  const int64_t panels = least(lo_cl_ceil(p->in.count, c.samples), most(1, PANEL_FLOATS / panel));
  c.count = panels * c.samples;
  c.widens = s->w->type != LAYEROPS_F32 || p->gate >= 0;
  c.panel_bytes = lo_cl_round(panels * panel * (int64_t)sizeof(cl_float));
  if (c.widens) c.value_bytes = s->w->count * p->w.batch_stride * (int64_t)sizeof(cl_float);
  return c;
}

static layerops_status run_piece(layerops_context *ctx, const lo_cl_bsr_lines *s, const pieces *c,
                                 const lo_cl_bsr *whole, int64_t first, lo_cl_region panels,
                                 lo_cl_region values) {
  const lo_cl_device *d = lo_cl_of(ctx)->device;
  lo_cl_bsr p = *whole;
  p.in.offset += first * p.in.across;
  p.in.count = least(c->count, whole->in.count - first);
  const lo_cl_pack pack = {.from = p.in, .k = p.inputs};
  if (p.inputs) LO_TRY(lo_cl_cpu_pack(ctx, c->samples, &s->in, &pack, 1, panels));
  const int64_t across = lo_cl_ceil(p.outputs, d->class.vector);
  const int64_t count = lo_cl_ceil(p.in.count, c->samples);
  p.first = first;
  p.in.offset = panels.offset / (int64_t)sizeof(cl_float);
  p.w.offset = values.offset / (int64_t)sizeof(cl_float);
  p.pieces = most(1, least(across, across * count / (GROUPS_A_UNIT * d->units)));
  const int number[LO_CL_NUMBERS] = {c->vectors, s->backward};
  lo_cl_launch l = lo_cl_start(ctx, LO_CL_BSR_CPU, number, "lines");
  lo_cl_memory(&l, panels.buffer);
  lo_cl_memory(&l, values.buffer);
  lo_cl_view_memory(&l, &s->gate);
  give_pattern(&l, s);
  lo_cl_targets(&l, &s->epilogue, &s->out);
  lo_cl_bytes(&l, sizeof p, &p);
  return lo_cl_run(&l, 1, lo_cl_ceil(across, p.pieces), count, 1);
}

static layerops_status run_cpu(layerops_context *ctx, const lo_cl_bsr_lines *s,
                               lo_cl_region region) {
  const lo_cl_bsr p = describe(s);
  const pieces c = cut(ctx, s, &p);
  lo_cl_region values = {s->w->values, 0};
  if (skinny(ctx, s, &p)) return run_skinny(ctx, s, &p);
  ctx->kernel = "opencl_cpu_bsr";
  if (c.widens) {
    values = (lo_cl_region){region.buffer, region.offset + c.panel_bytes};
    LO_TRY(lo_cl_bsr_widen(ctx, s->w, &s->gate, values));
  }
  for (int64_t first = 0; first < p.in.count; first += c.count)
    LO_TRY(run_piece(ctx, s, &c, &p, first, region, values));
  return LAYEROPS_OK;
}

/* ---- GPUs ---- */

/* By columns, and then the larger first. */
static const lo_cl_bsr_tile tiles[] = {{128, 64, 8, 4}, {32, 64, 4, 4},  {128, 32, 8, 4},
                                       {32, 32, 4, 4},  {128, 16, 8, 4}, {32, 16, 4, 2},
                                       {128, 8, 4, 4},  {32, 8, 2, 2}};
enum { TILES = sizeof tiles / sizeof *tiles };

/* The widest that divides a line, and is one of many enough to keep the device busy. */
static const lo_cl_bsr_tile *choose(const lo_cl_device *d, const lo_cl_bsr *p) {
  const lo_cl_bsr_tile *chosen = NULL;
  for (int i = 0; i < TILES; i++) {
    const lo_cl_bsr_tile *t = &tiles[i];
    if (t->cols > p->width || (chosen && t->cols < chosen->cols) || !lo_cl_bsr_fits(d, t)) continue;
    chosen = t;
    if (lo_cl_ceil(p->in.count, t->rows) * lo_cl_ceil(p->outputs, t->cols) >= d->units) break;
  }
  return chosen;
}

static layerops_status run_gpu(layerops_context *ctx, const lo_cl_bsr_lines *s) {
  const lo_cl_device *d = lo_cl_of(ctx)->device;
  lo_cl_bsr p = describe(s);
  const lo_cl_bsr_tile *t = choose(d, &p);
  const int64_t piece = (int64_t)LO_CL_BSR_GROUPS;
  ctx->kernel = "opencl_gpu_bsr";
  if (!t) return lo_cl_bsr_none_fits(d);
  const int number[LO_CL_NUMBERS] = {t->rows, t->cols, t->item_rows, t->item_cols,
                                     p.in.type * 16 + p.w.type};
  for (; p.first < p.in.count; p.first += piece * t->rows) {
    lo_cl_launch l = lo_cl_start(ctx, LO_CL_BSR_GPU, number, "lines");
    lo_cl_view_memory(&l, &s->in);
    lo_cl_memory(&l, s->w->values);
    lo_cl_memory(&l, s->w->scales);
    lo_cl_view_memory(&l, &s->gate);
    give_pattern(&l, s);
    lo_cl_targets(&l, &s->epilogue, &s->out);
    lo_cl_local(&l, lo_cl_bsr_local(t), sizeof(cl_float));
    lo_cl_local(&l, LO_CL_BSR_LOOK, sizeof(lo_cl_bsr_step));
    lo_cl_bytes(&l, sizeof p, &p);
    LO_TRY(lo_cl_run(&l, lo_cl_bsr_items(t), lo_cl_ceil(p.outputs, t->cols),
                     least(piece, lo_cl_ceil(p.in.count - p.first, t->rows)), 1));
  }
  return LAYEROPS_OK;
}

int64_t lo_cl_bsr_lines_scratch(layerops_context *ctx, const lo_cl_bsr_lines *s) {
  if (!on_cpu(ctx)) return 0;
  const lo_cl_bsr p = describe(s);
  const pieces c = cut(ctx, s, &p);
  return skinny(ctx, s, &p) ? 0 : c.panel_bytes + c.value_bytes;
}

layerops_status lo_cl_bsr_lines_run(layerops_context *ctx, const lo_cl_bsr_lines *s,
                                    lo_cl_region region) {
  return on_cpu(ctx) ? run_cpu(ctx, s, region) : run_gpu(ctx, s);
}
