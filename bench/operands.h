#ifndef BENCH_OPERANDS_H
#define BENCH_OPERANDS_H

/* The data of one row: normally distributed, from a seed; and the float64 answer to check with. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bench/pattern.h"
#include "bench/suite.h"

/* A row's data type: of X, and of the others where they are not said to differ. */
struct bench_type {
  const char *name, *element; /* the library's name of X's elements */
  size_t size;
  double rounding;  /* the most that storing Y changes a value, relative to it */
  double subnormal; /* and where values are tiny, absolutely */
  int format;
  const struct bench_type *w, *y, *bias; /* of W and of Y; NULL: the same; of the bias; NULL: Y's */
  double truncation; /* the most that a product may change each of its factors, relative to it */
  bool fast;         /* LAYEROPS_FAST_ACCUM */
};

static inline const struct bench_type *bench_type_w(const struct bench_type *type) {
  return type->w ? type->w : type;
}
static inline const struct bench_type *bench_type_y(const struct bench_type *type) {
  return type->y ? type->y : type;
}
static inline const struct bench_type *bench_type_bias(const struct bench_type *type) {
  return type->bias ? type->bias : bench_type_y(type);
}

/* f32, f16, bf16, int8 (X of u8, W of i8, bias and Y of f32), tf32 (f32 whose products may be in
   TF32), f8e4m3 and f8e5m2 (bias and Y of bf16), the same with fast sums, and types of X and W as
   f16:i8 (bias and Y as X); ends with a NULL name. */
extern const struct bench_type bench_types[];

/* The entry of that name, NULL if there is none. */
const struct bench_type *bench_type_find(const char *name);

/* The type as devices of a kind ("cpu", "cuda", ...) have it: the tensor cores of GPUs take int8
   with X of i8, and there Y is i8 too. */
const struct bench_type *bench_type_on(const struct bench_type *type, const char *kind);

struct bench_operands {
  const struct bench_row *row;
  const struct bench_type *type;
  enum bench_product product;   /* which of x, w and y it makes; the two others are its data */
  char *name;                   /* the row's id, of backward products as in id/dgrad */
  struct bench_pattern pattern; /* of a block-sparse row */
  void *x, *w, *bias, *y;       /* of the type; w holds the kept blocks of a block-sparse row; a
                                   block-sparse row has no bias */
  int64_t w_count;              /* elements of w */
  float scale_x, *scale_w;      /* of integers, else 0 and NULL: one of X; one for each output, of a
                                   block-sparse row for each kept block */
  float scale_y;                /* of a Y of 8 bits, else 0 */
};

/* What the product makes: a tight matrix, of a block-sparse row's wgrad block below block. */
struct bench_output {
  void *data;
  const struct bench_type *type;
  int64_t rows, cols;
};
struct bench_output bench_operands_output(const struct bench_operands *operands);

/* Standard normal numbers; those of W divided by sqrt(k), so that outputs are of the size that a
   layer's are. int8: such numbers rounded, X's of u8 behind a relu, and scales that give them that
   size. Of a row and a seed, all products have the same pattern and data.
   False when memory is short or the row does not fit into it. */
bool bench_operands_make(const struct bench_row *row, const struct bench_type *type,
                         enum bench_product product, uint64_t seed,
                         struct bench_operands *operands);

/* The same product with W [n,k] expanded, with zeros where no block is kept: dense, without bias.
   Shares the rest with the block-sparse row's, which must outlive it; ROW is its row. Free W alone.
   False: memory is short, or W has a scale a block. */
bool bench_operands_widen(const struct bench_operands *operands, struct bench_row *row,
                          struct bench_operands *wide);

/* Halves W, so that a chain of such layers stays bounded whatever its length. */
void bench_operands_damp(struct bench_operands *operands);

void bench_operands_free(struct bench_operands *operands);

/* Fills the output with NaN, so that what is not written shows. */
void bench_operands_poison(struct bench_operands *operands);

struct bench_check {
  double max_rel_err; /* the largest of |y - exact| / (sum of |x||w| + |bias|), y the output */
  bool wrong;         /* an entry is further away than rounding explains */
  int64_t row, col;   /* of the worst entry */
  double got, expected;
};

/* What a result may be besides the library's own: of another activation, and with parts of its sums
   rounded to Y's type. */
struct bench_latitude {
  int activation;
  bool parts;
};

/* Compares the output with float64 at up to 1024 entries: the corners, the edges, the rest at
 * random. */
struct bench_check bench_operands_check_as(const struct bench_operands *operands,
                                           struct bench_latitude latitude);
struct bench_check bench_operands_check(const struct bench_operands *operands);

/* One element as a double; writing rounds to nearest even. */
double bench_load(const struct bench_type *type, const void *array, int64_t index);
void bench_store(const struct bench_type *type, void *array, int64_t index, float value);

/* Writes COUNT normal numbers times SCALE to array; stream keeps the operands of a seed apart. */
void bench_normal(const struct bench_type *type, void *array, int64_t count, double scale,
                  uint64_t seed, uint64_t stream);

#endif
