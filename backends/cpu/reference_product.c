/* gemm, the linear layer forward and backward, the block-sparse linear layer. */
#include <config.h>

#include "backends/cpu/reference.h"

/* op(X)[i,j] of batch entry l; a batch of one serves all. */
static double op(const layerops_matrix *x, int trans, int64_t l, int64_t i, int64_t j) {
  if (x->batch == 1) l = 0;
  return trans ? lo_ref_load_at(x, l, j, i) : lo_ref_load_at(x, l, i, j);
}

/* Value i of a scale or zero point: of one for all, or of one each. */
static double each(const layerops_matrix *v, int64_t i, double absent) {
  return lo_present(v) ? lo_ref_load(v, 0, v->cols == 1 ? 0 : i) : absent;
}

/* Sums of products of 8-bit integers are an int32, which a zero point beyond 8 bits may make wrap
 * around. */
static double wrapped(int64_t sum) {
  return (double)(int32_t)(uint32_t)(uint64_t)sum;
}

static double integer_sum(const layerops_gemm_args *a, int64_t l, int64_t i, int64_t j) {
  const int64_t k = a->trans_a ? a->a.rows : a->a.cols;
  const double zero = each(&a->zero_a, i, 0);
  int64_t sum = 0;
  for (int64_t p = 0; p < k; p++)
    sum +=
        (int64_t)(op(&a->a, a->trans_a, l, i, p) - zero) * (int64_t)op(&a->b, a->trans_b, l, p, j);
  return wrapped(sum) * each(&a->scale_a, i, 1) * each(&a->scale_b, j, 1);
}

layerops_status lo_ref_gemm(layerops_context *ctx, const layerops_gemm_args *a) {
  const bool integers = a->a.type == LAYEROPS_I8 || a->a.type == LAYEROPS_U8;
  double alpha = lo_scalar(&a->alpha), beta = lo_scalar(&a->beta);
  int64_t k = a->trans_a ? a->a.rows : a->a.cols;
  ctx->kernel = "plain";
  for (int64_t l = 0; l < a->c.batch; l++)
    for (int64_t i = 0; i < a->c.rows; i++)
      for (int64_t j = 0; j < a->c.cols; j++) {
        double sum = 0, c = 0;
        if (alpha != 0 && integers) sum = integer_sum(a, l, i, j);
        if (alpha != 0 && !integers)
          for (int64_t p = 0; p < k; p++)
            sum += op(&a->a, a->trans_a, l, i, p) * op(&a->b, a->trans_b, l, p, j);
        if (alpha != 0 && k) c = alpha * sum;
        if (beta != 0) c += beta * lo_ref_load_at(&a->c, l, i, j);
        lo_ref_store_at(&a->c, l, i, j, c);
      }
  return LAYEROPS_OK;
}

/* A product over k = 0 is 0, whatever alpha is. */
static double alpha_of(const layerops_scalar *alpha, const layerops_matrix *x) {
  return x->cols ? lo_scalar(alpha) : 0;
}

/* What follows a forward product, sparse or not: `sum` is element (i, j) of X W^T. */
typedef struct finish {
  const layerops_matrix *bias, *preact, *residual, *y;
  double alpha, slope, scale_y;
  layerops_activation activation;
} finish;

static void store_output(const finish *f, int64_t i, int64_t j, double sum) {
  double z = f->alpha != 0 ? f->alpha * sum : 0;
  if (lo_present(f->bias)) z += lo_ref_load(f->bias, 0, j);
  double y = lo_ref_activation(f->activation, z, f->slope);
  if (lo_present(f->residual)) y += lo_ref_load(f->residual, i, j);
  if (lo_present(f->preact)) lo_ref_store(f->preact, i, j, z);
  lo_ref_store(f->y, i, j, y / f->scale_y);
}

static double layer_integer_sum(const layerops_linear_forward_args *a, int64_t i, int64_t j) {
  const double zero = each(&a->zero_x, i, 0);
  int64_t sum = 0;
  for (int64_t p = 0; p < a->x.cols; p++)
    sum += (int64_t)(lo_ref_load(&a->x, i, p) - zero) * (int64_t)lo_ref_load(&a->w, j, p);
  return wrapped(sum) * each(&a->scale_x, i, 1) * each(&a->scale_w, j, 1);
}

