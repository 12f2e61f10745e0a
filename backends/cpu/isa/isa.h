/* What an instruction set gives the CPU backend: one table of functions.
 *
 * The files of this folder are compiled once for each instruction set, with its flags and with
 * LO_ISA set to its name; LO_ISA_NAME keeps their functions apart. All but the microkernels and the
 * transposition are plain C that the compiler vectorises. Bits of a result may differ between
 * instruction sets (fused multiply-add), never between positions, lengths or alignments within one.
 */
#ifndef LO_ISA_H
#define LO_ISA_H

#include <stdbool.h>
#include <stdint.h>

#include "backends/cpu/isa/grouped.h"
#include "common/context.h"

#ifdef LO_ISA
#define LO_PASTE_(name, isa) name##_##isa
#define LO_PASTE(name, isa)  LO_PASTE_(name, isa)
#define LO_ISA_NAME(name)    LO_PASTE(name, LO_ISA)
#endif

/* A stretch of k: rows of X against a panel of W, w_step floats from one k to the next. */
typedef struct lo_segment {
  const float *x, *w;
  int64_t k;
} lo_segment;

/* C tile = `from` (whole vectors; NULL: 0) + the sum over the segments, one chain per element in
 * their order; then + bias (NULL: none), then relu. X element (r, k) of a segment lies at x +
 * x_first
 * + r * x_row + k (row-major), or at x + x_first + r + k * x_step (k-major), or at
 * x_rows[x_first + r] + k (scattered, one segment). `columns`, which end
 * in the tile's last vector, are read of the bias and stored. */
typedef struct lo_tile {
  const lo_segment *list;
  int64_t count;
  const float *const *x_rows;
  int64_t x_first, x_row, x_step, w_step;
  const float *from;
  float *c;
  int64_t from_row, c_row, columns;
  const float *bias;
  bool relu;
  int64_t tiles;
  bool late; /* `from` is added behind the sums: they are not rounded to its size at each step */
} lo_tile;
typedef void (*lo_microkernel)(lo_tile *tile);

/* c[r][j] = the sum over k of x[r][k] * w[j][k], added in an order that depends on k alone. Rows
 * may lie in parts: so many k (0: all), whole vectors, from the first element of one to the next
 * x_next and w_next floats; or anywhere: those of a list, x_first and w_first floats behind where
 * its segments begin. */
typedef struct lo_dot_tile {
  const float *x, *w;
  int64_t x_row, w_row, k;
  int64_t part, x_next, w_next;
  const lo_segment *list;
  int64_t count, x_first, w_first;
  float *c;
  int64_t c_row;
} lo_dot_tile;
typedef void (*lo_dot_kernel)(const lo_dot_tile *tile);

/* c[r][j] = the sum over i < m of d[i][r] * x[i][j], each one chain: a row of x, a whole number of
 * vectors, is put together from slices that lie at x[s] + i * x_row. 1, 2 or 4 slices make a
 * vector. */
typedef struct lo_slices {
  const float *const *x;
  const float *d;
  int64_t x_row, d_row, m;
  float *c;
  int64_t c_row;
} lo_slices;
typedef void (*lo_slices_kernel)(const lo_slices *tile);

enum { LO_ROW_MAJOR, LO_K_MAJOR, LO_SCATTERED, LO_LAYOUTS };
enum { LO_MAX_TILE_ROWS = 14, LO_MAX_VECTORS = 4, LO_MAX_PANEL = 64 };
enum { LO_MAX_TILE = 14 * 32 }; /* sums of a tile */
enum { LO_MAX_SLICE_VECTORS = 3, LO_MAX_SLICES = 12 };
enum { LO_MAX_DOT_ROWS = 8, LO_MAX_DOT_COLUMNS = 5, LO_MAX_RESIDENT = 13 };

/* Tiles of 1..vectors vectors by 1..rows[vectors - 1] rows; a panel of W is vectors * lanes wide.
 * Dot tiles of 1..dot_columns columns by 1..dot_rows[columns - 1] rows. */
