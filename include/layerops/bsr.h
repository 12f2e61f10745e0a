/* Block-sparse weights: BSR, blocks in compressed rows. The products with them are in ops.h. */
#ifndef LAYEROPS_BSR_H
#define LAYEROPS_BSR_H

#include <layerops/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- The format ---------------------------------------------------------------------------------
 * W [rows, cols], a layer's [out, in], is cut into blocks of height x width elements, each of 4, 8,
 * 16, 32, 64 or 128, square or not (4 only on "cpu" and "reference"). There are
 *   block_rows = ceil(rows / height), block_cols = ceil(cols / width)
 * so the last ones may be ragged, that is, stand out of W. Of block row r the blocks row_start[r]
 * ... row_start[r + 1] - 1 are kept, block i in block column column[i]; columns ascend within a
 * row. All else is 0. Rows and columns may be empty, and no block, or all, may be kept. W of 3 x 3
 * blocks,
 *   A . B
 *   . . .      has row_start = {0, 2, 2, 3}, column = {0, 2, 1} and the values A, B, C.
 *   . C .
 *
 * All blocks are stored whole: block i begins at element i * height * width of the values, its
 * elements are row-major. What lies outside of W is 0 and stays so. Elements are f32, f16, bf16, or
 * i8 with one f32 scale a block: W = scales[i] * values.
 *
 * A mask is a byte a block, block_rows * block_cols of them, row-major, in host memory: 0 or not.
 * Patterns and pruning write masks (0 or 1), which can be combined by & and |, and weights are made
 * from them.
 *
 * The object belongs to the context's device; all its contexts may use it. A context that makes one
 * may have enqueued the work that fills it: another waits for that (layerops_wait, layerops_sync).
 * The pattern never changes, so it is kept by columns too, for the backward pass; the values are an
 * operand as any other. Threads may use an object together, but while one changes its values.
 * Functions with a context are used by the context's thread and cannot be recorded (STATE); those
 * without are thread-safe. Errors are those of ops.h. What an output argument of a call that failed
 * holds is undefined, but a new object is NULL. */

/* ---- From index arrays, on the host or on the device, or from a mask ----------------------------
 * The pattern is given in one of three ways: row_start and column; device_row_start and
 * device_column; or mask. All is copied: a later change of what was given changes nothing. */
typedef struct layerops_bsr_args {
  int64_t rows, cols;
  int64_t block;            /* the height of blocks, and their width where `width` is 0 */
  int64_t count;            /* kept blocks; with a mask 0 or what it keeps */
  const int32_t *row_start; /* host, block_rows + 1 numbers */
  const int32_t *column;    /* host, count numbers */
  const void *values;       /* host, count * height * width elements of `type`, in the order of the
                               format; NULL: zeros. What lies outside of W is taken as 0 */
  layerops_type type;       /* f32, f16, bf16, i8 */
  int32_t reserved;
  int64_t width;
  const float *scales; /* host, count numbers, i8 alone; NULL: ones */
  const uint8_t *mask; /* host: which blocks are kept */
  /* Views, in place of the arrays without `device_`: of buffers of the device, or of host memory */
  layerops_matrix device_row_start; /* i32 [1, block_rows + 1] */
  layerops_matrix device_column;    /* i32 [1, count] */
  layerops_matrix device_values;    /* [count * height, width]: float, converted as copy does; i8
                                       where `type` is */
  layerops_matrix device_scales;    /* f32 [1, count] */
} layerops_bsr_args;

/* INVALID where row_start does not ascend from 0 to count, or columns do not ascend within a row,
 * or leave the matrix; OVERFLOW where block_rows, block_cols or count do not fit 31 bits. Index
 * arrays on the device are judged alike, from a copy that nobody else can change: on CUDA they are
 * checked and sorted by columns there; elsewhere they are read back for it. The call waits for the
 * verdict. The host keeps the pattern too, and reads it back for that; values are not read back. */
LAYEROPS_API layerops_status layerops_bsr_create_(layerops_context *ctx,
                                                  const layerops_bsr_args *args, size_t size,
                                                  layerops_bsr **bsr);
