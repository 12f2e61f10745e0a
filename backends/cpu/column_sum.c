/* The sum over the rows of a matrix, in slices of rows that are summed in their order, or over its
 * columns. */
#include <config.h>

#include "backends/cpu/product.h"
#include "backends/cpu/span.h"

enum { SLICE = 256 };

static int64_t slices(const layerops_matrix *m) {
  return (m->rows + SLICE - 1) / SLICE;
}
static int64_t across(const layerops_matrix *m) {
  return (m->cols + LO_SPAN - 1) / LO_SPAN;
}

int64_t lo_column_sum_scratch(const layerops_matrix *m) {
  return slices(m) * m->cols * (int64_t)sizeof(float);
}

typedef struct job {
  const lo_isa *isa;
  lo_plane m;
  int64_t rows, cols, units, across, tasks;
  float *partials; /* [slice][column] */
} job;

static void run_unit(const job *w, int64_t slice, int64_t j) {
  float copy[LO_SPAN], *sum = w->partials + slice * w->cols + j;
  const int64_t n = w->cols - j < LO_SPAN ? w->cols - j : LO_SPAN;
  const int64_t begin = slice * SLICE, end = begin + SLICE < w->rows ? begin + SLICE : w->rows;
  if (w->m.type == LAYEROPS_F32) {
    w->isa->sum_rows(lo_element(&w->m, begin, j), w->m.stride, end - begin, sum, n);
    return;
  }
  w->isa->load(w->m.type, lo_element(&w->m, begin, j), sum, n);
  for (int64_t i = begin + 1; i < end; i++)
    w->isa->add(lo_get(w->isa, &w->m, i, j, n, copy), sum, n);
}

static void run_task(void *arg, int64_t task) {
  const job *w = arg;
  int64_t begin, end;
  lo_share(w->units, w->tasks, task, &begin, &end);
  for (int64_t u = begin; u < end; u++) run_unit(w, u / w->across, u % w->across * LO_SPAN);
}

static void finish(const job *w, float beta, const lo_plane *sum) {
  float total[LO_SPAN], copy[LO_SPAN];
  for (int64_t j = 0; j < w->cols; j += LO_SPAN) {
    const int64_t n = w->cols - j < LO_SPAN ? w->cols - j : LO_SPAN;
    memset(total, 0, sizeof total);
    for (int64_t s = 0; s * SLICE < w->rows; s++)
      w->isa->add(w->partials + s * w->cols + j, total, n);
    if (beta != 0.0f) {
      const float *old = lo_get(w->isa, sum, 0, j, n, copy);
      for (int64_t l = 0; l < n; l++) total[l] += beta * old[l];
    }
    w->isa->store(sum->type, total, lo_element(sum, 0, j), n);
  }
}

void lo_column_sum(layerops_context *ctx, const layerops_matrix *m, float beta,
                   const layerops_matrix *sum, float *scratch) {
  job w = {.isa = lo_cpu_of(ctx)->isa,
           .m = lo_plane_of(m, 0),
           .rows = m->rows,
           .cols = m->cols,
           .units = slices(m) * across(m),
           .across = across(m),
           .partials = scratch};
  const lo_plane to = lo_plane_of(sum, 0);
  w.tasks = lo_parallel_width(ctx, 0.05 * (double)m->rows * (double)m->cols);
  if (w.tasks > w.units) w.tasks = w.units;
  if (w.units) lo_parallel(ctx, w.tasks, run_task, &w);
  finish(&w, beta, &to);
}

/* ---- Over the columns ---- */

typedef struct row_job {
  const lo_isa *isa;
  lo_plane m, sum;
  int64_t rows, cols, tasks;
  float beta;
} row_job;

static float sum_row(const row_job *w, int64_t i) {
  float lanes[LO_LANES] = {0}, copy[LO_SPAN];
  for (int64_t j = 0; j < w->cols; j += LO_SPAN) {
    const int64_t n = w->cols - j < LO_SPAN ? w->cols - j : LO_SPAN;
    const float *x = lo_get(w->isa, &w->m, i, j, n, copy);
    for (int64_t l = 0; l < n; l++) lanes[l % LO_LANES] += x[l];
  }
  return lo_fold(lanes);
}

static void run_rows(void *arg, int64_t task) {
  const row_job *w = arg;
  int64_t begin, end;
  lo_share(w->rows, w->tasks, task, &begin, &end);
  for (int64_t i = begin; i < end; i++) {
    float sum = sum_row(w, i), old;
    if (w->beta != 0.0f) sum += w->beta * *lo_get(w->isa, &w->sum, 0, i, 1, &old);
    w->isa->store(w->sum.type, &sum, lo_element(&w->sum, 0, i), 1);
  }
}

void lo_row_sum(layerops_context *ctx, const layerops_matrix *m, float beta,
                const layerops_matrix *sum) {
  row_job w = {.isa = lo_cpu_of(ctx)->isa,
               .m = lo_plane_of(m, 0),
               .sum = lo_plane_of(sum, 0),
               .rows = m->rows,
               .cols = m->cols,
               .beta = beta};
  w.tasks = lo_parallel_width(ctx, 0.05 * (double)m->rows * (double)m->cols);
  if (w.tasks > w.rows) w.tasks = w.rows;
  lo_parallel(ctx, w.tasks, run_rows, &w);
}
