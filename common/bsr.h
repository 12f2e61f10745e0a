/* What those share who make block-sparse weights. */
#ifndef LO_BSR_H
#define LO_BSR_H

#include "common/context.h"

/* W, cut into blocks. */
typedef struct lo_bsr_shape {
  int64_t rows, cols, height, width, block_rows, block_cols;
} lo_bsr_shape;

/* ---- common/bsr_check.c; messages begin with `function` ---- */

/* `block` and `width` as in layerops_bsr_args. */
layerops_status lo_bsr_check_shape(const char *function, int64_t rows, int64_t cols, int64_t block,
                                   int64_t width, lo_bsr_shape *shape);
layerops_status lo_bsr_check_type(const char *function, layerops_type type);
layerops_status lo_bsr_check_count(const char *function, int64_t count);
/* Whether the device has such blocks at all. */
layerops_status lo_bsr_check_device(const char *function, const layerops_context *ctx,
                                    const lo_bsr_shape *shape);
/* Index arrays of block_rows + 1 and of count numbers. */
layerops_status lo_bsr_check_index(const char *function, const lo_bsr_shape *shape, int64_t count,
                                   const int32_t *row_start, const int32_t *column);

/* What the kernels serve that know no other: UNSUPPORTED in words for the rest. */
layerops_status lo_bsr_whole_squares(const layerops_context *ctx, const layerops_bsr *w);

/* ---- common/bsr_index.c ---- */

/* Sets w->host and the longest row and column, from checked arrays, in one piece of memory that
 * begins at host.row_start. */
layerops_status lo_bsr_index_make(const char *function, layerops_bsr *w, const int32_t *row_start,
                                  const int32_t *column);

/* ---- common/bsr.c ---- */

/* Weights with a copy of this checked pattern. Their values are undefined, and scales too. */
layerops_status lo_bsr_make(const char *function, layerops_context *ctx, const lo_bsr_shape *shape,
                            layerops_type type, int64_t count, const int32_t *row_start,
                            const int32_t *column, layerops_bsr **bsr);

#endif