static inline layerops_status
layerops_bsr_create(layerops_context *ctx, const layerops_bsr_args *args, layerops_bsr **bsr) {
  return layerops_bsr_create_(ctx, args, sizeof(layerops_bsr_args), bsr);
}
LAYEROPS_API void layerops_bsr_destroy(layerops_bsr *bsr); /* NULL is allowed */

/* ---- From a dense matrix ------------------------------------------------------------------------
 * The blocks of the mask, or where it is NULL those with an element that is not 0 (NaN is not), get
 * the values of w, rounded to nearest even. To i8 each block is quantised by itself:
 *   scale = max |w| / 127, but at least 2^-126 (1 where all are 0), value = w / scale, rounded
 * so that an element is off by half a scale at most. NaN or infinity makes a block of i8 all NaN.
 * On CUDA the device does it, where w is in a buffer of it: only which blocks are kept goes through
 * the host. Elsewhere W goes through host memory in parts; the call returns when it is read. */
typedef struct layerops_bsr_dense_args {
  layerops_matrix w;    /* [rows, cols], f32, f16, bf16, f8e4m3, f8e5m2 */
  int64_t block, width; /* as in layerops_bsr_args */
  const uint8_t *mask;  /* NULL or host */
  layerops_type type;   /* of the values: f32, f16, bf16, i8 */
  int32_t reserved;
} layerops_bsr_dense_args;
LAYEROPS_API layerops_status layerops_bsr_from_dense_(layerops_context *ctx,
                                                      const layerops_bsr_dense_args *args,
                                                      size_t size, layerops_bsr **bsr);
static inline layerops_status layerops_bsr_from_dense(layerops_context *ctx,
                                                      const layerops_bsr_dense_args *args,
                                                      layerops_bsr **bsr) {
  return layerops_bsr_from_dense_(ctx, args, sizeof(layerops_bsr_dense_args), bsr);
}

/* ---- From CSR or COO ----------------------------------------------------------------------------
 * Element-wise sparse arrays in host memory, in any order within a row (CSR) or altogether (COO). A
 * block is kept where it has any element, be it 0. Elements of one place are added up, in f32 and
 * in the order given. Values are converted as from_dense does. INVALID where row_start does not
 * ascend from 0 to count, or an index lies outside of W. */
typedef struct layerops_bsr_elements_args {
  int64_t rows, cols;
  int64_t block, width;     /* as in layerops_bsr_args */
  int64_t count;            /* elements */
  const int64_t *row_start; /* CSR: rows + 1 numbers */
  const int64_t *row;       /* COO, in place of row_start: count numbers */
  const int64_t *column;    /* count numbers */
  const float *values;      /* count numbers */
  layerops_type type;       /* of the values: f32, f16, bf16, i8 */
  int32_t reserved;
} layerops_bsr_elements_args;
LAYEROPS_API layerops_status layerops_bsr_from_elements_(layerops_context *ctx,
                                                         const layerops_bsr_elements_args *args,
                                                         size_t size, layerops_bsr **bsr);
static inline layerops_status layerops_bsr_from_elements(layerops_context *ctx,
                                                         const layerops_bsr_elements_args *args,
                                                         layerops_bsr **bsr) {
  return layerops_bsr_from_elements_(ctx, args, sizeof(layerops_bsr_elements_args), bsr);
}

/* ---- Pruning: a mask from the magnitude of a dense matrix ---------------------------------------
 * A block's score is, over its elements w within W (a ragged block has fewer), in double,
 *   L1   sum |w|          L2   sqrt(sum w^2)          MAX   max |w|
 * with NaN as infinity, so that it is kept and shows. Kept are
 *   DENSITY      of all blocks        the floor(density * blocks + 0.5) of the highest scores
 *   ROW_DENSITY  of each block row    the same, of its blocks
 *   N_OF_M       of each m neighbours in a block row, from its first block on, the n of the highest
 *                scores (all, where the last are n or fewer)
 *   THRESHOLD    each block whose score is at least `threshold`
 * Of equal scores that of the lower block (by rows) wins. Numbers that a rule does not use must be
 * 0. */
