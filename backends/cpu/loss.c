/* Losses: what a unit of rows adds up to is kept apart, and the units are summed in their order. */
#include <config.h>

#include <math.h>

#include "backends/cpu/rows.h"
#include "common/door.h"

typedef struct partial {
  double loss;
  int64_t correct;
} partial;

static layerops_status new_partials(layerops_context *ctx, const lo_grid *grid, partial **list) {
  float *scratch;
  LO_TRY(lo_scratch(ctx, grid->units * (int64_t)sizeof(partial), &scratch));
  *list = (partial *)(void *)scratch;
  return LAYEROPS_OK;
}

static partial total(const partial *list, const lo_grid *grid) {
  partial sum = {0, 0};
  for (int64_t u = 0; u < grid->units; u++) {
    sum.loss += list[u].loss;
    sum.correct += list[u].correct;
  }
  return sum;
}

/* ---- Cross-entropy ---- */

typedef struct job {
  const lo_isa *isa;
  lo_plane logits, probabilities, dlogits;
  const int32_t *labels;
  float *losses;
  int64_t n, ignore;
  float scale; /* of the gradient, the mean included */
  bool wants_correct;
  partial *partials;
} job;

/* Where the largest element of a row first stands, NaN being the largest; -1 in an empty row. */
static int64_t largest_at(const lo_isa *isa, const lo_plane *x, int64_t i, int64_t n) {
  float copy[LO_SPAN], most = 0;
  int64_t at = -1;
  for (int64_t j = 0; j < n; j += LO_SPAN) {
    int64_t length = n - j < LO_SPAN ? n - j : LO_SPAN, l = 0;
    const float *v = lo_get(isa, x, i, j, length, copy);
    if (isa->any_nan(v, length)) {
      while (v[l] == v[l]) l++;
      return j + l;
    }
    float here = isa->maximum(v, length);
    if (at >= 0 && here <= most) continue;
    while (v[l] != here) l++;
    at = j + l;
    most = here;
  }
  return at;
}

static float logit(const job *w, int64_t i, int64_t j) {
  float copy[1];
  return *lo_get(w->isa, &w->logits, i, j, 1, copy);
}

/* The loss of a row with probabilities, and their sum. */
static float cross(const job *w, const lo_row *row, int64_t i, float *mass) {
  float x_copy[LO_SPAN], p_copy[LO_SPAN], lanes[16] = {0}, masses[16] = {0};
  for (int64_t j = 0; j < w->n; j += LO_SPAN) {
    int64_t length = w->n - j < LO_SPAN ? w->n - j : LO_SPAN;
    const float *p = lo_get(w->isa, &w->probabilities, i, j, length, p_copy);
    const float *x = lo_get(w->isa, &w->logits, i, j, length, x_copy);
    w->isa->cross(x, p, row->largest, row->log_sum, lanes, masses, length);
  }
  *mass = lo_fold(masses);
  return lo_fold(lanes);
}

/* scale * (mass * softmax - truth), span by span; `exps` as lo_row_look left them. */
static void gradient(const job *w, const lo_row *row, int64_t i, int64_t label, float mass,
                     float *exps) {
  float p_copy[LO_SPAN], out[LO_SPAN];
  const float each = mass / row->sum;
  for (int64_t j = 0; j < w->n; j += LO_SPAN) {
    int64_t length = w->n - j < LO_SPAN ? w->n - j : LO_SPAN;
    float *d = lo_out(&w->dlogits, i, j, out);
    if (w->n > LO_SPAN) lo_row_exps(w->isa, &w->logits, row, i, j, length, exps);
    if (w->labels) {
      w->isa->scale(exps, w->scale * each, d, length);
      if (label >= j && label < j + length)
        d[label - j] = w->scale * (exps[label - j] * each - 1.0f);
    } else {
      const float *p = lo_get(w->isa, &w->probabilities, i, j, length, p_copy);
      w->isa->blend(exps, w->scale * each, p, w->scale, d, length);
    }
    lo_put(w->isa, &w->dlogits, i, j, d, length);
  }
}

static void zero_row(const job *w, int64_t i) {
  char *row = lo_element(&w->dlogits, i, 0);
  memset(row, 0, (size_t)w->n * layerops_type_size(w->dlogits.type));
}

