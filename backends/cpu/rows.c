/* softmax: narrow rows side by side; others one by one, a row in one piece where it fits on the
 * stack, else in three passes over its spans. */
#include <config.h>

#include <math.h>

#include "backends/cpu/rows.h"

static int64_t span(int64_t n, int64_t j) {
  return n - j < LO_SPAN ? n - j : LO_SPAN;
}

lo_row lo_row_look(const lo_isa *isa, const lo_plane *x, int64_t i, int64_t n, float *exps,
                   bool whole) {
  float copy[LO_SPAN], lanes[16] = {0};
  lo_row row = {.largest = -INFINITY};
  for (int64_t j = 0; j < n; j += LO_SPAN) {
    int64_t length = span(n, j);
    float most = isa->maximum(lo_get(isa, x, i, j, length, copy), length);
    if (most > row.largest) row.largest = most;
  }
  for (int64_t j = 0; j < n; j += LO_SPAN) {
    int64_t length = span(n, j);
    float *to = whole ? exps + j : exps;
    isa->exp_sum(lo_get(isa, x, i, j, length, copy), row.largest, to, lanes, length);
  }
  row.sum = lo_fold(lanes);
  row.log_sum = isa->log(row.sum);
  return row;
}

const float *lo_row_exps(const lo_isa *isa, const lo_plane *x, const lo_row *row, int64_t i,
                         int64_t j, int64_t n, float *exps) {
  float copy[LO_SPAN], lanes[16] = {0};
  isa->exp_sum(lo_get(isa, x, i, j, n, copy), row->largest, exps, lanes, n);
  return exps;
}

typedef struct job {
  const lo_isa *isa;
  lo_plane x, y;
  int64_t n;
  bool log;
} job;

static void log_softmax_row(const job *w, int64_t i) {
  float exps[LO_SPAN], copy[LO_SPAN], out[LO_SPAN];
  const lo_row row = lo_row_look(w->isa, &w->x, i, w->n, exps, false);
  for (int64_t j = 0; j < w->n; j += LO_SPAN) {
    int64_t length = span(w->n, j);
    float *y = lo_out(&w->y, i, j, out);
    const float *x = lo_get(w->isa, &w->x, i, j, length, copy);
    w->isa->shift(x, row.largest, row.log_sum, y, length);
    lo_put(w->isa, &w->y, i, j, y, length);
  }
}

/* The exponentials wait in Y where it is f32, else they are computed again in a long row. */
static void softmax_row(const job *w, int64_t i) {
  float exps[LO_SPAN], out[LO_SPAN];
  const bool whole = w->y.type == LAYEROPS_F32;
  float *first = whole ? lo_element(&w->y, i, 0) : exps;
  const lo_row row = lo_row_look(w->isa, &w->x, i, w->n, first, whole);
  const float inverse = 1.0f / row.sum;
  if (whole) {
    w->isa->scale(first, inverse, first, w->n);
    return;
  }
  for (int64_t j = 0; j < w->n; j += LO_SPAN) {
    int64_t length = span(w->n, j);
    if (w->n > LO_SPAN) lo_row_exps(w->isa, &w->x, &row, i, j, length, exps);
    w->isa->scale(exps, inverse, out, length);
    lo_put(w->isa, &w->y, i, j, out, length);
  }
}

/* ---- Narrow rows ---- */

void lo_narrow_get(const lo_isa *isa, const lo_plane *from, int64_t i, int64_t count, int64_t n,
                   float *x) {
  float copy[LO_LANES * LO_NARROW];
  const float *rows = lo_element(from, i, 0);
  int64_t row = from->stride;
  if (from->type != LAYEROPS_F32) {
    isa->load_rows(from->type, rows, row, copy, LO_NARROW, count, n);
    rows = copy;
    row = LO_NARROW;
  }
  if (count < LO_LANES) memset(x, 0, (size_t)(n * LO_LANES) * sizeof *x);
  isa->transpose(rows, row, x, LO_LANES, count, n);
}

void lo_narrow_put(const lo_isa *isa, const lo_plane *to, int64_t i, int64_t count, int64_t n,
                   const float *x) {
  float copy[LO_LANES * LO_NARROW];
  if (to->type == LAYEROPS_F32) {
    isa->transpose(x, LO_LANES, lo_element(to, i, 0), to->stride, n, count);
    return;
  }
  isa->transpose(x, LO_LANES, copy, LO_NARROW, n, count);
  for (int64_t r = 0; r < count; r++)
    isa->store(to->type, copy + r * LO_NARROW, lo_element(to, i + r, 0), n);
}

static void narrow_softmax(const job *w, int64_t i, int64_t count) {
  float x[LO_LANES * LO_NARROW];
  lo_narrow rows;
  lo_narrow_get(w->isa, &w->x, i, count, w->n, x);
  w->isa->narrow_look(x, w->n, &rows);
  w->isa->narrow_scale(x, w->n, &rows, 1.0f);
  lo_narrow_put(w->isa, &w->y, i, count, w->n, x);
}

static void softmax_rows(void *arg, const lo_unit *unit) {
  const job *w = arg;
  const int64_t end = unit->i + unit->rows;
  if (!w->log && w->n <= LO_NARROW) {
    for (int64_t i = unit->i; i < end; i += LO_LANES)
      narrow_softmax(w, i, end - i < LO_LANES ? end - i : LO_LANES);
    return;
  }
  for (int64_t i = unit->i; i < unit->i + unit->rows; i++)
    if (w->log)
      log_softmax_row(w, i);
    else
      softmax_row(w, i);
}

layerops_status lo_cpu_softmax(layerops_context *ctx, const layerops_softmax_args *a) {
  lo_grid grid = lo_grid_of_rows(a->y.rows, a->y.cols);
  job w = {.isa = lo_cpu_of(ctx)->isa,
           .x = lo_plane_of(&a->x, 0),
           .y = lo_plane_of(&a->y, 0),
           .n = a->y.cols,
           .log = a->log};
  ctx->kernel = w.isa->name;
  lo_grid_run(ctx, &grid, 0.45, softmax_rows, &w);
  return LAYEROPS_OK;
}
