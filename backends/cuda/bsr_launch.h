/* Block-sparse products: what their kernels take, and how they are launched (launch.h). */
#ifndef LO_CUDA_BSR_LAUNCH_H
#define LO_CUDA_BSR_LAUNCH_H

#include "backends/cuda/launch.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- On ordinary cores: all types, layouts and blocks */

/* Lines of blocks: Y = X W^T by block rows, or, turned, X W by block columns. */
typedef struct lo_cu_bsr_simt {
  lo_cu_view x;  /* a row is a sample, or, by features, a feature; and so it is of the outputs */
  const void *w; /* values of w_type, blocks one after the other */
  const int *start, *index, *place; /* the lists; place: where turned */
  const float *gate, *scales;       /* a number a block, or NULL */
  lo_i64 m, n, k;                   /* samples; features of Y, and of X */
  unsigned tiles_m, tiles_n;
  unsigned band;      /* rows of tiles that are walked together */
  int n_log2, k_log2; /* sides of blocks, along n and k */
  int width_log2;     /* a block's width */
  int parts_log2;     /* tiles along n of a line */
  int w_type, turned, features;
  lo_cu_epilogue e;
} lo_cu_bsr_simt;

/* Their tiles, of samples by features: as LO_CU_TILES, with the steps of a tile in SLICES. BK
 * divides blocks' sides along k, BN those along n. X(NAME, BM, BN, BK, TM, TN, LX, SLICES, BLOCKS)
 */
#define LO_CU_BSR_LINES(X)                                                                         \
  X(128x128, 128, 128, 8, 16, 8, 8, 1, 2)                                                          \
  X(128x64, 128, 64, 16, 8, 8, 8, 1, 3)                                                            \
  X(128x32, 128, 32, 16, 8, 4, 8, 1, 4)                                                            \
  X(128x32_k8, 128, 32, 8, 8, 8, 4, 1, 6)                                                          \
  X(256x16, 256, 16, 16, 8, 4, 4, 1, 4)                                                            \
  X(128x8, 128, 8, 8, 8, 4, 2, 1, 12)                                                              \
  X(16x32_w8, 16, 32, 16, 4, 4, 8, 8, 2)                                                           \
  X(32x32_w8, 32, 32, 16, 8, 4, 8, 8, 2)                                                           \
  X(32x32_w4, 32, 32, 16, 8, 4, 8, 4, 4)                                                           \
  X(32x16_w4, 32, 16, 16, 4, 4, 4, 4, 5)                                                           \
  X(64x8_w4, 64, 8, 8, 4, 4, 2, 4, 4)

/* The gradients of values and gates: tiles of a block row's height by several of its kept blocks,
 * side by side; or of a part of a block. */
typedef struct lo_cu_bsr_values {
  lo_cu_view dz, x;          /* as lo_cu_bsr_simt's */
  lo_cu_view values, to;     /* to: dW, or absent */
  const int *start, *column; /* kept blocks by rows */
  const float *gate;         /* or NULL */
  float *parts;              /* of each block's dgate, one for each tile; or NULL */
  lo_cu_scalar beta;
  lo_i64 m, n, k; /* samples; rows and columns of W */
  unsigned lines; /* block rows */
  int height_log2, width_log2;
  int down_log2, across_log2; /* tiles of a block */
  int features;
} lo_cu_bsr_values;

/* X(NAME, BM, BN, BK, TM, TN, LX, SLICES, BLOCKS) */
#define LO_CU_BSR_VALUES(X)                                                                        \
  X(128x128, 128, 128, 8, 16, 8, 8, 1, 2)                                                          \
  X(64x128, 64, 128, 8, 8, 8, 8, 1, 3)                                                             \
  X(32x128, 32, 128, 8, 4, 8, 8, 1, 4)                                                             \
  X(16x128, 16, 128, 8, 4, 8, 8, 1, 8)                                                             \
  X(8x128, 8, 128, 8, 4, 8, 16, 1, 12)                                                             \
  X(32x32_w8, 32, 32, 16, 8, 4, 8, 8, 2)                                                           \
  X(32x32_w4, 32, 32, 16, 8, 4, 8, 4, 4)                                                           \
  X(16x32_w4, 16, 32, 16, 4, 4, 8, 4, 5)                                                           \
  X(8x64_w4, 8, 64, 8, 4, 4, 16, 4, 5)

/* Sums of rows: the parts of dgate; dbias of features by row. */
typedef struct lo_cu_bsr_sums {
  lo_cu_view x, y;
  lo_cu_scalar beta;
} lo_cu_bsr_sums;

/* ---- Block-sparse products of 16-bit types. A line of blocks is a row of them, or, turned (by the
 * transposed view), a column; units are the square parts of blocks that large products go by. */

