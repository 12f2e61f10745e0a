/* softmax and cross-entropy. */
#include <config.h>

#include <math.h>

#include "backends/cpu/reference.h"
#include "common/door.h"

/* The largest of a row, NaN being larger than all, and where it first stands (-1: the row is
 * empty). */
static int64_t largest(const layerops_matrix *x, int64_t i, double *value) {
  int64_t at = -1;
  *value = -INFINITY;
  for (int64_t j = 0; j < x->cols; j++) {
    double v = lo_ref_load(x, i, j);
    if (at >= 0 && !(v > *value) && !(isnan(v) && !isnan(*value))) continue;
    at = j;
    *value = v;
  }
  return at;
}

/* exp(x - shift) / sum is the softmax of row i, x - shift - log(sum) its logarithm. An infinite
 * shift makes both NaN, as ops.h says. */
typedef struct row {
  double shift, sum;
  int64_t largest;
} row;

static row look(const layerops_matrix *x, int64_t i) {
  row r = {.sum = 0};
  r.largest = largest(x, i, &r.shift);
  for (int64_t j = 0; j < x->cols; j++) r.sum += exp(lo_ref_load(x, i, j) - r.shift);
  return r;
}

static double log_softmax(const row *r, double x) {
  return x - r->shift - log(r->sum);
}
static double softmax(const row *r, double x) {
  return exp(x - r->shift) / r->sum;
}

layerops_status lo_ref_softmax(layerops_context *ctx, const layerops_softmax_args *a) {
  ctx->kernel = "plain";
  for (int64_t i = 0; i < a->y.rows; i++) {
    row r = look(&a->x, i);
    for (int64_t j = 0; j < a->y.cols; j++) {
      double x = lo_ref_load(&a->x, i, j);
      lo_ref_store(&a->y, i, j, a->log ? log_softmax(&r, x) : softmax(&r, x));
    }
  }
  return LAYEROPS_OK;
}

/* What row i should have been: a label, or probabilities. */
typedef struct truth {
  bool counts;
  int64_t label; /* the right column, or that of the largest probability */
  double weight; /* the sum of the probabilities */
} truth;

static truth true_row(const layerops_cross_entropy_args *a, int64_t i) {
  truth t = {.counts = true, .weight = 1};
  if (lo_present(&a->labels)) {
    t.label = (int64_t)lo_ref_load(&a->labels, 0, i);
    t.counts = !a->ignore_label.kind || t.label != (int64_t)a->ignore_label.value;
    return t;
  }
  double value;
  t.label = largest(&a->probabilities, i, &value);
  t.weight = 0;
  for (int64_t j = 0; j < a->probabilities.cols; j++)
    t.weight += lo_ref_load(&a->probabilities, i, j);
  return t;
}

static double probability(const layerops_cross_entropy_args *a, const truth *t, int64_t i,
                          int64_t j) {
  return lo_present(&a->labels) ? j == t->label : lo_ref_load(&a->probabilities, i, j);
}

static double row_loss(const layerops_cross_entropy_args *a, const truth *t, const row *r,
                       int64_t i) {
  double loss = 0;
  for (int64_t j = 0; j < a->logits.cols; j++) {
    double p = probability(a, t, i, j);
    if (p != 0) loss -= p * log_softmax(r, lo_ref_load(&a->logits, i, j));
  }
  return loss;
}

static void store_gradient(const layerops_cross_entropy_args *a, const truth *t, const row *r,
                           int64_t i, double scale) {
  for (int64_t j = 0; j < a->dlogits.cols; j++) {
    double d = 0;
    if (t->counts)
      d = scale * (softmax(r, lo_ref_load(&a->logits, i, j)) * t->weight - probability(a, t, i, j));
    lo_ref_store(&a->dlogits, i, j, d);
  }
}

static int64_t rows_that_count(const layerops_cross_entropy_args *a) {
  int64_t count = 0;
  for (int64_t i = 0; i < a->logits.rows; i++) count += true_row(a, i).counts;
  return count;
}

layerops_status lo_ref_cross_entropy(layerops_context *ctx, const layerops_cross_entropy_args *a) {
  int64_t ignore = a->ignore_label.kind ? (int64_t)a->ignore_label.value : LO_NOTHING_IGNORED;
  ctx->kernel = "plain";
  if (lo_present(&a->labels))
    LO_TRY(lo_check_labels("cross_entropy", "labels", &a->labels, a->logits.cols, ignore));
  int64_t count = rows_that_count(a), correct = 0;
  double reduce = a->reduction == LAYEROPS_MEAN && count ? 1.0 / (double)count : 1, total = 0;
  double scale = lo_scalar(&a->grad_scale) * reduce;
  for (int64_t i = 0; i < a->logits.rows; i++) {
    truth t = true_row(a, i);
    row r = look(&a->logits, i);
    double loss = t.counts ? row_loss(a, &t, &r, i) : 0;
    total += loss;
    correct += t.counts && r.largest >= 0 && r.largest == t.label;
    if (lo_present(&a->losses)) lo_ref_store(&a->losses, 0, i, loss);
    if (lo_present(&a->dlogits)) store_gradient(a, &t, &r, i, scale);
  }
  if (lo_present(&a->loss)) lo_ref_store(&a->loss, 0, 0, total * reduce);
  if (lo_present(&a->correct)) lo_ref_store(&a->correct, 0, 0, (double)correct);
  return LAYEROPS_OK;
}
