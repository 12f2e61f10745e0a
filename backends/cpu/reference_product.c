/* gemm, the linear layer forward and backward. */
#include <config.h>

#include <stdlib.h>

#include "backends/cpu/reference.h"
#include "common/door.h"

/* Operands are read into arrays of doubles once, in the order in which the sums need them. */

/* op(X) of batch entry l, by rows; a batch of one serves all. NULL where there is no memory. */
static double *values_of(const layerops_matrix *x, bool trans, int64_t l) {
  const int64_t rows = trans ? x->cols : x->rows, cols = trans ? x->rows : x->cols;
  double *values = malloc((size_t)(rows * cols + 1) * sizeof *values);
  if (x->batch == 1) l = 0;
  for (int64_t i = 0; values && i < rows; i++)
    for (int64_t j = 0; j < cols; j++)
      values[i * cols + j] = trans ? lo_ref_load_at(x, l, j, i) : lo_ref_load_at(x, l, i, j);
  return values;
}

static double *numbers(int64_t count) {
  return malloc((size_t)(count + 1) * sizeof(double));
}

/* sums[j] = the sum over p of a[p] b[p,j]: each one sum in the order of p, side by side. */
static void row_of_sums(const double *a, const double *b, int64_t k, int64_t n, double *sums) {
  for (int64_t j = 0; j < n; j++) sums[j] = 0;
  for (int64_t p = 0; p < k; p++)
    for (int64_t j = 0; j < n; j++) sums[j] += a[p] * b[p * n + j];
}

/* Value i of a scale or zero point: of one for all, or of one each. */
static double each(const layerops_matrix *v, int64_t i, double absent) {
  return lo_present(v) ? lo_ref_load(v, 0, v->cols == 1 ? 0 : i) : absent;
}

/* What operands of 8 bits have beside them. */
typedef struct scales {
  const layerops_matrix *zero, *row, *column;
} scales;

static void scale_row(const scales *s, int64_t i, int64_t n, double *sums) {
  for (int64_t j = 0; j < n; j++) sums[j] *= each(s->row, i, 1) * each(s->column, j, 1);
}

/* The sums of 8-bit integers, row i: each an int32, which a zero point beyond 8 bits may make wrap
 * around. */
static double wrapped(int64_t sum) {
  return (double)(int32_t)(uint32_t)(uint64_t)sum;
}

static void row_of_integers(const scales *s, int64_t i, const double *a, const double *b, int64_t k,
                            int64_t n, double *sums) {
  const double zero = each(s->zero, i, 0);
  for (int64_t j = 0; j < n; j++) {
    int64_t sum = 0;
    for (int64_t p = 0; p < k; p++) sum += (int64_t)(a[p] - zero) * (int64_t)b[p * n + j];
    sums[j] = wrapped(sum);
  }
}

/* op(A)[m,k] op(B)[k,n] of a batch entry, scaled. NULL where there is no memory. */
static double *product(const layerops_matrix *a, bool trans_a, const layerops_matrix *b,
                       bool trans_b, int64_t l, const scales *s) {
  const int64_t m = trans_a ? a->cols : a->rows, k = trans_a ? a->rows : a->cols;
  const int64_t n = trans_b ? b->rows : b->cols;
  double *x = values_of(a, trans_a, l), *w = values_of(b, trans_b, l), *sums = numbers(m * n);
  for (int64_t i = 0; x && w && sums && i < m; i++) {
    if (lo_is_int8(a->type))
      row_of_integers(s, i, x + i * k, w, k, n, sums + i * n);
    else
      row_of_sums(x + i * k, w, k, n, sums + i * n);
    scale_row(s, i, n, sums + i * n);
  }
  if (!x || !w) {
    free(sums);
    sums = NULL;
  }
  free(x);
  free(w);
  return sums;
}

static layerops_status no_memory(const char *op) {
  return lo_fail(LAYEROPS_ERROR_OUT_OF_MEMORY, "%s: no memory for the reference", op);
}

layerops_status lo_ref_gemm(layerops_context *ctx, const layerops_gemm_args *a) {
  const scales beside = {&a->zero_a, &a->scale_a, &a->scale_b};
  double alpha = lo_scalar(&a->alpha), beta = lo_scalar(&a->beta);
  int64_t k = a->trans_a ? a->a.rows : a->a.cols;
  if (!k) alpha = 0;
  ctx->kernel = "plain";
  for (int64_t l = 0; l < a->c.batch; l++) {
    double *sums = NULL; /* where alpha is 0, A and B are not read */
    if (alpha != 0 && !(sums = product(&a->a, a->trans_a, &a->b, a->trans_b, l, &beside)))
      return no_memory("gemm");
    for (int64_t i = 0; i < a->c.rows; i++)
      for (int64_t j = 0; j < a->c.cols; j++) {
        double c = sums ? alpha * sums[i * a->c.cols + j] : 0;
        if (beta != 0) c += beta * lo_ref_load_at(&a->c, l, i, j);
        lo_ref_store_at(&a->c, l, i, j, c);
      }
    free(sums);
  }
  return LAYEROPS_OK;
}

/* A product over k = 0 is 0, whatever alpha is. */
static double alpha_of(const layerops_scalar *alpha, const layerops_matrix *x) {
  return x->cols ? lo_scalar(alpha) : 0;
}

static double number_at(const lo_ref_finish *f, const layerops_matrix *v, int64_t i, int64_t j) {
  return f->transposed ? lo_ref_load(v, j, i) : lo_ref_load(v, i, j);
}
static void put_at(const lo_ref_finish *f, const layerops_matrix *v, int64_t i, int64_t j,
                   double x) {
  if (f->transposed)
    lo_ref_store(v, j, i, x);
  else
    lo_ref_store(v, i, j, x);
}

