/* The product of common/product.h by a main loop that adds groups of k (isa/grouped.h): bf16, and
 * 8-bit integers. Cut like the one of product.h: pieces of C are tasks; within one
 *
 *   for stripes of rows              (all rows, unless k is cut: partial sums need a place)
 *     for blocks of columns          as many panels of W as stay in L2, packed now or before
 *       for blocks of k
 *         for slabs of rows          X in place, or copied as words
 *           panels                   a tile; behind the last block of k scales and the epilogue
 *           columns that fill a vector badly: dot tiles, which read rows of W
 *
 * Sums of a block of k go on from the stored ones, so that bits depend on no cut. */
#ifndef LO_CPU_DOT_PRODUCT_H
#define LO_CPU_DOT_PRODUCT_H

#include "backends/cpu/product.h"

/* A whole W in the layout of a main loop: panel after panel, then the sums of its columns (of
 * integers), then the rows of W that dot tiles read. */
typedef struct lo_grouped_packed {
  const lo_grouped *dot;
  int64_t n, k;
  uint32_t *panels;
  int32_t *sums;
  char *rows;
} lo_grouped_packed;

typedef struct lo_grouped_plan {
  const lo_product *p;
  const lo_isa *isa;
  const lo_grouped *dot;
  const lo_grouped_packed *packed; /* NULL: W is packed block by block */
  lo_grouped_words x, w;           /* how the operands become words; `from` is set later */
  int64_t m, n, k;                 /* k is 0 where alpha is */
  int64_t dots, tiled;             /* columns by dot tiles: the last of n; and the others */
  bool dense;                      /* their epilogue runs over dense sums */
  int64_t words;                   /* of k, padded to the loop's depth */
  bool integers, x_in_place, corrects;
  bool copies_stripes; /* X is copied a stripe at a time, once for all columns; else slab by slab */
  int64_t x_row;       /* words from row to row of the copy */
  int64_t stripe, block_n, block_k; /* sizes of the blocks above; of k in elements */
  int64_t wide;                     /* block_n in whole panels */
  int64_t row_cuts, column_cuts;    /* pieces of each matrix of the batch */
  int64_t tasks;
  int64_t w_bytes, sums_bytes, x_bytes, c_bytes; /* scratch of a task */
  lo_scaling scaling;
  bool out_in_registers; /* the main loop runs the epilogue */
  bool streams;          /* k is short: W in registers, rows stream by */
  int64_t slab;          /* rows at most that meet a panel at once */
  lo_finish finish;
} lo_grouped_plan;

/* Words of `k` elements in whole steps of the loop. */
static inline int64_t lo_grouped_depth(const lo_grouped *dot, int64_t k) {
  return ((k + dot->depth - 1) & -(int64_t)dot->depth) * dot->size / 4;
}

/* The columns that are cut into pieces: those of tiles, unless there are none. */
static inline int64_t lo_grouped_cut_columns(const lo_grouped_plan *plan) {
  return plan->tiled ? plan->tiled : plan->n;
}

/* How operands become the loop's words. */
lo_grouped_words lo_grouped_x(const lo_grouped *dot, const layerops_matrix *x, bool k_major);
lo_grouped_words lo_grouped_w(const lo_grouped *dot, const layerops_matrix *w, bool k_major);

/* Columns of W, from w->from on, as panels, and (where `sums` is not NULL) the sums of their k. */
void lo_grouped_pack_panels(const lo_isa *isa, const lo_grouped *dot, const lo_grouped_words *w,
                            int64_t k, int64_t columns, uint32_t *panels, int32_t *sums);

/* The main loop that multiplies operands of these types, or NULL. Sets ctx->kernel. */
const lo_grouped *lo_grouped_choose(layerops_context *ctx, layerops_type a, layerops_type b,
                                    int64_t n, int64_t k);

/* Whether the loop can finish sums in its registers; and what it does then with the tile at (i, j)
 * of C, where `bias` is room for one that is converted. */
bool lo_grouped_finishes(const lo_grouped *dot, const lo_finish *f);
lo_grouped_out lo_grouped_out_of(const lo_isa *isa, const lo_finish *f, int64_t i, int64_t j,
                                 int columns, float bias[LO_GROUPED_PANEL]);

/* How many columns at the end of n go by dot tiles where rows of both operands can be read. */
int64_t lo_grouped_dot_columns(const lo_grouped *dot, int64_t n, int64_t k);

/* Bytes from one packed row for dot tiles to the next. */
static inline int64_t lo_grouped_dot_row(const lo_grouped *dot, int64_t k) {
  return lo_copied_row((k * dot->size + 3) / 4) * 4;
}

/* Packs the whole of W [n,k] (k_major: stored [k,n]) to memory of lo_grouped_pack_bytes(), aligned
 * to a cache line. */
int64_t lo_grouped_pack_bytes(const lo_grouped *dot, int64_t n, int64_t k);
void lo_grouped_pack(layerops_context *ctx, const lo_grouped *dot, const layerops_matrix *w,
                     bool k_major, void *memory, lo_grouped_packed *packed);

/* Back to rows of W. */
void lo_grouped_unpack(const lo_isa *isa, const lo_grouped_packed *packed,
                       const layerops_matrix *w);
/* op(B) where it is packed weights in such a layout, else NULL (weights.c). */
const lo_grouped_packed *lo_grouped_packed_of(const lo_product *p);

/* False where no main loop takes the operands. `packed`: op(B), packed before, or NULL. */
bool lo_grouped_plan_product(layerops_context *ctx, const lo_product *p,
                             const lo_grouped_packed *packed, lo_grouped_plan *plan);
int64_t lo_grouped_plan_scratch(const lo_grouped_plan *plan);
void lo_grouped_run(layerops_context *ctx, const lo_grouped_plan *plan, void *scratch);

#endif
