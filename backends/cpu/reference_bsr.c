/* The block-sparse linear layer, forward and backward: block by block, element by element.
 * Operands are read into arrays of doubles once. */
#include <config.h>

#include <stdlib.h>

#include "backends/cpu/reference.h"

/* W, and how activations lie. */
typedef struct sparse {
  const layerops_bsr *w;
  const layerops_matrix *gate;
  bool transposed;
  double *values; /* of all blocks, times their scales; without gates */
} sparse;

static double gate_of(const sparse *s, int64_t b) {
  return lo_present(s->gate) ? lo_ref_load(s->gate, 0, b) : 1;
}

/* Element (p, q) of block b. */
static double value_of(const sparse *s, int64_t b, int64_t p, int64_t q) {
  return s->values[(b * s->w->height + p) * s->w->width + q];
}

static double *numbers(int64_t count) {
  return malloc((size_t)(count + 1) * sizeof(double));
}

/* `values` is NULL where there is no memory; without `reads` W's values are not looked at. */
static sparse sparse_of(const layerops_bsr *w, const layerops_matrix *gate, int32_t layout,
                        bool reads) {
  const layerops_matrix values = layerops_bsr_values(w), scales = layerops_bsr_scales(w);
  const int64_t area = w->height * w->width;
  sparse s = {w, gate, layout == LAYEROPS_FEATURES_BY_ROW, numbers(w->count * area)};
  for (int64_t i = 0; reads && s.values && i < w->count * area; i++) {
    const double scale = lo_present(&scales) ? lo_ref_load(&scales, 0, i / area) : 1;
    s.values[i] = scale * lo_ref_load(&values, i / w->width, i % w->width);
  }
  return s;
}

/* Sample i, feature j. */
static double load(const sparse *s, const layerops_matrix *v, int64_t i, int64_t j) {
  return s->transposed ? lo_ref_load(v, j, i) : lo_ref_load(v, i, j);
}
static void store(const sparse *s, const layerops_matrix *v, int64_t i, int64_t j, double x) {
  if (s->transposed)
    lo_ref_store(v, j, i, x);
  else
    lo_ref_store(v, i, j, x);
}

/* [m,features] in doubles. */
static double *samples_of(const sparse *s, const layerops_matrix *v, int64_t m, int64_t features) {
  double *x = numbers(m * features);
  for (int64_t i = 0; x && i < m; i++)
    for (int64_t j = 0; j < features; j++) x[i * features + j] = load(s, v, i, j);
  return x;
}

static layerops_status no_memory(const char *op) {
  return lo_fail(LAYEROPS_ERROR_OUT_OF_MEMORY, "%s: no memory for the reference", op);
}

/* ---- Forward ---- */

/* Output j of a sample x. */
static double row_sum(const sparse *s, const double *x, int64_t j) {
  const layerops_bsr *w = s->w;
  const int64_t r = j / w->height;
  double sum = 0;
  for (int64_t b = w->host.row_start[r]; b < w->host.row_start[r + 1]; b++) {
    const int64_t from = w->host.column[b] * w->width;
    const double gate = gate_of(s, b);
    for (int64_t q = 0; gate != 0 && q < w->width && from + q < w->cols; q++)
      sum += gate * value_of(s, b, j % w->height, q) * x[from + q];
  }
  return sum;
}

layerops_status lo_ref_bsr_linear_forward(layerops_context *ctx,
                                          const layerops_bsr_linear_forward_args *a) {
  const double alpha = a->w->cols ? lo_scalar(&a->alpha) : 0; /* as in linear_forward */
  const sparse s = sparse_of(a->w, &a->gate, a->layout, alpha != 0);
  const int64_t m = s.transposed ? a->y.cols : a->y.rows, k = alpha != 0 ? a->w->cols : 0;
  const lo_ref_finish f = {.bias = &a->bias,
                           .preact = &a->preact,
                           .residual = &a->residual,
                           .y = &a->y,
                           .transposed = s.transposed,
                           .alpha = alpha,
                           .slope = a->slope.value,
                           .scale_y = 1,
                           .activation = a->activation};
  double *x = samples_of(&s, &a->x, m, k);
  const bool good = s.values && x;
  ctx->kernel = "plain";
  for (int64_t i = 0; good && i < m; i++)
    for (int64_t j = 0; j < a->w->rows; j++)
      lo_ref_finish_sum(&f, i, j, alpha != 0 ? row_sum(&s, x + i * k, j) : 0);
  free(s.values);
  free(x);
  return good ? LAYEROPS_OK : no_memory("bsr_linear_forward");
}

/* ---- Backward ---- */

/* dZ [m,n] and X [m,k] in doubles. */
typedef struct backward {
  const layerops_bsr_linear_backward_args *a;
  sparse s;
  int64_t m;
  bool sampled; /* dW or dgate are wanted */
  double *dz, *x;
} backward;

static double *dz_of(const backward *g) {
  const layerops_bsr_linear_backward_args *a = g->a;
  const int64_t n = a->w->rows;
  double *dz = samples_of(&g->s, &a->dy, g->m, n);
  for (int64_t i = 0; dz && a->activation != LAYEROPS_IDENTITY && i < g->m; i++)
    for (int64_t j = 0; j < n; j++)
      dz[i * n + j] *=
          lo_ref_derivative(a->activation, load(&g->s, &a->saved, i, j), a->slope.value);
  return dz;
}