typedef struct lo_microkernels {
  lo_kernel kernels[4];          /* for lo_select: how W is read, in the order of lo_how */
  int lanes, vectors, lane_bits; /* powers of 2; lanes = 1 << lane_bits */
  int rows[LO_MAX_VECTORS];
  int dot_columns, dot_rows[LO_MAX_DOT_COLUMNS];
  /* About what a core does, which decides only how work is cut: flops in a ns, ns of a vector's
   * multiply-adds; and 1 / lanes. */
  double flops_per_ns, ns, lane_share;
  /* [layout][vectors - 1][rows - 1] */
  lo_microkernel run[LO_LAYOUTS][LO_MAX_VECTORS][LO_MAX_TILE_ROWS];
  /* Tiles of one row by 1 or 2 vectors for one segment of k 1..13 and an epilogue; NULL: none. */
  lo_microkernel resident[2][LO_MAX_RESIDENT];            /* [vectors - 1][k - 1] */
  lo_dot_kernel dot[LO_MAX_DOT_COLUMNS][LO_MAX_DOT_ROWS]; /* [columns - 1][rows - 1] */
  /* Of slice_rows rows, or 4: [slices a vector / 2][vectors - 1][it is 4 and slice_rows is not] */
  int slice_rows, slice_vectors;
  lo_slices_kernel slices[3][LO_MAX_SLICE_VECTORS][2];
} lo_microkernels;

/* Memory of an epilogue's operand: element (i, j) at base + (i * stride + j) elements; NULL:
 * absent. */
typedef struct lo_plane {
  char *base;
  int64_t stride;
  layerops_type type;
} lo_plane;

/* The epilogue of common/product.h with its scalars read. */
typedef struct lo_finish {
  float alpha, beta;
  lo_plane bias, preact, residual, saved, c;
  layerops_activation activation, derivative;
  float slope, derivative_slope, scale_c; /* scale_c: what C is divided by */
  /* Of operands of 8 bits: what sums are multiplied with first, by row and column of C; step 0: one
   * for all. NULL, both: nothing. (Integers have theirs in lo_scaling.) */
  const float *row_scale, *column_scale;
  int row_step, column_step;
} lo_finish;

/* No more than alpha, a bias and relu: what most layers have. */
static inline bool lo_finish_is_simple(const lo_finish *f) {
  return f->beta == 0.0f && !f->preact.base && !f->residual.base &&
         f->derivative == LAYEROPS_IDENTITY && f->scale_c == 1.0f &&
         (f->activation == LAYEROPS_IDENTITY || f->activation == LAYEROPS_RELU);
}

typedef struct lo_sgd_step {
  float lr, momentum, weight_decay;
  bool nesterov;
} lo_sgd_step;

typedef struct lo_adam_step {
  float lr;           /* / (1 - beta1^t) */
  float beta1, beta2; /* with */
  float rest1, rest2; /* 1 - beta */
  float epsilon;
  float decay, shrink; /* weight decay; lr times it */
  float correction;    /* 1 / (1 - beta2^t) */
  bool decoupled;
} lo_adam_step;

/* Sums over a row run in this many lanes, whatever the vector's width; lo_fold (span.h) adds them.
 * So many narrow rows are computed at once. */
enum { LO_LANES = 16 };

/* What softmax knows of LO_LANES rows: sum of exp(x - largest); a NaN shows in it, not in the
 * largest.
 */
typedef struct lo_narrow {
  float largest[LO_LANES], sum[LO_LANES], log_sum[LO_LANES], inverse[LO_LANES];
} lo_narrow;

/* Of 1 to 16 (LO_LANES) samples whose logits stand in columns: class j of sample i at z[j * 16 +
 * i]. All 16 columns may be read and written. */
typedef struct lo_softmax_loss {
  float *z; /* in: the logits without bias; out: scale * (softmax - truth) */
  int64_t classes, samples;
  const float *bias;
  const int32_t *labels;
  float scale;
  double loss;     /* out: the sum over the samples, */
  int64_t correct; /* and how many largest logits stand at the label */
} lo_softmax_loss;

/* Arrays of floats have any alignment; results may stand on inputs where the operation may run in
 * place. */
