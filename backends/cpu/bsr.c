/* The block-sparse linear layer: what its products have in common, and the order of the steps. */
#include <config.h>

#include "backends/cpu/bsr.h"
#include "backends/cpu/grouped_product.h"
#include "backends/cpu/span.h"

/* ---- How lines are divided ---- */

int64_t lo_bsr_first_line(const lo_bsr_product *p, int64_t part, int64_t parts) {
  const int32_t *start = lo_bsr_start(p);
  const int64_t lines = lo_bsr_lines(p), all = p->w->count + lines;
  const int64_t before = all / parts * part + all % parts * part / parts;
  int64_t low = 0, high = lines;
  if (part == parts) return lines;
  while (low < high) {
    const int64_t middle = (low + high) / 2;
    if (start[middle] + middle < before)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

bool lo_bsr_divides(const lo_bsr_product *p, int64_t parts) {
  return (lo_bsr_longest(p) + 1) * parts <= p->w->count + lo_bsr_lines(p);
}

/* ---- W in f32 ---- */

/* Values that are multiplied as they are stand where they are; others are copied, with the scale
 * and the gate of their block. */
typedef struct values {
  const lo_isa *isa;
  const layerops_bsr *w;
  const char *from;
  const float *scale, *gate;
  float *to;
  int64_t tasks;
} values;

static bool copies(const layerops_bsr *w, const layerops_matrix *gate) {
  return w->type != LAYEROPS_F32 || lo_present(gate);
}

static void copy_block(const values *v, int64_t block) {
  const int64_t area = v->w->height * v->w->width;
  const float gate = v->gate ? v->gate[block] : 1.0f;
  const float factor = v->scale ? gate * v->scale[block] : gate;
  float *to = v->to + block * area;
  if (gate == 0.0f) {
    memset(to, 0, (size_t)area * sizeof *to);
    return;
  }
  v->isa->load(v->w->type, v->from + block * area * (int64_t)lo_type_bytes(v->w->type), to, area);
  if (factor != 1.0f) v->isa->scale(to, factor, to, area);
}

static void copy_task(void *arg, int64_t task) {
  const values *v = arg;
  int64_t begin, end;
  lo_share(v->w->count, v->tasks, task, &begin, &end);
  for (int64_t block = begin; block < end; block++) copy_block(v, block);
}

static int64_t values_floats(const layerops_bsr *w, const layerops_matrix *gate) {
  return copies(w, gate) ? lo_round_up(w->count * w->height * w->width, 16) : 0;
}

static const float *vector_of(const layerops_matrix *v) {
  return lo_present(v) ? lo_address(v) : NULL;
}

static const float *values_of(layerops_context *ctx, const layerops_bsr *w,
                              const layerops_matrix *gate, float *scratch) {
  const layerops_matrix stored = layerops_bsr_values(w), scales = layerops_bsr_scales(w);
  if (!copies(w, gate)) return lo_address(&stored);
  values v = {.isa = lo_cpu_of(ctx)->isa,
              .w = w,
              .from = lo_address(&stored),
              .scale = vector_of(&scales),
              .gate = vector_of(gate),
              .to = scratch};
  v.tasks = lo_parallel_width(ctx, 0.1 * (double)(w->count * w->height * w->width));
  lo_parallel(ctx, v.tasks, copy_task, &v);
  return scratch;
}

/* ---- A product ---- */

/* Whether features stand in rows; a single sample whose features are neighbours lies the same in
 * both layouts, and is quicker as a row. */
static bool by_features(int32_t layout, uint32_t flags, const layerops_matrix *const views[4]) {
  if (layout != LAYEROPS_FEATURES_BY_ROW) return false;
  if (flags & LAYEROPS_BATCH_INVARIANT) return true;
  for (int i = 0; i < 4; i++)
    if (views[i] && lo_present(views[i]) && (views[i]->cols != 1 || views[i]->stride != 1))
      return true;
  return false;
}

static int64_t samples_of(int32_t layout, const layerops_matrix *v) {
  return layout == LAYEROPS_FEATURES_BY_ROW ? v->cols : v->rows;
}

static const lo_bsr_way *const ways[] = {&lo_bsr_grouped, &lo_bsr_dots, &lo_bsr_features,
                                         &lo_bsr_samples};

static const lo_bsr_way *way_of(layerops_context *ctx, const lo_bsr_product *p) {
  for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
    const lo_kernel *kernel = &ways[i]->kernel;
    const char *reason = kernel->refuses ? kernel->refuses(ctx, p) : NULL;
    if (!reason) return ways[i];
    lo_refused(ctx, kernel->name, reason);
  }
  return NULL; /* the last takes all */
}

/* About what a core takes, packing included. */
static double products_ns(const lo_isa *isa, const layerops_bsr *w, int64_t m) {
  const double sums = (double)w->count * (double)(w->height * w->width);
  return 2 * ((double)m + 16) * sums / isa->product->flops_per_ns +
         0.1 * (double)m * (double)(w->rows + w->cols);
}

/* What does not depend on the scratch. */
static void start(layerops_context *ctx, lo_bsr_product *p, const layerops_bsr *w,
                  const lo_epilogue *epilogue, const layerops_matrix *in,
                  const layerops_matrix *out, const layerops_matrix *gate) {
  p->isa = lo_cpu_of(ctx)->isa;
  p->w = w;
  p->in_features = p->backward ? w->rows : w->cols;
  p->out_features = p->backward ? w->cols : w->rows;
  p->in = lo_plane_of(in, 0);
  p->dot = w->type == LAYEROPS_BF16 && in->type == LAYEROPS_BF16
               ? lo_grouped_choose(ctx, in->type, w->type, p->out_features, p->in_features)
               : NULL;
  p->gate = vector_of(gate);
  lo_finish_of(epilogue, out, &p->finish);
  p->empty = p->finish.alpha == 0.0f;
  if (p->empty || p->in_features == 0) p->finish.alpha = 1.0f;
  p->plain = lo_finish_is_plain(&p->finish);
  p->threads = lo_parallel_width(ctx, products_ns(p->isa, w, p->m));
}

layerops_status lo_cpu_bsr_linear_forward(layerops_context *ctx,
                                          const layerops_bsr_linear_forward_args *a) {
  lo_bsr_product p = {.by_features = by_features(a->layout, a->flags,
                                                 (const layerops_matrix *const[4]){
                                                     &a->x, &a->residual, &a->preact, &a->y}),
                      .invariant = a->flags & LAYEROPS_BATCH_INVARIANT,
                      .m = samples_of(a->layout, &a->x)};
  lo_epilogue epilogue;
  float *scratch;
  lo_epilogue_bsr(a, &epilogue);
  start(ctx, &p, a->w, &epilogue, &a->x, &a->y, &a->gate);
  const lo_bsr_way *way = way_of(ctx, &p);
  const int64_t floats = way->stored ? 0 : values_floats(a->w, &a->gate);
  LO_TRY(lo_scratch(ctx, (floats + way->scratch(&p)) * (int64_t)sizeof(float), &scratch));
  if (!way->stored) p.values = values_of(ctx, a->w, &a->gate, scratch);
  ctx->kernel = way->kernel.name;
  way->run(ctx, &p, scratch + floats);
  return LAYEROPS_OK;
}

/* ---- The backward pass ---- */

/* dZ first, if it is not dY as it stands; then what reads it, one after the other in the same
 * scratch. */
typedef struct backward {
  const layerops_bsr_linear_backward_args *a;
  layerops_matrix dz;
  bool makes_dz;
  lo_bsr_product dgrad;
  const lo_bsr_way *way;
  lo_bsr_gradient wgrad;
  int64_t dz_floats, values_floats, rest; /* of scratch */
} backward;

/* Where dZ will stand: the caller's view, dY, or f32 scratch. */
static void place_dz(backward *b) {
  const layerops_bsr_linear_backward_args *a = b->a;
  b->makes_dz = a->activation != LAYEROPS_IDENTITY || lo_present(&a->dz);
  b->dz = lo_present(&a->dz) ? a->dz : a->dy;
  if (lo_present(&a->dz) || !b->makes_dz) return;
  b->dz = layerops_host_matrix(NULL, LAYEROPS_F32, a->dy.rows, a->dy.cols);
  b->dz_floats = lo_round_up(a->dy.rows * a->dy.cols, 16);
}

static void plan_dgrad(layerops_context *ctx, backward *b) {
  const layerops_bsr_linear_backward_args *a = b->a;
  const lo_epilogue epilogue = {.alpha = layerops_value(1),
                                .beta = layerops_value(0),
                                .saved = a->dx_saved,
                                .derivative = a->dx_activation,
                                .derivative_slope = (float)a->dx_slope.value};
  b->dgrad = (lo_bsr_product){
      .backward = true,
      .by_features = by_features(a->layout, a->flags,
                                 (const layerops_matrix *const[4]){&b->dz, &a->dx, &a->dx_saved}),
      .invariant = a->flags & LAYEROPS_BATCH_INVARIANT,
      .m = samples_of(a->layout, &a->dy)};
  start(ctx, &b->dgrad, a->w, &epilogue, &b->dz, &a->dx, &a->gate);
  b->way = way_of(ctx, &b->dgrad);
  b->values_floats = b->way->stored ? 0 : values_floats(a->w, &a->gate);
  b->rest = lo_most(b->rest, b->way->scratch(&b->dgrad));
}

static void plan_wgrad(layerops_context *ctx, backward *b) {
  const layerops_bsr_linear_backward_args *a = b->a;
  const layerops_matrix stored = layerops_bsr_values(a->w);
  b->wgrad =
      (lo_bsr_gradient){.isa = lo_cpu_of(ctx)->isa,
                        .w = a->w,
                        .by_features = by_features(
                            a->layout, a->flags, (const layerops_matrix *const[4]){&b->dz, &a->x}),
                        .m = samples_of(a->layout, &a->dy),
                        .dz = lo_plane_of(&b->dz, 0),
                        .x = lo_plane_of(&a->x, 0),
                        .values = lo_plane_of(&stored, 0),
                        .dw = lo_plane_of(&a->dw, 0),
                        .gate = vector_of(&a->gate),
                        .dgate = lo_present(&a->dgate) ? lo_address(&a->dgate) : NULL,
                        .beta = (float)lo_scalar(&a->beta)};
  b->wgrad.threads = lo_parallel_width(ctx, products_ns(b->wgrad.isa, a->w, b->wgrad.m));
  b->rest = lo_most(b->rest, lo_bsr_gradient_scratch(&b->wgrad));
}

/* The sum over the samples, whichever way they lie. */
static int64_t bias_floats(const backward *b) {
  return lo_cuts(lo_column_sum_scratch(&b->dz), (int64_t)sizeof(float));
}

static void run_dbias(layerops_context *ctx, const backward *b, float *scratch) {
  const layerops_bsr_linear_backward_args *a = b->a;
  const float beta = (float)lo_scalar(&a->beta);
  if (a->layout == LAYEROPS_FEATURES_BY_ROW)
    lo_row_sum(ctx, &b->dz, beta, &a->dbias);
  else
    lo_column_sum(ctx, &b->dz, beta, &a->dbias, scratch);
}

static void plan(layerops_context *ctx, backward *b) {
  const layerops_bsr_linear_backward_args *a = b->a;
  place_dz(b);
  if (lo_present(&a->dbias)) b->rest = bias_floats(b);
  if (lo_present(&a->dx)) plan_dgrad(ctx, b);
  if (lo_present(&a->dw) || lo_present(&a->dgate)) plan_wgrad(ctx, b);
}

layerops_status lo_cpu_bsr_linear_backward(layerops_context *ctx,
                                           const layerops_bsr_linear_backward_args *a) {
  backward b = {.a = a};
  float *scratch;
  plan(ctx, &b);
  const int64_t floats = b.dz_floats + b.values_floats + b.rest;
  LO_TRY(lo_scratch(ctx, floats * (int64_t)sizeof(float), &scratch));
  float *of_values = scratch + b.dz_floats, *rest = of_values + b.values_floats;
  if (b.dz_floats) {
    b.dz.host = scratch;
    b.dgrad.in = b.wgrad.dz = lo_plane_of(&b.dz, 0);
  }
  if (b.makes_dz)
    lo_derive_matrix(ctx, a->activation, (float)a->slope.value, &a->dy,
                     a->activation == LAYEROPS_IDENTITY ? &a->dy : &a->saved, &b.dz);
  if (lo_present(&a->dbias)) run_dbias(ctx, &b, rest);
  if (lo_present(&a->dx)) {
    if (!b.way->stored) b.dgrad.values = values_of(ctx, a->w, &a->gate, of_values);
    b.way->run(ctx, &b.dgrad, rest);
  }
  if (b.wgrad.w) lo_bsr_gradient_run(ctx, &b.wgrad, rest);
  ctx->kernel = lo_cpu_of(ctx)->isa->name;
  return LAYEROPS_OK;
}