void lo_ref_finish_sum(const lo_ref_finish *f, int64_t i, int64_t j, double sum) {
  double z = f->alpha != 0 ? f->alpha * sum : 0;
  if (lo_present(f->bias)) z += lo_ref_load(f->bias, 0, j);
  double y = lo_ref_activation(f->activation, z, f->slope);
  if (lo_present(f->residual)) y += number_at(f, f->residual, i, j);
  if (lo_present(f->preact)) put_at(f, f->preact, i, j, z);
  put_at(f, f->y, i, j, y / f->scale_y);
}

layerops_status lo_ref_linear_forward(layerops_context *ctx,
                                      const layerops_linear_forward_args *a) {
  const scales beside = {&a->zero_x, &a->scale_x, &a->scale_w};
  lo_ref_finish f = {.bias = &a->bias,
                     .preact = &a->preact,
                     .residual = &a->residual,
                     .y = &a->y,
                     .alpha = alpha_of(&a->alpha, &a->x),
                     .slope = a->slope.value,
                     .scale_y = each(&a->scale_y, 0, 1),
                     .activation = a->activation};
  ctx->kernel = "plain";
  double *sums = NULL; /* where alpha is 0, X and W are not read */
  if (f.alpha != 0 && !(sums = product(&a->x, false, &a->w, true, 0, &beside)))
    return no_memory("linear_forward");
  for (int64_t i = 0; i < a->y.rows; i++)
    for (int64_t j = 0; j < a->y.cols; j++)
      lo_ref_finish_sum(&f, i, j, sums ? sums[i * a->y.cols + j] : 0);
  free(sums);
  return LAYEROPS_OK;
}

/* dZ [m,n] in doubles. */
static double *dz_of(const layerops_linear_backward_args *a) {
  double *dz = values_of(&a->dy, false, 0);
  for (int64_t i = 0; dz && a->activation != LAYEROPS_IDENTITY && i < a->dy.rows; i++)
    for (int64_t j = 0; j < a->dy.cols; j++)
      dz[i * a->dy.cols + j] *=
          lo_ref_derivative(a->activation, lo_ref_load(&a->saved, i, j), a->slope.value);
  return dz;
}

static bool store_dx(const layerops_linear_backward_args *a, const double *dz) {
  const int64_t n = a->dy.cols, cols = a->dx.cols;
  double *w = values_of(&a->w, false, 0), *sums = numbers(cols);
  for (int64_t i = 0; w && sums && i < a->dx.rows; i++) {
    row_of_sums(dz + i * n, w, n, cols, sums);
    for (int64_t j = 0; j < cols; j++) {
      if (a->dx_activation != LAYEROPS_IDENTITY)
        sums[j] *=
            lo_ref_derivative(a->dx_activation, lo_ref_load(&a->dx_saved, i, j), a->dx_slope.value);
      lo_ref_store(&a->dx, i, j, sums[j]);
    }
  }
  const bool good = w && sums;
  free(w);
  free(sums);
  return good;
}

static void add_and_store(const layerops_matrix *to, int64_t i, const double *sums, double beta) {
  for (int64_t j = 0; j < to->cols; j++)
    lo_ref_store(to, i, j, beta != 0 ? sums[j] + beta * lo_ref_load(to, i, j) : sums[j]);
}

static bool store_dw(const layerops_linear_backward_args *a, const double *dz, double beta) {
  const int64_t m = a->dy.rows, n = a->dy.cols;
  double *x = values_of(&a->x, false, 0), *column = numbers(m), *sums = numbers(a->dw.cols);
  const bool good = x && column && sums;
  for (int64_t i = 0; good && i < n; i++) {
    for (int64_t p = 0; p < m; p++) column[p] = dz[p * n + i];
    row_of_sums(column, x, m, a->dw.cols, sums);
    add_and_store(&a->dw, i, sums, beta);
  }
  free(x);
  free(column);
  free(sums);
  return good;
}

static bool store_dbias(const layerops_linear_backward_args *a, const double *dz, double beta) {
  const int64_t m = a->dy.rows, n = a->dy.cols;
  double *sums = numbers(n);
  for (int64_t j = 0; sums && j < n; j++) sums[j] = 0;
  for (int64_t p = 0; sums && p < m; p++)
    for (int64_t j = 0; j < n; j++) sums[j] += dz[p * n + j];
  if (sums) add_and_store(&a->dbias, 0, sums, beta);
  free(sums);
  return sums;
}

/* dZ is not rounded to its type on its way into the sums: the tolerances know that others do. It is
 * stored last, since it may stand on dY. */
layerops_status lo_ref_linear_backward(layerops_context *ctx,
                                       const layerops_linear_backward_args *a) {
  const int64_t n = a->dy.cols;
  double beta = lo_scalar(&a->beta), *dz = dz_of(a);
  ctx->kernel = "plain";
  const bool good = dz && (!lo_present(&a->dx) || store_dx(a, dz)) &&
                    (!lo_present(&a->dw) || store_dw(a, dz, beta)) &&
                    (!lo_present(&a->dbias) || store_dbias(a, dz, beta));
  if (good && lo_present(&a->dz))
    for (int64_t i = 0; i < a->dz.rows; i++)
      for (int64_t j = 0; j < n; j++) lo_ref_store(&a->dz, i, j, dz[i * n + j]);
  free(dz);
  return good ? LAYEROPS_OK : no_memory("linear_backward");
}