static void run_row(const job *w, int64_t i, partial *sum) {
  float exps[LO_SPAN], mass = 1, loss = 0;
  const int64_t label = w->labels ? w->labels[i] : -1;
  if (w->labels && label == w->ignore) {
    if (w->dlogits.base) zero_row(w, i);
    if (w->losses) w->losses[i] = 0;
    return;
  }
  lo_row row = lo_row_look(w->isa, &w->logits, i, w->n, exps, false);
  if (w->labels)
    loss = row.log_sum - (logit(w, i, label) - row.largest);
  else
    loss = cross(w, &row, i, &mass);
  if (w->wants_correct) {
    int64_t truth = w->labels ? label : largest_at(w->isa, &w->probabilities, i, w->n);
    int64_t guess = largest_at(w->isa, &w->logits, i, w->n);
    sum->correct += guess >= 0 && guess == truth;
  }
  if (w->dlogits.base) gradient(w, &row, i, label, mass, exps);
  if (w->losses) w->losses[i] = loss;
  sum->loss += loss;
}

/* ---- Narrow rows with labels ---- */

/* Whether the label is where the row's largest element first stands: a NaN, the largest of all,
 * shows in the sum. */
static bool is_first_largest(const job *w, const lo_narrow *rows, int r, int64_t i, int64_t label) {
  if (rows->sum[r] != rows->sum[r]) return largest_at(w->isa, &w->logits, i, w->n) == label;
  for (int64_t j = 0; j < label; j++)
    if (logit(w, i, j) == rows->largest[r]) return false;
  return logit(w, i, label) == rows->largest[r];
}

/* Before dlogits are written, which may stand on the logits. Summed in a loop of their own, where
 * the sum stays in a register. */
static partial narrow_losses(const job *w, const lo_narrow *rows, int64_t i, int64_t count) {
  const int32_t *labels = w->labels + i;
  float losses[LO_LANES];
  partial sum = {0, 0};
  for (int r = 0; r < count; r++)
    losses[r] = labels[r] == w->ignore
                    ? 0.0f
                    : rows->log_sum[r] - (logit(w, i + r, labels[r]) - rows->largest[r]);
  for (int r = 0; r < count; r++) sum.loss += (double)losses[r];
  if (w->losses) memcpy(w->losses + i, losses, (size_t)count * sizeof *losses);
  for (int r = 0; w->wants_correct && r < count; r++)
    if (labels[r] != w->ignore) sum.correct += is_first_largest(w, rows, r, i + r, labels[r]);
  return sum;
}

/* scale * (softmax - truth), as `gradient` does; x as narrow_look left it. The labels' entries are
 * written last: scalars stored to x would hold up the vectors loaded from it. */
static void narrow_gradient(const job *w, const lo_narrow *rows, int64_t i, int64_t count,
                            float *x) {
  const int32_t *labels = w->labels + i;
  float truth[LO_LANES];
  for (int r = 0; r < count; r++)
    if (labels[r] != w->ignore)
      truth[r] = w->scale * (x[labels[r] * LO_LANES + r] * rows->inverse[r] - 1.0f);
  w->isa->narrow_scale(x, w->n, rows, w->scale);
  lo_narrow_put(w->isa, &w->dlogits, i, count, w->n, x);
  for (int r = 0; r < count; r++) {
    if (labels[r] == w->ignore)
      zero_row(w, i + r);
    else if (w->dlogits.type == LAYEROPS_F32)
      *(float *)lo_element(&w->dlogits, i + r, labels[r]) = truth[r];
    else
      lo_put(w->isa, &w->dlogits, i + r, labels[r], &truth[r], 1);
  }
}

static void run_narrow(const job *w, int64_t i, int64_t count, partial *sum) {
  float x[LO_LANES * LO_NARROW];
  lo_narrow rows;
  lo_narrow_get(w->isa, &w->logits, i, count, w->n, x);
  w->isa->narrow_look(x, w->n, &rows);
  const partial here = narrow_losses(w, &rows, i, count);
  sum->loss += here.loss;
  sum->correct += here.correct;
  if (w->dlogits.base) narrow_gradient(w, &rows, i, count, x);
}

