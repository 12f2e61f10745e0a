/* The products of block-sparse W on the CPU: Y = X W^T and dX = dZ W are one product here, whose
 * output features stand in lines of blocks: block rows of W forward, its block columns backward.
 * The kept blocks of a line are the segments of the microkernel's list, so that sums stay in
 * registers over the whole line. Each element is one chain of multiply-adds in the order of the
 * blocks and within them, whichever way it is computed, but by dots. */
#ifndef LO_CPU_BSR_H
#define LO_CPU_BSR_H

#include "backends/cpu/product.h"

typedef struct lo_bsr_product {
  const lo_isa *isa;
  const layerops_bsr *w;
  bool backward;
  bool by_features; /* a row of the activations is a feature */
  bool invariant;   /* a sample's bits must not depend on the others */
  bool empty;       /* alpha is 0 */
  int64_t m, in_features, out_features;
  lo_plane in;
  const float *values;   /* of W in f32: where they stand, or a copy with scales and gates */
  const lo_grouped *dot; /* that multiplies both operands as they are; NULL: none */
  const float *gate;     /* NULL: all blocks count once */
  lo_finish finish;
  bool plain;      /* the sums are the output */
  int64_t threads; /* that the work is worth */
} lo_bsr_product;

/* A block of a line: where its values begin, and the input features that it meets. */
typedef struct lo_bsr_step {
  int64_t place;
  int64_t from, k;
} lo_bsr_step;

static inline const int32_t *lo_bsr_start(const lo_bsr_product *p) {
  return p->backward ? p->w->host.col_start : p->w->host.row_start;
}
static inline int64_t lo_bsr_lines(const lo_bsr_product *p) {
  return p->backward ? p->w->block_cols : p->w->block_rows;
}
static inline int64_t lo_bsr_longest(const lo_bsr_product *p) {
  return p->backward ? p->w->longest_col : p->w->longest_row;
}
/* Features of a line, of which the last has fewer in the output. */
static inline int64_t lo_bsr_width(const lo_bsr_product *p) {
  return p->backward ? p->w->width : p->w->height;
}
static inline int64_t lo_bsr_depth(const lo_bsr_product *p) {
  return p->backward ? p->w->height : p->w->width;
}
static inline int64_t lo_bsr_outputs(const lo_bsr_product *p, int64_t line) {
  return lo_least(lo_bsr_width(p), p->out_features - line * lo_bsr_width(p));
}

/* The e-th block of all, line by line; false where its gate is 0. */
static inline bool lo_bsr_step_of(const lo_bsr_product *p, int64_t e, lo_bsr_step *step) {
  const layerops_bsr *w = p->w;
  const int64_t block = p->backward ? w->host.place[e] : e, depth = lo_bsr_depth(p);
  step->from = (p->backward ? w->host.row[e] : w->host.column[e]) * depth;
  step->k = lo_least(depth, p->in_features - step->from);
  step->place = block * w->height * w->width;
  return !p->gate || p->gate[block] != 0.0f;
}

/* Scratch of `lists` lists of a line's blocks. */
static inline int64_t lo_bsr_list_floats(const lo_bsr_product *p, int64_t lists) {
  const int64_t bytes = lists * lo_bsr_longest(p) * (int64_t)sizeof(lo_segment);
  return lo_round_up(bytes, 64) / (int64_t)sizeof(float);
}

/* Rows in tiles of about equal height: `higher` ones of each + 1 rows, then others of each. */
typedef struct lo_bsr_split {
  int64_t each, higher, others;
} lo_bsr_split;
static inline lo_bsr_split lo_bsr_split_of(int64_t rows, int64_t highest) {
  const int64_t tiles = lo_cuts(rows, highest), each = rows / tiles, higher = rows - each * tiles;
  return (lo_bsr_split){each, higher, tiles - higher};
}
/* `tile` is the first and moves on. run: the microkernels by height. */
static inline void lo_bsr_tiles(const lo_microkernel *run, lo_bsr_split split, lo_tile *tile) {
  if ((tile->tiles = split.higher)) run[split.each](tile);
  tile->tiles = split.others;
  run[split.each - 1](tile);
}

/* The first line of part `part` of `parts`: parts hold about as many kept blocks, and a little for
 * each line's epilogue. */
int64_t lo_bsr_first_line(const lo_bsr_product *p, int64_t part, int64_t parts);
/* Whether lines can be divided so without one of them being more than a part. */
bool lo_bsr_divides(const lo_bsr_product *p, int64_t parts);

/* The ways to compute it, each with the floats of scratch it needs. */
typedef struct lo_bsr_way {
  lo_kernel kernel;
  bool stored; /* it takes W's values as they are stored, not those in f32 */
  int64_t (*scratch)(const lo_bsr_product *p);
  void (*run)(layerops_context *ctx, const lo_bsr_product *p, float *scratch);
} lo_bsr_way;
extern const lo_bsr_way lo_bsr_grouped, lo_bsr_dots, lo_bsr_features, lo_bsr_samples;

/* dW on the pattern, and the gradient of the gates. */
typedef struct lo_bsr_gradient {
  const lo_isa *isa;
  const layerops_bsr *w;
  bool by_features;
  int64_t m;
  lo_plane dz, x, values, dw; /* dw.base NULL: not wanted */
  const float *gate;
  float *dgate; /* NULL: not wanted */
  float beta;
  int64_t threads; /* that the work is worth */
} lo_bsr_gradient;
int64_t lo_bsr_gradient_scratch(const lo_bsr_gradient *g);
void lo_bsr_gradient_run(layerops_context *ctx, const lo_bsr_gradient *g, float *scratch);

#endif