/* Side of units; of steps: columns of a slab of X, rows of the result, lines of units in a group,
 * slabs and units that a step has at most; of chunks: columns of a slab of dZ or X, slabs, units,
 * and how many chunks an SM has at once. X(UNIT, SLAB, ROWS, GROUP, SLABS, UNITS, CHUNK_SLAB,
 * CHUNK_SLABS, CHUNK_UNITS, RESIDENT) */
#define LO_CU_BSR_SHAPES(X)                                                                        \
  X(32, 32, 256, 4, 2, 4, 32, 10, 8, 2)                                                            \
  X(16, 64, 128, 16, 2, 16, 32, 32, 104, 1)

/* A step: int column[SLABS], where slabs begin in a row of X, -1 for none; int unit[UNITS], where
 * units begin among the values, in 8 elements; u16 code[UNITS], a unit's line in the group and,
 * below LO_CU_BSR_LINE_SHIFT, where its columns begin among the slabs as they lie in shared memory,
 * in 16 bytes; u8 start[8]: where the units of each quarter of the lines begin, and end. */
#define LO_CU_BSR_LINE_SHIFT               11
#define LO_CU_BSR_STEP_WORDS(SLABS, UNITS) (((SLABS) + (UNITS) + (UNITS) / 2 + 2 + 3) / 4 * 4)
/* A chunk: int units, slabs of dZ, slabs in all, 0; int column[SLABS]; int unit[UNITS]; and of each
 * unit four u8: its slab of dZ, of X, and where it begins in these, in 8 elements, array by array.
 */
#define LO_CU_BSR_CHUNK_WORDS(SLABS, UNITS) ((4 + (SLABS) + 2 * (UNITS) + 3) / 4 * 4)

/* A line's head: the line; how many blocks it keeps; where these begin in the lists; 0; and of the
 * first ones each the number in the line and the place among the values. */
enum { LO_CU_BSR_ENTRIES = 14, LO_CU_BSR_HEAD_WORDS = 4 + 2 * LO_CU_BSR_ENTRIES };

typedef struct lo_cu_bsr16 {
  const void *x, *w;
  lo_i64 x_stride, m, n, k, tiles_m;
  int k_log2, n_log2;               /* sides of blocks, along k and n */
  int parts_log2;                   /* direct kernels: tiles along n of a line of blocks */
  const int *start, *index, *place; /* direct kernels: the lists; place: where turned */
  const void *steps;                /* others */
  const int *first, *order;         /* of each group: its first step; groups by falling length */
  int groups;
  int pitch_log2;  /* width of a block */
  unsigned *taken; /* boxes: two counters, 0 between launches */
  lo_cu_epilogue e;
  const int *heads; /* direct kernels: of the lines, which go in that order */
} lo_cu_bsr16;

typedef struct lo_cu_boxed_bsr16 {
  lo_cu_map x, w;
  lo_cu_bsr16 p;
} lo_cu_boxed_bsr16;

/* An item of the gradient of the weights: a line of blocks; the number, among all chunks of 8
 * columns that are kept, of the first of four that follow each other in the line; and where these
 * begin in a row of X, -1 for none. */
enum { LO_CU_BSR_CHUNKS = 4, LO_CU_BSR_ITEM_WORDS = 2 + LO_CU_BSR_CHUNKS };

/* dW = dZ^T X where blocks are kept. */
typedef struct lo_cu_bsr_wgrad {
  const void *z, *x, *chunks;
  lo_i64 z_stride, x_stride, m, n, k;
  lo_i64 values;  /* rows of the matrix of values */
  int pitch_log2; /* width of a block */
  lo_cu_epilogue e;
  const int *items;       /* direct kernels */
  int n_log2, parts_log2; /* height of a block; its parts, of as many columns of dZ as a tile has */
} lo_cu_bsr_wgrad;

typedef struct lo_cu_boxed_bsr_wgrad {
  lo_cu_map z, x;
  lo_cu_bsr_wgrad p;
} lo_cu_boxed_bsr_wgrad;

/* Products whose blocks have sides of multiples of 64, on Hopper (bsr_wgmma.cuh). A span: int line,
 * begin, end, 0, the kept blocks begin ... end - 1 of a line, or of a part of it. */
typedef struct lo_cu_bsr_wgmma {
  lo_cu_boxed_gemm boxed; /* wgrad: C is the matrix of values */
  const int *spans;
  const int *other, *place; /* of kept blocks: their column (row), and where their values are */
  int depth, height, width; /* k of a block; its rows among the values; its outputs in a row */
  int parts;                /* tiles of a block */
  int rows, cols;           /* wgrad: of W, outside of which values are 0 */
  int ragged;               /* wgrad: blocks stand out of W */
  unsigned tiles, tiles_m, lines;
  unsigned high;   /* tiles below each other that go through all lines together */
  unsigned *taken; /* two counters, 0 between launches */
} lo_cu_bsr_wgmma;

