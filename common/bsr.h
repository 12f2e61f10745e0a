/* What those share who make block-sparse weights. Messages begin with `function`. */
#ifndef LO_BSR_H
#define LO_BSR_H

#include "common/context.h"

typedef struct lo_door lo_door;

/* W, cut into blocks. */
struct lo_bsr_shape {
  int64_t rows, cols, height, width, block_rows, block_cols;
};

/* Which blocks are kept, by rows. */
typedef struct lo_bsr_pattern {
  int64_t count;
  const int32_t *row_start, *column;
  int32_t *memory; /* both arrays, where they are our own; else NULL */
} lo_bsr_pattern;

/* Zeros; NULL where there is no memory, but not for a count of 0. */
void *lo_bsr_memory(int64_t count, size_t size);
layerops_status lo_bsr_no_memory(const char *function);

/* ---- common/bsr_check.c ---- */

/* `block` and `width` as in layerops_bsr_args. */
layerops_status lo_bsr_check_shape(const char *function, int64_t rows, int64_t cols, int64_t block,
                                   int64_t width, lo_bsr_shape *shape);
layerops_status lo_bsr_check_type(const char *function, layerops_type type);
layerops_status lo_bsr_check_count(const char *function, int64_t count);
layerops_status lo_bsr_check_reserved(const char *function, int32_t reserved);
/* Whether the device has such blocks at all. */
layerops_status lo_bsr_check_device(const char *function, const layerops_context *ctx,
                                    const lo_bsr_shape *shape);
layerops_status lo_bsr_check_pattern(const char *function, const lo_bsr_shape *shape,
                                     const lo_bsr_pattern *pattern);
/* Starts of `lists` lists of `count` numbers ascend from 0 to count. */
layerops_status lo_bsr_check_starts(const char *function, const int64_t *row_start, int64_t lists,
                                    int64_t count);
/* NULL, or of another device. */
layerops_status lo_bsr_check_use(const char *function, const layerops_context *ctx,
                                 const layerops_bsr *w);

/* A number that some choices use and others do not, which then must be 0. */
typedef struct lo_bsr_number {
  const char *name;
  bool used;
  double value, low, high;
} lo_bsr_number;
layerops_status lo_bsr_check_numbers(const char *function, const char *choice,
                                     const lo_bsr_number *numbers, size_t count);

/* ---- common/bsr_mask.c ---- */

/* Memory for a pattern of zeros with `count` blocks. */
layerops_status lo_bsr_pattern_new(const char *function, const lo_bsr_shape *shape, int64_t count,
                                   lo_bsr_pattern *pattern);
layerops_status lo_bsr_pattern_of_mask(const char *function, const lo_bsr_shape *shape,
                                       const uint8_t *mask, lo_bsr_pattern *pattern);

/* ---- common/bsr_index.c ---- */

/* The index arrays of w: row_start, column, col_start, row, place. */
enum { LO_BSR_ARRAYS = 5 };
typedef struct lo_bsr_array {
  const int32_t **host;
  layerops_buffer **device;
  int64_t count;
} lo_bsr_array;
void lo_bsr_arrays_of(layerops_bsr *w, lo_bsr_array arrays[LO_BSR_ARRAYS]);
/* Sets w->host to zeros, in one piece of memory that begins at host.row_start. */
layerops_status lo_bsr_index_memory(const char *function, layerops_bsr *w);
/* Sets w->host to what the pattern says, and the longest row and column. */
layerops_status lo_bsr_index_make(const char *function, layerops_bsr *w,
                                  const lo_bsr_pattern *pattern);

/* ---- common/bsr.c ---- */

/* Weights with a copy of this checked pattern. Their values are undefined, and scales too. */
layerops_status lo_bsr_make(const char *function, layerops_context *ctx, const lo_bsr_shape *shape,
                            layerops_type type, const lo_bsr_pattern *pattern, layerops_bsr **bsr);
/* Weights without a pattern; and all that follows from one. */
layerops_bsr *lo_bsr_new(const layerops_context *ctx, const lo_bsr_shape *shape, layerops_type type,
                         int64_t count);
layerops_status lo_bsr_fill_in(layerops_context *ctx, layerops_bsr *w);
/* What a function that makes weights returns, and sets *bsr to. */
layerops_status lo_bsr_keep(layerops_status status, layerops_bsr *w, layerops_bsr **bsr);
lo_bsr_shape lo_bsr_shape_of(const layerops_bsr *w);

/* ---- common/bsr_views.c: what a device does by itself ---- */

/* Its form, where it can work on such a view; else NULL. */
const struct lo_bsr_form *lo_bsr_form_of(const layerops_context *ctx, const layerops_matrix *view);
/* As lo_bsr_make, of `count` blocks whose index arrays are on the device, and not checked. The
 * device must have a form that can. */
layerops_status lo_bsr_make_from_views(const char *function, layerops_context *ctx,
                                       const lo_bsr_shape *shape, layerops_type type, int64_t count,
                                       const layerops_matrix *row_start,
                                       const layerops_matrix *column, layerops_bsr **bsr);

/* ---- common/bsr_values.c: values as f32 in host memory ---- */

/* Blocks first ... first + count - 1. put rounds, or quantises, and overwrites `blocks`. */
layerops_status lo_bsr_put(const char *function, layerops_context *ctx, layerops_bsr *w,
                           int64_t first, int64_t count, float *blocks);
layerops_status lo_bsr_get(const char *function, layerops_context *ctx, const layerops_bsr *w,
                           int64_t first, int64_t count, float *blocks);

/* Sets to 0 what lies outside of W, below and on its right. */
layerops_status lo_bsr_clear_outside(layerops_context *ctx, const layerops_bsr *w);

/* ---- common/bsr_strip.c: a dense W as f32 in host memory, some block rows at a time ---- */

typedef struct lo_bsr_strip {
  int64_t first, end;     /* block rows */
  int64_t row, row_count; /* rows of W */
  float *rows;            /* row_count x cols */
} lo_bsr_strip;
typedef layerops_status (*lo_bsr_strip_fn)(void *arg, const lo_bsr_strip *strip);

/* Calls `use` for each strip, read from `w` before, or written to it after. */
typedef enum { LO_BSR_READ, LO_BSR_WRITE } lo_bsr_direction;
layerops_status lo_bsr_strips(const char *function, layerops_context *ctx,
                              const lo_bsr_shape *shape, const layerops_matrix *w,
                              lo_bsr_direction direction, lo_bsr_strip_fn use, void *arg);

/* A view of a dense W, and how it is cut. */
layerops_status lo_bsr_door_dense(lo_door *door, layerops_matrix *w, int role, int64_t block,
                                  int64_t width, lo_bsr_shape *shape);

/* ---- common/bsr_prune.c ---- */

/* A score of each block of a dense W: LAYEROPS_BSR_L1, ... */
layerops_status lo_bsr_scores(const char *function, layerops_context *ctx,
                              const lo_bsr_shape *shape, const layerops_matrix *w, int32_t score,
                              double *scores);

#endif
