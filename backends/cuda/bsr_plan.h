/* Block-sparse weights as the kernels of 16-bit types take them, made once with the weights. */
#ifndef LO_CUDA_BSR_PLAN_H
#define LO_CUDA_BSR_PLAN_H

#include "backends/cuda/bsr_launch.h"
#include "common/bsr.h"

/* Steps of all groups of lines of units, one group after the other. Lines are rows of W, or, by
 * columns, columns; a unit is a square part of a block. */
typedef struct lo_bsr_steps {
  int32_t *words, *first, *order; /* first: groups + 1 numbers; order: groups by falling length */
  int64_t words_count, groups;
} lo_bsr_steps;

/* Chunks of units that lie near each other. */
typedef struct lo_bsr_chunks {
  int32_t *words;
  int64_t words_count, count;
} lo_bsr_chunks;

/* Spans of kept blocks (bsr_launch.h). */
typedef struct lo_bsr_spans {
  int32_t *words;
  int64_t count;
} lo_bsr_spans;

/* ---- bsr_plan.c */

/* The number of the shape in LO_CU_BSR_SHAPES that serves such blocks, or -1. */
int lo_cuda_bsr_shape(const layerops_bsr *w);

layerops_status lo_cuda_bsr_steps_make(const layerops_bsr *w, int shape, bool by_columns,
                                       lo_bsr_steps *steps);
/* For a device with that many processors. */
layerops_status lo_cuda_bsr_chunks_make(const layerops_bsr *w, int shape, int sms,
                                        lo_bsr_chunks *chunks);
void lo_cuda_bsr_steps_free(lo_bsr_steps *steps);
void lo_cuda_bsr_chunks_free(lo_bsr_chunks *chunks);

/* ---- bsr_spans.c */

/* The number of wgrad's tile in LO_CU_BSR_RUN_TILES for such blocks, or -1. */
int lo_cuda_bsr_run_tile(const layerops_bsr *w);

/* All lines, of which `start` says where their kept blocks begin: the longest first. */
layerops_status lo_cuda_bsr_lines_make(const int32_t *start, int64_t lines, lo_bsr_spans *spans);
/* The blocks of each row, as many together as the tile has. */
layerops_status lo_cuda_bsr_runs_make(const layerops_bsr *w, int tile, lo_bsr_spans *spans);
void lo_cuda_bsr_spans_free(lo_bsr_spans *spans);

/* All of it on the device, and what bsr_heads.h has: what layerops_bsr's state is, where the
 * weights have such a form. Places are bytes from the buffer's beginning. */
typedef struct lo_cuda_bsr {
  int shape; /* -1: no steps and no chunks */
  struct {
    int64_t heads, steps, first, order, groups;
  } by[2]; /* rows, columns */
  int64_t items, item_count, chunks, chunk_count;
  int run_tile; /* -1: 64 does not divide the sides of blocks, and there are no spans */
  struct {
    int64_t at, count;
  } spans[3]; /* LO_CU_BSR_FORWARD, ... */
  layerops_buffer *buffer;
} lo_cuda_bsr;

/* ---- bsr_make.c: as lo_bsr_form has them */
layerops_status lo_cuda_bsr_index(layerops_context *ctx, layerops_bsr *w, bool *valid);
layerops_status lo_cuda_bsr_scores(layerops_context *ctx, const lo_bsr_shape *shape,
                                   const layerops_matrix *dense, int32_t score, double *scores);
layerops_status lo_cuda_bsr_gather(layerops_context *ctx, layerops_bsr *w,
                                   const layerops_matrix *dense);
layerops_status lo_cuda_bsr_scatter(layerops_context *ctx, const layerops_bsr *w,
                                    const layerops_matrix *dense);
layerops_status lo_cuda_bsr_clear(layerops_context *ctx, const layerops_bsr *w);

/* ---- bsr_form.c */
extern const struct lo_bsr_form lo_cuda_bsr_form;

#endif