enum { LO_CU_BSR_FORWARD, LO_CU_BSR_DGRAD, LO_CU_BSR_WGRAD };

/* Forward and dgrad: TEAMS teams take turns, each with SHARE groups of four warps, 64 outputs of a
 * line each, by ROWS rows of X. X(NAME, TEAMS, SHARE, ROWS, STAGES) */
#define LO_CU_BSR_LINE_TILES(X)                                                                    \
  X(256x128, 1, 2, 256, 4)                                                                         \
  X(256x64, 2, 1, 256, 5)                                                                          \
  X(128x64, 2, 1, 128, 8)

/* wgrad: GM x GN groups, each with TALL blocks' BN columns, their width, of 64 rows.
 * X(NAME, GM, GN, TALL, BN, STAGES) */
#define LO_CU_BSR_RUN_TILES(X)                                                                     \
  X(64x128, 1, 2, 1, 64, 4)                                                                        \
  X(128x128, 2, 1, 1, 128, 6)                                                                      \
  X(64x256, 1, 2, 1, 128, 4)

/* Direct kernels: 16 MT WARPS_M x 8 NT outputs; WARPS_K share out the kept blocks, with DEPTH times
 * four chunks on their way at once; RESIDENT blocks on an SM. X(NAME, MT, NT, WARPS_M, WARPS_K,
 * DEPTH, RESIDENT) */
#define LO_CU_BSR_DIRECT(X)                                                                        \
  X(32x32, 2, 4, 1, 4, 2, 4)                                                                       \
  X(32x32_w8, 2, 4, 1, 8, 2, 2)                                                                    \
  X(32x32_w2, 2, 4, 1, 2, 1, 10)                                                                   \
  X(64x16, 4, 2, 1, 2, 1, 9)                                                                       \
  X(32x8, 2, 1, 1, 1, 2, 16)

/* Rings kernels: 32 WARPS_M rows of the result by 8 NT columns, stages of each warp. X(NAME, NT,
 * WARPS_M, WARPS_K, STAGES, RESIDENT) */
#define LO_CU_BSR_RINGS(X)                                                                         \
  X(32x32, 4, 1, 4, 3, 4)                                                                          \
  X(64x32, 4, 2, 2, 2, 5)                                                                          \
  X(32x16, 2, 1, 4, 3, 4)

/* Slab kernels: strips of 16 columns of a block of threads; room for whole rows of X. */
enum { LO_CU_BSR_STRIPS = 16, LO_CU_BSR_SLAB_ROWS = 32, LO_CU_BSR_SLAB_BYTES = 56 * 1024 };

/* Direct kernels for the gradient of the weights: 8 STRIPS columns of dZ, WARPS, of which each has
 * DEPTH times 32 samples on their way. X(NAME, STRIPS, WARPS, DEPTH) */
#define LO_CU_BSR_WGRAD_DIRECT(X)                                                                  \
  X(32, 4, 8, 1)                                                                                   \
  X(16, 2, 8, 1)                                                                                   \
  X(8, 1, 8, 1)

/* ---- Block-sparse products through a ring of stages in shared memory (bsr_features.cuh). */
typedef struct lo_cu_bsr_features {
  lo_cu_bsr16 p;
  const float *gate, *scale; /* of kept blocks, or NULL */
  int loose;                 /* rows of X begin elsewhere than on borders of 16 bytes */
  int narrow;                /* values are 8-bit integers */
} lo_cu_bsr_features;

/* BM samples by BN features of a block of PARTS_M x PARTS_N warps, with STAGES stages; RESIDENT
 * blocks on an SM. Kinds of products: by features without factors; with, in either layout. X(NAME,
 * BM, BN, PARTS_M, PARTS_N, STAGES, RESIDENT) */
#define LO_CU_BSR_FEATURES(X)                                                                      \
  X(64x16, 64, 16, 4, 1, 8, 5)                                                                     \
  X(64x32, 64, 32, 2, 2, 8, 4)                                                                     \
  X(128x16, 128, 16, 4, 1, 4, 6)                                                                   \
  X(128x32, 128, 32, 4, 1, 4, 4)                                                                   \
  X(128x64, 128, 64, 2, 2, 4, 3)                                                                   \
  X(128x128, 128, 128, 2, 2, 4, 2)
#define LO_CU_BSR_FEATURES_FACTORS(X)                                                              \
  X(64x16, 64, 16, 4, 1, 8, 5)                                                                     \
  X(64x32, 64, 32, 2, 2, 8, 4)                                                                     \
  X(128x16, 128, 16, 4, 1, 4, 4)                                                                   \
  X(128x32, 128, 32, 4, 1, 4, 4)                                                                   \
  X(128x64, 128, 64, 2, 2, 4, 2)