typedef struct lo_isa {
  const char *name;
  const lo_microkernels *product;
  /* Converts n elements; load from any type of copy (i32 rounds to f32; `odd` rounds it to odd, so
   * that a second rounding to 16 bits is right), store to any. */
  void (*load)(layerops_type type, const void *from, float *to, int64_t n);
  void (*load_odd)(const int32_t *from, float *to, int64_t n);
  void (*store)(layerops_type type, const float *from, void *to, int64_t n);
  /* load of `rows` rows of n floats; strides in elements */
  void (*load_rows)(layerops_type type, const void *from, int64_t from_row, float *to,
                    int64_t to_row, int64_t rows, int64_t n);
  /* to[c * to_row + r] = from[r * from_row + c] */
  void (*transpose)(const float *from, int64_t from_row, float *to, int64_t to_row, int64_t rows,
                    int64_t cols);
  /* Finishes a tile of sums (rows at stride tile_row, padded to whole vectors) that stands at (i,
   * j). */
  void (*finish)(const lo_finish *f, float *tile, int64_t tile_row, int64_t i, int64_t j,
                 int64_t rows, int64_t cols);
  /* grouped.h: rows of X as rows of words (at most LO_GROUPED_ROWS where it is k-major); columns of
   * W as a panel; the sums of a panel's columns, added to `sums`; zero points and scales. */
  void (*grouped_rows)(const lo_grouped_words *x, int64_t rows, int64_t k, int64_t words,
                       uint32_t *to, int64_t to_row);
  void (*grouped_panel)(const lo_grouped_words *w, int64_t columns, int64_t k, int64_t words,
                        int64_t panel, uint32_t *to);
  void (*grouped_sums)(int size, const uint32_t *panel, int64_t words, int64_t width,
                       int32_t *sums);
  void (*integers)(const lo_integer_tile *t);
  void (*activate)(layerops_activation kind, float slope, const float *x, float *y, int64_t n);
  void (*derive)(layerops_activation kind, float slope, const float *dy, const float *saved,
                 float *dx, int64_t n);
  void (*add)(const float *x, float *sum, int64_t n); /* sum += x */
  /* sum[j] = x[0, j] + x[1, j] + ..., in this order; rows > 0 */
  void (*sum_rows)(const float *x, int64_t row, int64_t rows, float *sum, int64_t n);
  float (*maximum)(const float *x, int64_t n); /* NaN ignored; -infinity where n is 0 */
  bool (*any_nan)(const float *x, int64_t n);
  /* y = exp(x - shift), and the sums of y: lanes[j % 16] += y[j] */
  void (*exp_sum)(const float *x, float shift, float *y, float *lanes, int64_t n);
  float (*log)(float x); /* of 0 or a normal number above */
  /* LO_LANES rows, x[j * LO_LANES + row]: leaves exp(x - largest) in x; then x *= scale *
   * rows->inverse */
  void (*narrow_look)(float *x, int64_t n, lo_narrow *rows);
  void (*narrow_scale)(float *x, int64_t n, const lo_narrow *rows, float scale);
  void (*scale)(const float *x, float factor, float *y, int64_t n);     /* y = x * factor */
  void (*shift)(const float *x, float a, float b, float *y, int64_t n); /* y = (x - a) - b */
  /* lanes[j % 16] += p * (b - (x - a)) where p is not 0; mass[j % 16] += p */
  void (*cross)(const float *x, const float *p, float a, float b, float *lanes, float *mass,
                int64_t n);
  void (*blend)(const float *y, float a, const float *p, float b, float *d,
                int64_t n); /* a y - b p */
  /* lanes[j % 16] += (y - t)^2; d = scale * (y - t) unless d is NULL */
  void (*squares)(const float *y, const float *t, float scale, float *d, float *lanes, int64_t n);
  void (*softmax_loss)(lo_softmax_loss *s);
  void (*sgd)(const lo_sgd_step *s, float *w, const float *g, float *v,
              int64_t n); /* v may be NULL */
  void (*adam)(const lo_adam_step *s, float *w, const float *g, float *m, float *v, int64_t n);
} lo_isa;

extern const lo_microkernels lo_microkernels_portable, lo_microkernels_avx2;
extern const lo_microkernels lo_microkernels_avx512, lo_microkernels_neon;
/* Why a plan (backends/cpu/product.h) does not read W in this way. */
const char *lo_refuses_dot(layerops_context *ctx, const void *plan);
const char *lo_refuses_prepacked(layerops_context *ctx, const void *plan);
const char *lo_refuses_in_place(layerops_context *ctx, const void *plan);

extern const lo_isa lo_isa_portable, lo_isa_avx2, lo_isa_avx512, lo_isa_neon;

#endif
