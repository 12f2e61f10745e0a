/* The product of common/product.h on the CPU: first a plan, then the run.
 *
 * A plan cuts C into pieces, one after the other in a task; tasks run in parallel and share nothing
 * but the operands, so that there is one parallel region and no barrier. Within a piece:
 *
 *   for stripes of rows                  (all rows, unless k is cut: partial sums need a place)
 *     for blocks of columns              pack W: panels [k][panel], as many as stay in L2
 *       for blocks of k
 *         for blocks of rows             copy X, where it is not used in place
 *           tiles                        microkernel; behind the last block of k the epilogue
 *
 * Each element of C is one chain of additions in k order, which a block of k takes up from the
 * stored f32: bits depend neither on blocks nor on pieces.
 *
 * Columns that would fill a vector badly, and a W that packing would not repay, go by dot tiles
 * instead, which read rows of W as they are stored; their order of additions depends on k alone. */
#ifndef LO_CPU_PRODUCT_H
#define LO_CPU_PRODUCT_H

#include "backends/cpu/cpu.h"

/* Where B is packed weights, its panels, and the rows of the columns that go by dot tiles; else
 * NULL. */
typedef struct lo_packed {
  const float *panels, *rows;
} lo_packed;

/* How W is read: by dot tiles alone; in panels made before, by the caller; where it stands; in
 * panels made here. */
typedef enum lo_how { LO_W_DOT, LO_W_PREPACKED, LO_W_IN_PLACE, LO_W_PACKED, LO_W_HOWS } lo_how;

typedef struct lo_plan {
  const lo_product *p;
  const lo_isa *isa;
  const lo_microkernels *mk;
  /* The product as it is computed: C, or its transpose, whose X is op(B)^T and whose W is op(A)^T.
   * The sums are the same bits; the operand that has less to pack should be W. */
  bool swapped;
  const layerops_matrix *x, *w;
  bool x_k_major, w_k_major;                 /* stored [k][m], [k][n] */
  int64_t m, n, k;                           /* k is 0 where alpha is */
  lo_how how;                                /* W is read */
  int64_t dots;                              /* the last columns, by dot tiles */
  int64_t panel, unit;                       /* columns of a panel of W; pieces are whole units */
  int64_t stripe, block_n, block_k, block_m; /* sizes of the blocks above */
  int64_t wide;                              /* block_n in whole panels */
  bool x_in_place;
  int64_t w_row;                 /* from row to row of the W that dot tiles read */
  bool x_pages;                  /* rows of X fall into one set of L1 */
  lo_packed packed;              /* LO_W_PREPACKED: over the whole k */
  bool dense;                    /* the epilogue of dot tiles runs over dense sums */
  bool plain;                    /* the sums are C */
  bool direct;                   /* the microkernel's own epilogue will do */
  int64_t row_cuts, column_cuts; /* pieces of each matrix of the batch */
  int64_t tasks;
  int64_t w_floats, x_floats, c_floats; /* scratch of a task */
  lo_finish finish;
} lo_plan;

/* Floats from one row to the next of a copy of X: whole cache lines and one more, so that rows fall
 * into different sets of L1. */
static inline int64_t lo_copied_row(int64_t columns) {
  int64_t lines = (columns + 15) / 16;
  return (lines % 2 ? lines + 2 : lines + 1) * 16;
}

/* The plan; sets ctx->kernel. */
void lo_plan_product(layerops_context *ctx, const lo_product *p, lo_plan *plan);

/* Bytes of scratch that the run needs, aligned to a cache line. */
static inline int64_t lo_plan_scratch(const lo_plan *plan) {
  return plan->tasks * (plan->w_floats + plan->x_floats + plan->c_floats) * (int64_t)sizeof(float);
}

void lo_product_run(layerops_context *ctx, const lo_plan *plan, float *scratch);

/* The whole product, scratch included. */
layerops_status lo_product_do(layerops_context *ctx, const lo_product *p);

/* Packs W [depth][n], whose first element is at `from`, to panels: each is `depth` rows of `panel`
 * floats, padded with zeros to whole vectors. */
typedef struct lo_pack {
  const lo_isa *isa;
  const char *from;
  layerops_type type;
  int64_t row;  /* elements from one stored row to the next */
  bool k_major; /* stored [k][n], else [n][k] */
  int64_t panel;
} lo_pack;
void lo_pack_panels(const lo_pack *w, int64_t depth, int64_t n, float *to);

lo_packed lo_packed_of(const lo_product *p);

/* How many columns at the end of n go by dot tiles where both operands are rows of f32. */
int64_t lo_dot_columns(const lo_microkernels *mk, int64_t n, int64_t k);

lo_plane lo_plane_of(const layerops_matrix *m, int64_t batch);
void lo_finish_of(const lo_epilogue *e, const layerops_matrix *c, lo_finish *f);
/* Nothing to do: the sums may be written to C. */
bool lo_finish_is_plain(const lo_finish *f);

/* dX = dY * act'(saved). */
void lo_derive_matrix(layerops_context *ctx, layerops_activation kind, float slope,
                      const layerops_matrix *dy, const layerops_matrix *saved,
                      const layerops_matrix *dx);

/* sum[j] = the sum over the rows of m, in slices of rows that depend on nothing else, + beta *
 * sum[j]. */
int64_t lo_column_sum_scratch(const layerops_matrix *m);
void lo_column_sum(layerops_context *ctx, const layerops_matrix *m, float beta,
                   const layerops_matrix *sum, float *scratch);
/* sum[i] = the sum over the columns of m + beta * sum[i]. */
void lo_row_sum(layerops_context *ctx, const layerops_matrix *m, float beta,
                const layerops_matrix *sum);

#endif