enum { LAYEROPS_BSR_L1 = 0, LAYEROPS_BSR_L2 = 1, LAYEROPS_BSR_MAX = 2 };
enum {
  LAYEROPS_BSR_DENSITY = 0,
  LAYEROPS_BSR_ROW_DENSITY = 1,
  LAYEROPS_BSR_N_OF_M = 2,
  LAYEROPS_BSR_THRESHOLD = 3
};
typedef struct layerops_bsr_prune_args {
  layerops_matrix w;    /* as in layerops_bsr_dense_args */
  int64_t block, width; /* as in layerops_bsr_args */
  int32_t score;        /* LAYEROPS_BSR_L1, ... */
  int32_t rule;         /* LAYEROPS_BSR_DENSITY, ... */
  double density;       /* in [0, 1] */
  double threshold;     /* 0 or more */
  int64_t n, m;         /* 0 <= n <= m, 1 <= m */
  uint8_t *mask;        /* output */
} layerops_bsr_prune_args;
LAYEROPS_API layerops_status layerops_bsr_prune_(layerops_context *ctx,
                                                 const layerops_bsr_prune_args *args, size_t size);
static inline layerops_status layerops_bsr_prune(layerops_context *ctx,
                                                 const layerops_bsr_prune_args *args) {
  return layerops_bsr_prune_(ctx, args, sizeof(layerops_bsr_prune_args));
}

/* ---- Published patterns -------------------------------------------------------------------------
 * Which blocks (r, c) of a grid R x C are kept; d(r) = floor((2 r + 1) C / (2 R)) is the column on
 * the diagonal. The numbers that a pattern uses stand in brackets; others must be 0.
 *
 *   UNIFORM [density, seed]: each with probability density.
 *   BANDED [density]: max(1, floor(density C + 0.5)) neighbours around the diagonal in each row,
 *     the first being floor((r + 0.5) C/R - number/2 + 0.5), moved into the row.
 *   BLOCK_DIAGONAL [groups]: floor(r groups / R) == floor(c groups / C): grouped layers
 *     (Krizhevsky, Sutskever, Hinton, "ImageNet classification with deep convolutional neural
 *     networks", NIPS 2012).
 *   LOCAL [window, global]: |c - d(r)| <= window, or r < global, or c < global: local window and
 *     global blocks (Ainslie et al., "ETC", EMNLP 2020).
 *   STRIDED [stride]: |c - d(r)| < stride, or c - d(r) is a multiple of it (Child, Gray, Radford,
 *     Sutskever, "Generating long sequences with sparse transformers", 2019; here both ways from
 *     the diagonal).
 *   LONGFORMER [window, dilation, global]: c - d(r) is a multiple of dilation, at most window of
 *     them; or r < global, or c < global (Beltagy, Peters, Cohan, "Longformer", 2020).
 *   BIGBIRD [window, global, random, seed]: LOCAL, and of each row's other blocks `random` ones, or
 *     all where there are fewer (Zaheer et al., "Big Bird", NeurIPS 2020).
 *   BUTTERFLY [levels]: in a square grid of N blocks a row, N a power of 2, r == c, or r and c
 *     differ in one bit, of the lowest `levels` (0: of all): the flat block butterfly (Dao et al.,
 *     "Pixelated butterfly", ICLR 2022). It is stretched: N is the largest power of 2 that is at
 *     most min(R, C), and block (r, c) is that at (floor(r N / R), floor(c N / C)).
 *   BARABASI_ALBERT [links, seed]: a graph of N = min(R, C) nodes, of which node v is linked to
 *     min(v, links) of those before it, drawn with probability proportional to their links so far
 *     (Barabasi, Albert, "Emergence of scaling in random networks", Science 286, 1999). Kept are
 *     the blocks of linked nodes, both ways, and of each node with itself; stretched likewise.
 *   WATTS_STROGATZ [window, rewire, seed]: a ring of N = min(R, C) nodes, each linked to `window`
 *     next ones on both sides; then each link, the shortest first, is with probability rewire moved
 *     at its far end to a node drawn among those that are not linked (Watts, Strogatz, "Collective
 *     dynamics of 'small-world' networks", Nature 393, 1998). Blocks as of BARABASI_ALBERT.
 *
 * Random numbers are Philox4x32-10's (Salmon et al., SC 2011) of the seed: the same everywhere.
 * Gray, Radford and Kingma used the last two ("GPU kernels for block-sparse weights", 2017). */