/* Bytes of the stages, 32 elements of k each. */
#define LO_CU_BSR_FEATURES_STAGES(BM, BN, STAGES) (64 * ((BM) + (BN)) * (STAGES))

/* dW = gate dZ^T X where blocks are kept, and the gradient of the gates, SPAN / SIDE blocks of at
 * most SIDE x SIDE by WARPS warps; X and dZ of either layout. X(SIDE, SPAN, WARPS) */
#define LO_CU_BSR_FEATURES_SIDES(X)                                                                \
  X(8, 64, 4) X(16, 64, 4) X(32, 64, 4) X(64, 64, 4) X(128, 128, 8)
#define LO_CU_BSR_FEATURES_WGRAD_STAGES(SPAN) (768 * (SPAN)) /* bytes */
typedef struct lo_cu_bsr_features_wgrad {
  const void *z, *x, *w; /* w: the values, where dgate is wanted */
  lo_i64 z_stride, x_stride, m, n, k;
  const int *row, *place, *column;
  const float *gate; /* or NULL */
  float *dgate;      /* or NULL */
  int count, height, width;
  int loose; /* rows of dZ or X begin elsewhere than on borders of 16 bytes */
  lo_cu_factor beta;
  lo_cu_epilogue e; /* of dW: e.c.p is NULL where that is not wanted */
} lo_cu_bsr_features_wgrad;

/* ---- Launches */
/* tile: of LO_CU_BSR_LINES, of LO_CU_BSR_VALUES. Of the grid only x counts. */
int lo_cu_run_bsr_lines(int tile, const lo_cu_bsr_simt *p, lo_cu_grid grid, void *stream);
int lo_cu_run_bsr_values(int tile, const lo_cu_bsr_values *p, lo_cu_grid grid, void *stream);
/* y[i] = the sum of row i of x + beta y[i]; y is one row. */
int lo_cu_run_row_sums(const lo_cu_bsr_sums *p, lo_cu_grid grid, void *stream);
/* Block-sparse products of 16-bit types, by rows of blocks or turned. tile: of LO_CU_BSR_DIRECT;
 * loose: rows of X begin or end elsewhere than on borders of 16 bytes; shape: of LO_CU_BSR_SHAPES.
 * Of the grid only x counts. */
int lo_cu_run_bsr_direct(int tile, int bf16, int turned, int loose, const lo_cu_bsr16 *p,
                         lo_cu_grid grid, void *stream);
int lo_cu_run_bsr_rings(int tile, int bf16, int turned, const lo_cu_bsr16 *p, lo_cu_grid grid,
                        void *stream);
int lo_cu_run_bsr_slab(int bf16, int turned, const lo_cu_bsr16 *p, lo_cu_grid grid, void *stream);
int lo_cu_run_bsr_group(int shape, int bf16, int turned, const lo_cu_bsr16 *p, lo_cu_grid grid,
                        void *stream);
int lo_cu_run_bsr_boxes(int shape, int bf16, int turned, const lo_cu_boxed_bsr16 *p,
                        lo_cu_grid grid, void *stream);
/* product: LO_CU_BSR_FORWARD, ...; tile: of LO_CU_BSR_LINE_TILES, or wgrad's. */
int lo_cu_run_bsr_wgmma(int product, int tile, const lo_cu_bsr_wgmma *p, lo_cu_grid grid,
                        void *stream);
/* The gradient of the weights: a block of the grid a chunk. */
int lo_cu_run_bsr_wgrad(int shape, int bf16, const lo_cu_bsr_wgrad *p, lo_cu_grid grid,
                        void *stream);
int lo_cu_run_bsr_wgrad_direct(int tile, int bf16, int loose, const lo_cu_bsr_wgrad *p,
                               lo_cu_grid grid, void *stream);
int lo_cu_run_bsr_wgrad_boxes(int shape, int bf16, const lo_cu_boxed_bsr_wgrad *p, lo_cu_grid grid,
                              void *stream);
/* tile: of LO_CU_BSR_FEATURES; with factors: of LO_CU_BSR_FEATURES_FACTORS. Of the grid only x
 * counts. */
typedef struct lo_cu_bsr_features_kind {
  int turned, features, factors;
} lo_cu_bsr_features_kind;
int lo_cu_run_bsr_features_f16(int tile, lo_cu_bsr_features_kind kind, const lo_cu_bsr_features *p,
                               lo_cu_grid grid, void *stream);
int lo_cu_run_bsr_features_bf16(int tile, lo_cu_bsr_features_kind kind, const lo_cu_bsr_features *p,
                                lo_cu_grid grid, void *stream);
/* side: a number in LO_CU_BSR_FEATURES_SIDES. */
int lo_cu_run_bsr_features_wgrad(int side, int bf16, int features,
                                 const lo_cu_bsr_features_wgrad *p, lo_cu_grid grid, void *stream);

#ifdef __cplusplus
}
#endif

#endif