/* Input j of a sample's dX. */
static double column_sum(const sparse *s, const double *dz, int64_t j) {
  const layerops_bsr *w = s->w;
  const int64_t c = j / w->width;
  double sum = 0;
  for (int64_t e = w->host.col_start[c]; e < w->host.col_start[c + 1]; e++) {
    const int64_t b = w->host.place[e], from = w->host.row[e] * w->height;
    const double gate = gate_of(s, b);
    for (int64_t p = 0; gate != 0 && p < w->height && from + p < w->rows; p++)
      sum += dz[from + p] * gate * value_of(s, b, p, j % w->width);
  }
  return sum;
}

static void store_dx(const backward *g) {
  const layerops_bsr_linear_backward_args *a = g->a;
  for (int64_t i = 0; i < g->m; i++)
    for (int64_t j = 0; j < a->w->cols; j++) {
      double sum = column_sum(&g->s, g->dz + i * a->w->rows, j);
      if (a->dx_activation != LAYEROPS_IDENTITY)
        sum *=
            lo_ref_derivative(a->dx_activation, load(&g->s, &a->dx_saved, i, j), a->dx_slope.value);
      store(&g->s, &a->dx, i, j, sum);
    }
}

static double accumulated(const layerops_matrix *to, int64_t i, int64_t j, double sum,
                          double beta) {
  return beta != 0 ? sum + beta * lo_ref_load(to, i, j) : sum;
}

/* Element (row, col) of dZ^T X. */
static double sample_sum(const backward *g, int64_t row, int64_t col) {
  const layerops_bsr *w = g->s.w;
  double sum = 0;
  for (int64_t i = 0; i < g->m; i++) sum += g->dz[i * w->rows + row] * g->x[i * w->cols + col];
  return sum;
}

/* The gradient of block b of block row r, and that of its gate. */
static void store_block(const backward *g, int64_t r, int64_t b) {
  const layerops_bsr_linear_backward_args *a = g->a;
  const layerops_bsr *w = a->w;
  const double gate = gate_of(&g->s, b), beta = lo_scalar(&a->beta);
  double along = 0;
  for (int64_t p = 0; p < w->height; p++)
    for (int64_t q = 0; q < w->width; q++) {
      const int64_t row = r * w->height + p, col = w->host.column[b] * w->width + q;
      const bool inside = row < w->rows && col < w->cols;
      const double sum = inside ? sample_sum(g, row, col) : 0;
      if (inside && lo_present(&a->dgate)) along += sum * value_of(&g->s, b, p, q);
      if (!lo_present(&a->dw)) continue;
      const int64_t to = b * w->height + p;
      lo_ref_store(&a->dw, to, q,
                   inside ? accumulated(&a->dw, to, q, gate != 0 ? gate * sum : 0, beta) : 0);
    }
  if (lo_present(&a->dgate))
    lo_ref_store(&a->dgate, 0, b, accumulated(&a->dgate, 0, b, along, beta));
}

static void store_dbias(const backward *g) {
  const layerops_bsr_linear_backward_args *a = g->a;
  for (int64_t j = 0; j < a->w->rows; j++) {
    double sum = 0;
    for (int64_t i = 0; i < g->m; i++) sum += g->dz[i * a->w->rows + j];
    lo_ref_store(&a->dbias, 0, j, accumulated(&a->dbias, 0, j, sum, lo_scalar(&a->beta)));
  }
}

/* dZ is not rounded on its way into the sums, as in linear_backward, and stored last, since it may
 * stand on dY. */
static void store_all(const backward *g) {
  const layerops_bsr_linear_backward_args *a = g->a;
  const layerops_bsr *w = a->w;
  if (lo_present(&a->dx)) store_dx(g);
  for (int64_t r = 0; g->sampled && r < w->block_rows; r++)
    for (int64_t b = w->host.row_start[r]; b < w->host.row_start[r + 1]; b++) store_block(g, r, b);
  if (lo_present(&a->dbias)) store_dbias(g);
  for (int64_t i = 0; lo_present(&a->dz) && i < g->m; i++)
    for (int64_t j = 0; j < w->rows; j++) store(&g->s, &a->dz, i, j, g->dz[i * w->rows + j]);
}

layerops_status lo_ref_bsr_linear_backward(layerops_context *ctx,
                                           const layerops_bsr_linear_backward_args *a) {
  backward g = {.a = a, .sampled = lo_present(&a->dw) || lo_present(&a->dgate)};
  g.s = sparse_of(a->w, &a->gate, a->layout, lo_present(&a->dx) || lo_present(&a->dgate));
  g.m = g.s.transposed ? a->dy.cols : a->dy.rows;
  g.dz = dz_of(&g);
  g.x = samples_of(&g.s, &a->x, g.sampled ? g.m : 0, a->w->cols);
  const bool good = g.s.values && g.dz && g.x;
  ctx->kernel = "plain";
  if (good) store_all(&g);
  free(g.s.values);
  free(g.dz);
  free(g.x);
  return good ? LAYEROPS_OK : no_memory("bsr_linear_backward");
}