static void run_rows(void *arg, const lo_unit *unit) {
  const job *w = arg;
  const int64_t end = unit->i + unit->rows;
  partial sum = {0, 0};
  if (w->labels && w->n <= LO_NARROW)
    for (int64_t i = unit->i; i < end; i += LO_LANES)
      run_narrow(w, i, end - i < LO_LANES ? end - i : LO_LANES, &sum);
  else
    for (int64_t i = unit->i; i < end; i++) run_row(w, i, &sum);
  w->partials[unit->index] = sum;
}

static int64_t rows_that_count(const job *w, int64_t m) {
  if (!w->labels) return m;
  int64_t count = 0;
  for (int64_t i = 0; i < m; i++) count += w->labels[i] != w->ignore;
  return count;
}

layerops_status lo_cpu_cross_entropy(layerops_context *ctx, const layerops_cross_entropy_args *a) {
  const int64_t m = a->logits.rows, n = a->logits.cols;
  job w = {.isa = lo_cpu_of(ctx)->isa,
           .logits = lo_plane_of(&a->logits, 0),
           .probabilities = lo_plane_of(&a->probabilities, 0),
           .dlogits = lo_plane_of(&a->dlogits, 0),
           .losses = lo_present(&a->losses) ? lo_address(&a->losses) : NULL,
           .n = n,
           .ignore = a->ignore_label.kind ? (int64_t)a->ignore_label.value : LO_NOTHING_IGNORED,
           .wants_correct = lo_present(&a->correct)};
  ctx->kernel = w.isa->name;
  if (lo_present(&a->labels)) {
    LO_TRY(lo_check_labels("cross_entropy", "labels", &a->labels, n, w.ignore));
    w.labels = lo_address(&a->labels);
  }
  const int64_t count = rows_that_count(&w, m);
  const double reduce = a->reduction == LAYEROPS_MEAN && count ? 1.0 / (double)count : 1.0;
  w.scale = (float)(lo_scalar(&a->grad_scale) * reduce);
  lo_grid grid = lo_grid_of_rows(m, n);
  LO_TRY(new_partials(ctx, &grid, &w.partials));
  lo_grid_run(ctx, &grid, 0.5, run_rows, &w);
  partial sum = total(w.partials, &grid);
  if (lo_present(&a->loss)) *(float *)lo_address(&a->loss) = (float)(sum.loss * reduce);
  if (lo_present(&a->correct)) *(int32_t *)lo_address(&a->correct) = (int32_t)sum.correct;
  return LAYEROPS_OK;
}

/* ---- Mean squared error ---- */

typedef struct squares {
  const lo_isa *isa;
  lo_plane y, target, dy;
  float scale;
  partial *partials;
} squares;

static void run_squares(void *arg, const lo_unit *unit) {
  const squares *w = arg;
  float y_copy[LO_SPAN], t_copy[LO_SPAN], out[LO_SPAN], lanes[16] = {0};
  LO_FOR_SPANS(unit, i, j, n) {
    float *d = w->dy.base ? lo_out(&w->dy, i, j, out) : NULL;
    w->isa->squares(lo_get(w->isa, &w->y, i, j, n, y_copy),
                    lo_get(w->isa, &w->target, i, j, n, t_copy), w->scale, d, lanes, n);
    if (d) lo_put(w->isa, &w->dy, i, j, d, n);
  }
  w->partials[unit->index] = (partial){.loss = lo_fold(lanes)};
}

layerops_status lo_cpu_mse(layerops_context *ctx, const layerops_mse_args *a) {
  const double elements = (double)a->y.rows * (double)a->y.cols;
  const double reduce = a->reduction == LAYEROPS_MEAN && elements > 0 ? 1 / elements : 1;
  lo_grid grid = lo_grid_of((const layerops_matrix *const[]){&a->y, &a->target, &a->dy}, 3);
  squares w = {.isa = lo_cpu_of(ctx)->isa,
               .y = lo_plane_of(&a->y, 0),
               .target = lo_plane_of(&a->target, 0),
               .dy = lo_plane_of(&a->dy, 0),
               .scale = (float)(lo_scalar(&a->grad_scale) * 2 * reduce)};
  ctx->kernel = w.isa->name;
  LO_TRY(new_partials(ctx, &grid, &w.partials));
  lo_grid_run(ctx, &grid, 0.17, run_squares, &w);
  double loss = total(w.partials, &grid).loss * reduce;
  if (lo_present(&a->loss)) *(float *)lo_address(&a->loss) = (float)loss;
  return LAYEROPS_OK;
}