layerops_status lo_ref_linear_forward(layerops_context *ctx,
                                      const layerops_linear_forward_args *a) {
  const bool integers = a->x.type == LAYEROPS_I8 || a->x.type == LAYEROPS_U8;
  finish f = {.bias = &a->bias,
              .preact = &a->preact,
              .residual = &a->residual,
              .y = &a->y,
              .alpha = alpha_of(&a->alpha, &a->x),
              .slope = a->slope.value,
              .scale_y = each(&a->scale_y, 0, 1),
              .activation = a->activation};
  ctx->kernel = "plain";
  for (int64_t i = 0; i < a->y.rows; i++)
    for (int64_t j = 0; j < a->y.cols; j++) {
      double sum = 0;
      if (f.alpha != 0 && integers) sum = layer_integer_sum(a, i, j);
      if (f.alpha != 0 && !integers)
        for (int64_t p = 0; p < a->x.cols; p++)
          sum += lo_ref_load(&a->x, i, p) * lo_ref_load(&a->w, j, p);
      store_output(&f, i, j, sum);
    }
  return LAYEROPS_OK;
}

layerops_status lo_ref_bsr_linear_forward(layerops_context *ctx,
                                          const layerops_bsr_linear_forward_args *a) {
  finish f = {.bias = &a->bias,
              .preact = &a->preact,
              .residual = &a->residual,
              .y = &a->y,
              .alpha = alpha_of(&a->alpha, &a->x),
              .slope = a->slope.value,
              .scale_y = 1,
              .activation = a->activation};
  const layerops_bsr *w = a->w;
  layerops_matrix values = layerops_bsr_values(w);
  ctx->kernel = "plain";
  for (int64_t i = 0; i < a->y.rows; i++)
    for (int64_t j = 0; j < a->y.cols; j++) {
      int64_t row = j / w->block, inside = j % w->block;
      double sum = 0;
      for (int64_t b = w->host_row_start[row]; f.alpha != 0 && b < w->host_row_start[row + 1]; b++)
        for (int64_t p = 0; p < w->block; p++)
          sum += lo_ref_load(&a->x, i, w->host_column[b] * w->block + p) *
                 lo_ref_load(&values, b * w->block + inside, p);
      store_output(&f, i, j, sum);
    }
  return LAYEROPS_OK;
}

static double dz(const layerops_linear_backward_args *a, int64_t i, int64_t j) {
  double d = lo_ref_load(&a->dy, i, j);
  if (a->activation == LAYEROPS_IDENTITY) return d;
  return d * lo_ref_derivative(a->activation, lo_ref_load(&a->saved, i, j), a->slope.value);
}

static void store_dx(const layerops_linear_backward_args *a) {
  for (int64_t i = 0; i < a->dx.rows; i++)
    for (int64_t j = 0; j < a->dx.cols; j++) {
      double sum = 0;
      for (int64_t p = 0; p < a->dy.cols; p++) sum += dz(a, i, p) * lo_ref_load(&a->w, p, j);
      if (a->dx_activation != LAYEROPS_IDENTITY)
        sum *=
            lo_ref_derivative(a->dx_activation, lo_ref_load(&a->dx_saved, i, j), a->dx_slope.value);
      lo_ref_store(&a->dx, i, j, sum);
    }
}

static void store_dw(const layerops_linear_backward_args *a, double beta) {
  for (int64_t i = 0; i < a->dw.rows; i++)
    for (int64_t j = 0; j < a->dw.cols; j++) {
      double sum = 0;
      for (int64_t p = 0; p < a->dy.rows; p++) sum += dz(a, p, i) * lo_ref_load(&a->x, p, j);
      if (beta != 0) sum += beta * lo_ref_load(&a->dw, i, j);
      lo_ref_store(&a->dw, i, j, sum);
    }
}

static void store_dbias(const layerops_linear_backward_args *a, double beta) {
  for (int64_t j = 0; j < a->dbias.cols; j++) {
    double sum = 0;
    for (int64_t p = 0; p < a->dy.rows; p++) sum += dz(a, p, j);
    if (beta != 0) sum += beta * lo_ref_load(&a->dbias, 0, j);
    lo_ref_store(&a->dbias, 0, j, sum);
  }
}

/* dZ is not rounded to its type on its way into the sums: the tolerances know that others do. It is
 * stored last, since it may stand on dY. */
layerops_status lo_ref_linear_backward(layerops_context *ctx,
                                       const layerops_linear_backward_args *a) {
  double beta = lo_scalar(&a->beta);
  ctx->kernel = "plain";
  if (lo_present(&a->dx)) store_dx(a);
  if (lo_present(&a->dw)) store_dw(a, beta);
  if (lo_present(&a->dbias)) store_dbias(a, beta);
  if (lo_present(&a->dz))
    for (int64_t i = 0; i < a->dz.rows; i++)
      for (int64_t j = 0; j < a->dz.cols; j++) lo_ref_store(&a->dz, i, j, dz(a, i, j));
  return LAYEROPS_OK;
}