enum {
  LAYEROPS_BSR_UNIFORM = 0,
  LAYEROPS_BSR_BANDED = 1,
  LAYEROPS_BSR_BLOCK_DIAGONAL = 2,
  LAYEROPS_BSR_LOCAL = 3,
  LAYEROPS_BSR_STRIDED = 4,
  LAYEROPS_BSR_LONGFORMER = 5,
  LAYEROPS_BSR_BIGBIRD = 6,
  LAYEROPS_BSR_BUTTERFLY = 7,
  LAYEROPS_BSR_BARABASI_ALBERT = 8,
  LAYEROPS_BSR_WATTS_STROGATZ = 9,
  LAYEROPS_BSR_PATTERN_COUNT = 10
};
typedef struct layerops_bsr_pattern_args {
  int32_t pattern; /* LAYEROPS_BSR_UNIFORM, ... */
  int32_t reserved;
  int64_t block_rows, block_cols; /* R, C */
  double density, rewire;         /* in [0, 1] */
  int64_t window, global, random; /* 0 or more */
  int64_t stride, dilation;       /* 1 or more */
  int64_t groups, links;          /* 1 or more */
  int64_t levels;                 /* 0 or more */
  uint64_t seed;
  uint8_t *mask; /* output, host, R * C bytes */
} layerops_bsr_pattern_args;
LAYEROPS_API layerops_status layerops_bsr_pattern_(const layerops_bsr_pattern_args *args,
                                                   size_t size);
static inline layerops_status layerops_bsr_pattern(const layerops_bsr_pattern_args *args) {
  return layerops_bsr_pattern_(args, sizeof(layerops_bsr_pattern_args));
}
/* "uniform", "block_diagonal", ...; "?" for an unknown number. */
LAYEROPS_API const char *layerops_bsr_pattern_name(int32_t pattern);

/* ---- What an object has ---- */

typedef struct layerops_bsr_info {
  int64_t rows, cols, height, width, block_rows, block_cols;
  int64_t count;    /* kept blocks */
  int64_t elements; /* of kept blocks, those within W */
  layerops_type type;
  int32_t reserved;
  /* Host memory that lives as long as the object. By rows, as in the format; and by columns: the
   * kept blocks of block column c are place[col_start[c]] ... of the order by rows, and lie in
   * block row row[col_start[c]] ..., which ascends. */
  const int32_t *row_start, *column;
  const int32_t *col_start, *row, *place;
} layerops_bsr_info;
LAYEROPS_API layerops_status layerops_bsr_describe_(const layerops_bsr *bsr,
                                                    layerops_bsr_info *info, size_t size);
static inline layerops_status layerops_bsr_describe(const layerops_bsr *bsr,
                                                    layerops_bsr_info *info) {
  return layerops_bsr_describe_(bsr, info, sizeof(layerops_bsr_info));
}

/* The values as a matrix [count * height, width]: what an optimizer updates. The scales as one
 * [1, count] of f32, absent unless the values are i8. Their buffers live as long as the object.
 * Absent for NULL. */
LAYEROPS_API layerops_matrix layerops_bsr_values(const layerops_bsr *bsr);
LAYEROPS_API layerops_matrix layerops_bsr_scales(const layerops_bsr *bsr);

/* ---- Back ---- */

/* w = W, [rows, cols], f32, f16, bf16, f8e4m3, f8e5m2, rounded to nearest even (i8: scale * value
 * is rounded to f32 first). On CUDA on the device, where w is in a buffer of
 * it; else through host memory in parts: returns when it is done. ALIAS where w
 * overlaps the object's own values. */
LAYEROPS_API layerops_status layerops_bsr_to_dense(layerops_context *ctx, const layerops_bsr *bsr,
                                                   layerops_matrix w);

/* Which blocks are kept: 1, else 0. */
LAYEROPS_API layerops_status layerops_bsr_to_mask(const layerops_bsr *bsr, uint8_t *mask);

/* The elements of kept blocks within W, zeros too, row by row, columns ascending:
 * layerops_bsr_info.elements of them. Each array is in host memory, or NULL: row_start of rows + 1
 * numbers, column and values of `elements` ones. */
LAYEROPS_API layerops_status layerops_bsr_to_csr(layerops_context *ctx, const layerops_bsr *bsr,
                                                 int64_t *row_start, int64_t *column,
                                                 float *values);

#ifdef __cplusplus
}
#endif
#endif
