/* Block-sparse W on all sides, and as the dense matrix that it stands for. */
#ifndef CF_SPARSE_H
#define CF_SPARSE_H

#include "t/conformance/session.h"

typedef struct cf_sparse {
  layerops_type type, w_type;  /* of the activations; of W */
  int64_t n, k, height, width; /* of W */
  int64_t block_rows, block_cols, count;
  unsigned char *kept; /* block_rows x block_cols */
  bool by_features;    /* the layout of activations */
  cf_fill fill;
  int32_t *row_start, *column;
  double *values;                /* of the blocks, as W's type keeps them, times their scales */
  cf_operand *gate;              /* NULL: none; numbers that make no product inexact */
  cf_operand *dense, *effective; /* [n,k] f32: W; the same with gates. Exact */
  layerops_bsr *w[CF_SIDE_COUNT];
} cf_sparse;

/* A case's W, in blocks that are still to be kept; blocks of `second` where that is a type. */
cf_sparse cf_sparse_of(cf_session *s, layerops_type type, int64_t n, int64_t k, int64_t height,
                       int64_t width);
void cf_keep(cf_session *s, cf_sparse *p, int percent);
/* Draws values, and gates where `gated`: 0 too. */
void cf_sparse_fill(cf_session *s, cf_sparse *p, bool gated);
/* Makes W on a side; the second expects that it can be made. It lives until cf_sparse_free. */
layerops_status cf_sparse_make(cf_session *s, cf_sparse *p, int side);
void cf_sparse_on(cf_session *s, cf_sparse *p, int side);
void cf_sparse_free(cf_sparse *p);

/* As cf_magnitudes, of m samples times W^T (dx: W) over the blocks that count alone, since infinity
 * beside another is no part of the sum. Valid until cf_end. */
double *cf_sparse_magnitudes(cf_session *s, const cf_sparse *p, const cf_operand *o, int64_t m,
                             bool dx);

/* Activations of m samples by the layout; element (sample, feature) of them. */
cf_operand *cf_samples(cf_session *s, const cf_sparse *p, const char *name, layerops_type type,
                       int64_t m, int64_t features, cf_fill fill);
int64_t cf_sample_at(const cf_sparse *p, const cf_operand *o, int64_t i, int64_t j);
static inline int32_t cf_sparse_layout(const cf_sparse *p) {
  return p->by_features ? LAYEROPS_FEATURES_BY_ROW : LAYEROPS_SAMPLES_BY_ROW;
}

#endif
