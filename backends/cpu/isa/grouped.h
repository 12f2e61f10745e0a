/* Main loops that add the products of several k at once: pairs of 16-bit elements, fours of bytes.
 *
 * Such a group is a word of 32 bits, of X as of W, so that to everything around the arithmetic a
 * product over k elements is one over k / group words. A panel of W is [words of k][panel] words,
 * zeros where k or the columns end. */
#ifndef LO_GROUPED_H
#define LO_GROUPED_H

#include <stdbool.h>
#include <stdint.h>

#include "common/context.h"

enum { LO_GROUPED_ROWS = 32, LO_GROUPED_PANEL = 32, LO_GROUPED_SHORT = 13 };

/* Sums of integers become sums[r][c] - zero[r] * column[c], in int32 that wraps around; where there
 * are scales, that as a float times both. An array with step 0 is one value for all. */
typedef struct lo_scaling {
  const int32_t *zero, *column; /* column: NULL where there is nothing to subtract */
  int64_t zero_step;
  int32_t shift; /* in addition to each zero */
  const float *row_scale, *column_scale;
  int64_t row_step, column_step;
} lo_scaling;

/* An epilogue that a loop can run on the sums in its registers: y = max(low, sums + bias), where
 * NaN stays. */
typedef struct lo_grouped_out {
  char *y;
  int64_t y_row; /* bytes */
  layerops_type type;
  const float *bias; /* NULL: none */
  float low;
  lo_scaling scaling; /* of integers */
} lo_grouped_out;

/* C tile [rows][panel] = (load ? C tile : 0) + X tile times a panel; f32 where the elements are
 * bf16, else i32. Columns beyond `columns` may be left out in whole vectors. */
typedef struct lo_grouped_tile {
  const char *x;
  int64_t x_row; /* bytes from one row of X to the next */
  const uint32_t *w;
  int64_t k; /* elements of X; those of W go on in zeros to the loop's depth */
  void *c;
  int64_t c_row; /* words */
  int rows, columns;
  bool load;
  const lo_grouped_out *out; /* where the loop has it: y is written in place of C */
} lo_grouped_tile;

/* c[r][j] = the sum over k of x[r][k] w[j][k], in an order that depends on k alone. */
typedef struct lo_grouped_dots {
  const char *x, *w;
  int64_t x_row, w_row, bytes; /* from row to row; of a row */
  uint32_t flip;               /* bits of X to be changed */
  int rows, columns;
  uint32_t *c;
  int64_t c_row; /* words */
} lo_grouped_dots;

typedef struct lo_grouped {
  /* What the elements are: BF16; U8 (X) by I8 (W); or, both widened to 16 bits, I32 for want of a
   * name. X of that type and row-major is read in place. */
  layerops_type type;
  int size;   /* bytes of an element: a word is a group of 4 / size */
  int depth;  /* elements of k that a step takes, a power of 2: panels are padded to it */
  bool masks; /* reads X to its end and no further; else X has whole steps, as copies have */
  int rows,
      row_unit; /* of a tile at most; memory of X and C has whole units of them, a power of 2 */
  int panel;    /* a power of 2 */
  double flops_per_ns; /* about what a core does: decides only whether threads pay */
  unsigned out_types;  /* of `out`: bits 1 << type */
  void (*run)(const lo_grouped_tile *tile);
  /* The same for k of at most LO_GROUPED_SHORT words, with `out`, and for any number of rows; NULL:
   * has none. */
  void (*run_short)(const lo_grouped_tile *tile);
  void (*dots)(const lo_grouped_dots *tile); /* NULL: has none */
  void (*begin)(void), (*end)(void);         /* around the tiles of a task; NULL: nothing to do */
} lo_grouped;

/* ---- Operands as words ---- */

enum {
  LO_GROUPED_COPY,
  LO_GROUPED_FLIP,
  LO_GROUPED_WIDEN
}; /* as they are; i8 + 128 as u8; to 16 bits */

typedef struct lo_grouped_words {
  const char *from; /* the first element */
  layerops_type type;
  int64_t row; /* elements from one stored row to the next */
  bool k_major;
  int change, size; /* of the elements; bytes of one afterwards */
} lo_grouped_words;

/* A tile of integer sums, to be scaled in place; it and scaling.column go on to whole vectors. */
typedef struct lo_integer_tile {
  int32_t *sums;
  int64_t row, rows, columns;
  lo_scaling scaling;
} lo_integer_tile;

extern const lo_grouped lo_grouped_integers_portable, lo_grouped_integers_avx2,
    lo_grouped_integers_avx512, lo_grouped_integers_neon;
extern const lo_grouped lo_grouped_avx512_bf16, lo_grouped_avx512_vnni, lo_grouped_amx_bf16,
    lo_grouped_amx_int8;

#endif
