/* The operations. Each takes a context and a struct of arguments, enqueues its work and returns (on
 * the CPU the work is done on return; with a host view on another device too).
 *
 * Rules for all of them:
 * - "float" is f32, f16 or bf16; sums are kept in f32, stores round to nearest even, f16 and bf16
 *   overflow to infinity, 8-bit floats saturate. NaN and infinity propagate as IEEE 754 says.
 * - Products of bf16 by instructions for it (CPU: AVX512-BF16, AMX) take subnormal elements, sums
 *   and bf16 results as 0, so that infinity times a subnormal number is NaN.
 * - Views marked [optional] may be absent (all-zero). All others are needed.
 * - A size of 0 is a successful no-op; a product over k = 0 gives the epilogue of zeros.
 * - Outputs must not overlap inputs or each other, but where "in place" stands an output may be the
 *   very same view as that input (same place, shape, stride and element size).
 * - The same call on the same device gives the same bits every time (with the same library,
 *   workspace and choices that were tuned: tune.h). On the CPU they do not depend on the number of
 *   threads.
 * - No element outside the views is read or written, padding between rows included.
 *
 * Errors: INVALID (an argument; the message names it), OVERFLOW, ALIAS, UNSUPPORTED (the device
 * lacks the operation for these types of operands or these options), OUT_OF_MEMORY, LABEL, STATE,
 * DEVICE_LOST, FORKED.
 */
#ifndef LAYEROPS_OPS_H
#define LAYEROPS_OPS_H

#include <layerops/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/* One list gives the operations their numbers, names and functions. Numbers are stable. */
#define LAYEROPS_OP_LIST(X)                                                                        \
  X(gemm, 1)                                                                                       \
  X(linear_forward, 2)                                                                             \
  X(linear_backward, 3)                                                                            \
  X(activation_forward, 4)                                                                         \
  X(activation_backward, 5)                                                                        \
  X(softmax, 6)                                                                                    \
  X(cross_entropy, 7)                                                                              \
  X(mse, 8)                                                                                        \
  X(sgd, 9)                                                                                        \
  X(adam, 10)                                                                                      \
  X(fill, 11)                                                                                      \
  X(copy, 12)                                                                                      \
  X(transpose, 13)                                                                                 \
  X(gather, 14)                                                                                    \
  X(bsr_linear_forward, 15)                                                                        \
  X(bsr_linear_backward, 16)

typedef enum layerops_op {
#define LAYEROPS_OP_ENUM(name, number) LAYEROPS_OP_##name = number,
  LAYEROPS_OP_LIST(LAYEROPS_OP_ENUM)
#undef LAYEROPS_OP_ENUM
      LAYEROPS_OP_COUNT
} layerops_op;

LAYEROPS_API const char *layerops_op_name(layerops_op op); /* "?" for an unknown number */

/* OK where the context's device has the operation for this data type, else UNSUPPORTED and the
 * reason in layerops_last_error(): what a call would answer whose operands are of that type (W of
 * i8 where X is u8). Thread-safe per context. The pair asks for a second operand of its own type: B
 * of gemm, W of the linear layers, y of those that have one. */
LAYEROPS_API layerops_status layerops_supports(layerops_context *ctx, layerops_op op,
                                               layerops_type type);
LAYEROPS_API layerops_status layerops_supports_pair(layerops_context *ctx, layerops_op op,
                                                    layerops_type type, layerops_type second);

/* Each operation is declared twice: the exported symbol with a trailing underscore takes the size
 * of the struct that the caller was compiled with; the inline function passes it. */
#define LAYEROPS_DECLARE_OP(name)                                                                  \
  LAYEROPS_API layerops_status layerops_##name##_(                                                 \
      layerops_context *ctx, const layerops_##name##_args *args, size_t size);                     \
  static inline layerops_status layerops_##name(layerops_context *ctx,                             \
                                                const layerops_##name##_args *args) {              \
    return layerops_##name##_(ctx, args, sizeof(layerops_##name##_args));                          \
  }

/* ---- gemm: C = alpha * op(A) op(B) + beta * C ---------------------------------------------------
 * op(A) is [m,k]: A [m,k], or [k,m] with trans_a; op(B) is [k,n]: B [k,n], or [n,k] with trans_b.
 * C [m,n]. alpha is 1 where unset, beta 0. beta == 0 never reads C; alpha == 0 or k == 0 never
 * reads A and B: C = beta * C. batch: C.batch products; A and B have as many, or 1 (the same matrix
 * for all). The types are those of a row:
 *
 *   A               B                    C
 *   f32, f16, bf16  A's                  A's or f32
 *   u8, i8          i8                   f32, f16, bf16; i32
 *   f8e4m3, f8e5m2  f8e4m3, f8e5m2       f32, f16, bf16
 *   f16, bf16       i8, f8e4m3, f8e5m2   A's or f32
 *
 * Operands of 8 bits have scales:
 *   C[i,j] = alpha * scale_a[i] * scale_b[j] * sum_k (op(A)[i,k] - zero_a[i]) * op(B)[k,j]
 *            + beta * C
 * scale_a (f32; where A is of 8 bits) holds 1 value or m, scale_b (f32; where B is) 1 or n, zero_a
 * (i32; where A is u8 or i8) 1 or m; all are of one row and unbatched. Absent scales are 1, an
 * absent zero_a 0.
 *
 * 8-bit integers, A u8 or i8: the sum is exact in int32. C of i32 is the sum itself: no scales,
 * alpha 1, beta 0. k is at most 65793, so that no sum of products of 8 bits overflows (else
 * OVERFLOW); a zero_a outside the range of A's type may make it wrap around, modulo 2^32.
 *
 * 8-bit floats, A and B each of either type: products are exact in f32, where sums are kept too. Of
 * tensor cores that keep fewer digits (Hopper's: 14 bits) only sums of at most 128 products are
 * taken, and added in f32; with LAYEROPS_FAST_ACCUM whole sums.
 *
 * Mixed pairs, A f16 or bf16, B of 8 bits: B's elements are exact in A's type, and the sum is that
 * of two operands of A's type. */
typedef struct layerops_gemm_args {
  layerops_matrix a, b, c;
  int32_t trans_a, trans_b;
  layerops_scalar alpha, beta;
  uint32_t flags;
  int32_t reserved;
  layerops_matrix scale_a, scale_b, zero_a; /* [optional] operands of 8 bits only */
} layerops_gemm_args;
LAYEROPS_DECLARE_OP(gemm)

/* ---- linear_forward: Z = alpha * X W^T + bias; Y = act(Z) + residual ----------------------------
 * X [m,k], W [n,k] (as PyTorch and ONNX store it), bias [n], residual, preact and Y [m,n]. preact
 * receives Z. Y may be in place over residual. slope: leaky ReLU's, 0.01 where unset (a value, not
 * a buffer's element). Exactly one of w and packed is set. The types are those of a row; bias,
 * residual, preact and Y have one each on its own:
 *
 *   X               W                    bias, residual, preact   Y
 *   f32, f16, bf16  X's                  X's or f32               X's or f32
 *   u8, i8          i8                   f32, f16, bf16           f32, f16, bf16, i8, u8
 *   f8e4m3, f8e5m2  f8e4m3, f8e5m2       f32, f16, bf16           f32, f16, bf16, f8e4m3, f8e5m2
 *   f16, bf16       i8, f8e4m3, f8e5m2   X's or f32               X's or f32
 *
 * Operands of 8 bits have scales:
 *   Z[i,j] = alpha * scale_x[i] * scale_w[j] * sum_k (X[i,k] - zero_x[i]) * W[j,k] + bias[j]
 * and a Y of 8 bits is (act(Z) + residual) / scale_y, rounded to nearest even and saturated (to the
 * largest finite number, infinities too); NaN is 0 in an integer, and stays NaN in an 8-bit float.
 * scale_x (f32; where X is of 8 bits) holds 1 value or m, zero_x (i32; where X is u8 or i8) 1 or m,
 * scale_w (f32; where W is of 8 bits) 1 or n (one for each output channel), scale_y (f32; where Y
 * is of 8 bits) 1. Absent scales are 1 (without scale_y, an integer Y is rounded to whole numbers
 * as it stands), an absent zero_x 0. All are of one row. Sums, the limit of k for integers and what
 * zero_x may be: as in gemm, for each kind of operands. The sum itself, in i32, only gemm gives. */
typedef struct layerops_linear_forward_args {
  layerops_matrix x, w;
  const layerops_weights *packed;
  layerops_matrix bias;     /* [optional] */
  layerops_matrix residual; /* [optional] */
  layerops_matrix preact;   /* [optional] output */
  layerops_matrix y;        /* output */
  layerops_activation activation;
  uint32_t flags;
  layerops_scalar slope;
  layerops_scalar alpha;
  layerops_matrix scale_x, scale_w, zero_x, scale_y; /* [optional] operands of 8 bits only */
} layerops_linear_forward_args;
typedef layerops_linear_forward_args layerops_linear_args;
LAYEROPS_DECLARE_OP(linear_forward)

/* ---- linear_backward ----------------------------------------------------------------------------
 * With dY [m,n] the gradient with respect to the layer's output:
 *   dZ    = dY * act'(saved)                    (dZ = dY where activation is IDENTITY)
 *   dX    = (dZ W) * dx_act'(dx_saved)          [m,k]
 *   dW    = dZ^T X + beta * dW                  [n,k]
 *   dbias = sum over rows of dZ + beta * dbias  [n]
 * dx_activation is the activation of the layer that made X, and dx_saved [m,k] its saved value: dX
 * is then already that layer's dZ, so its own activation stays IDENTITY in the next call. dX, dW,
 * dbias are computed where present (at least one). W is needed for dX only, as w or, packed with
 * `backward`, as packed (exactly one of them); X for dW only. saved [m,n] is needed where
 * activation is not IDENTITY, dx_saved where dx_activation is not; what value that is, base.h says.
 * dz, where present, receives dZ and may be in place over dY; where it is absent, scratch memory is
 * used. dY, X and W are of one float type T; each other view is T or f32. beta is 0 where unset. */
typedef struct layerops_linear_backward_args {
  layerops_matrix dy, x, w;
  const layerops_weights *packed;
  layerops_matrix saved;    /* [optional] */
  layerops_matrix dz;       /* [optional] output, type T */
  layerops_matrix dx;       /* [optional] output */
  layerops_matrix dx_saved; /* [optional] */
  layerops_matrix dw;       /* [optional] output */
  layerops_matrix dbias;    /* [optional] output */
  layerops_activation activation, dx_activation;
  layerops_scalar slope, dx_slope;
  layerops_scalar beta;
  uint32_t flags;
  int32_t reserved;
} layerops_linear_backward_args;
LAYEROPS_DECLARE_OP(linear_backward)

/* ---- activation_forward: Y = act(X) -------------------------------------------------------------
 * Any float types, in place over X. */
typedef struct layerops_activation_forward_args {
  layerops_matrix x, y;
  layerops_activation activation;
  int32_t reserved;
  layerops_scalar slope; /* as in linear_forward */
} layerops_activation_forward_args;
LAYEROPS_DECLARE_OP(activation_forward)

/* ---- activation_backward: dX = dY * act'(saved) -------------------------------------------------
 * Any float types, in place over dY or saved. */
typedef struct layerops_activation_backward_args {
  layerops_matrix dy, saved, dx;
  layerops_activation activation;
  int32_t reserved;
  layerops_scalar slope;
} layerops_activation_backward_args;
LAYEROPS_DECLARE_OP(activation_backward)

/* ---- softmax ------------------------------------------------------------------------------------
 *   y[i,j] = exp(x[i,j] - c_i) / sum_l exp(x[i,l] - c_i), c_i = max_l x[i,l]; with `log`:
 *   y[i,j] = x[i,j] - c_i - log(sum_l exp(x[i,l] - c_i))
 * Any float types, in place over X. A row with a NaN is NaN; a row with +infinity is NaN; a row of
 * -infinity only is NaN; other -infinities give 0 (log: -infinity). */
typedef struct layerops_softmax_args {
  layerops_matrix x, y;
  int32_t log;
  int32_t reserved;
} layerops_softmax_args;
LAYEROPS_DECLARE_OP(softmax)

enum { LAYEROPS_MEAN = 0, LAYEROPS_SUM = 1 };

/* ---- cross_entropy: softmax cross-entropy and its gradient in one pass --------------------------
 * logits [m,n]. With labels (i32 [m]): loss_i = -log softmax(logits_i)[label_i]; a row whose label
 * is ignore_label counts for nothing. With probabilities p [m,n]: loss_i = -sum_j p[i,j] log
 * softmax(logits_i)[j] (p = 0 contributes 0). Exactly one of the two is set.
 *   loss     [1] f32: the mean over the rows that count, or their sum. Mean over no rows: 0.
 *   losses   [m] f32: loss_i, 0 for ignored rows
 *   dlogits  [m,n]: grad_scale * d loss / d logits; 0 for ignored rows. In place over logits.
 *            (p may be any non-negative row: the gradient is softmax * sum_j p[i,j] - p.)
 *   correct  [1] i32: rows that count and whose largest logit (the first, if several; NaN counts
 *            as largest) stands at the label, or at the largest probability
 * At least one output. A label outside [0,n) that is not ignored is an error: LABEL, before
 * anything is written, where the labels are in host memory or on the CPU; else in the context's
 * error word, and the row is treated as ignored. */
typedef struct layerops_cross_entropy_args {
  layerops_matrix logits;
  layerops_matrix labels;        /* [optional] */
  layerops_matrix probabilities; /* [optional] any float type */
  layerops_matrix loss;          /* [optional] output */
  layerops_matrix losses;        /* [optional] output */
  layerops_matrix dlogits;       /* [optional] output */
  layerops_matrix correct;       /* [optional] output */
  layerops_scalar ignore_label;  /* a value; unset: none */
  layerops_scalar grad_scale;    /* 1 where unset */
  int32_t reduction;             /* LAYEROPS_MEAN or LAYEROPS_SUM */
  int32_t reserved;
} layerops_cross_entropy_args;
LAYEROPS_DECLARE_OP(cross_entropy)

/* ---- mse: mean squared error and its gradient ---------------------------------------------------
 *   loss [1] f32 = r * sum over i,j of (y[i,j] - target[i,j])^2
 *   dy[i,j] = grad_scale * 2 r (y[i,j] - target[i,j]), in place over y or target
 * r is 1/(m n) for LAYEROPS_MEAN, 1 for LAYEROPS_SUM. Any float types. At least one output. */
typedef struct layerops_mse_args {
  layerops_matrix y, target;
  layerops_matrix loss; /* [optional] output */
  layerops_matrix dy;   /* [optional] output */
  layerops_scalar grad_scale;
  int32_t reduction;
  int32_t reserved;
} layerops_mse_args;
LAYEROPS_DECLARE_OP(mse)

/* ---- sgd: one step, element by element (PyTorch's order) ----------------------------------------
 *   g' = g + weight_decay * w
 *   v = momentum * v + g'
 *   w = w - lr * (nesterov ? g' + momentum * v : v)
 * Without velocity: w = w - lr * g' (momentum must then be unset). w is float, g any float type,
 * velocity f32 (zeros before the first step). lr is needed; momentum and weight_decay are 0 where
 * unset. */
typedef struct layerops_sgd_args {
  layerops_matrix w; /* in and out */
  layerops_matrix g;
  layerops_matrix velocity; /* [optional] in and out */
  layerops_scalar lr, momentum, weight_decay;
  int32_t nesterov;
  int32_t reserved;
} layerops_sgd_args;
LAYEROPS_DECLARE_OP(sgd)

/* ---- adam: one step of Adam (decoupled = 0) or AdamW (decoupled = 1) ----------------------------
 * Kingma and Ba 2015, Loshchilov and Hutter 2019; t = step >= 1:
 *   g' = decoupled ? g : g + weight_decay * w
 *   w = decoupled ? w - lr * weight_decay * w : w
 *   m = beta1 m + (1 - beta1) g'
 *   v = beta2 v + (1 - beta2) g'^2
 *   w = w - lr * (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + epsilon)
 * w is float, g any float type, m and v f32 (zeros before the first step). Where unset: lr 1e-3,
 * beta1 0.9, beta2 0.999, epsilon 1e-8, weight_decay 0. step is needed. */
typedef struct layerops_adam_args {
  layerops_matrix w; /* in and out */
  layerops_matrix g;
  layerops_matrix m, v; /* in and out */
  layerops_scalar lr, beta1, beta2, epsilon, weight_decay, step;
  int32_t decoupled;
  int32_t reserved;
} layerops_adam_args;
LAYEROPS_DECLARE_OP(adam)

/* ---- fill: y[i,j] = value, converted (0 where unset) --------------------------------------------
 * Any type, converted as in copy. */
typedef struct layerops_fill_args {
  layerops_matrix y;
  layerops_scalar value;
} layerops_fill_args;
LAYEROPS_DECLARE_OP(fill)

/* ---- copy: y[i,j] = x[i,j], converted where the types differ (cast) -----------------------------
 * Any pair of f32, f16, bf16, i32, i8, u8, f8e4m3, f8e5m2. To integers: round to nearest even,
 * saturate, NaN is 0. To 8-bit floats: round to nearest even, saturate to the largest finite number
 * (infinities too), NaN stays NaN. The same type: the same bits. */
typedef struct layerops_copy_args {
  layerops_matrix x, y;
} layerops_copy_args;
LAYEROPS_DECLARE_OP(copy)
typedef layerops_copy_args layerops_cast_args;
static inline layerops_status layerops_cast(layerops_context *ctx, const layerops_copy_args *args) {
  return layerops_copy(ctx, args);
}

/* ---- transpose: y[j,i] = x[i,j] -----------------------------------------------------------------
 * Any type, the same for both. */
typedef struct layerops_transpose_args {
  layerops_matrix x, y;
} layerops_transpose_args;
LAYEROPS_DECLARE_OP(transpose)

/* ---- gather: y[i,:] = x[index[i],:] -------------------------------------------------------------
 * Any type, converted as in copy. index: i32 [rows of y]. An index outside [0, rows of x) is an
 * error as a label of cross_entropy is; found on the device, its row is filled with 0. */
typedef struct layerops_gather_args {
  layerops_matrix x, index, y;
} layerops_gather_args;
LAYEROPS_DECLARE_OP(gather)

/* ---- Packed weights -----------------------------------------------------------------------------
 * W [n,k] of a linear layer in the layout that the device's kernels read, for weights that are used
 * again: a call with `packed` in place of `w` packs nothing itself. Where a device has no layout of
 * its own, the object is a row-major copy, and gives the bits that a tight w gives. (On the CPU a
 * call with w may add up in another order, where packing would take longer than the product. Sums
 * of 8-bit integers are exact either way.) They serve an X of each type that a w of theirs does,
 * with and without scales and zero points; but on the CPU those of i8 are laid out for an X of u8
 * or i8, and one of f16 or bf16 is refused, UNSUPPORTED: give it w.
 *
 * The object belongs to the context's device. All its contexts may use it, in parallel, since a
 * call only reads it; but update and destroy are not for a time when another thread calls with it,
 * and work that another context has queued must be ordered before as for a buffer (layerops_wait,
 * layerops_sync). It outlives the context that made it, and must live as long as a graph that uses
 * it, which sees later updates. On the CPU it is of the instruction set that its context ran
 * (LAYEROPS_CPU_ISA): a context that runs another refuses it, INVALID. */
typedef struct layerops_weights_args {
  layerops_matrix w; /* f32, f16, bf16, i8, f8e4m3 or f8e5m2, in a buffer or in host memory; not
                        kept */
  int32_t backward;  /* 1: keep also what dX = dZ W needs, which linear_backward computes; not of
                        8 bits */
  uint32_t flags;    /* 0 */
} layerops_weights_args;
LAYEROPS_API layerops_status layerops_weights_pack_(layerops_context *ctx,
                                                    const layerops_weights_args *args, size_t size,
                                                    layerops_weights **weights);
static inline layerops_status layerops_weights_pack(layerops_context *ctx,
                                                    const layerops_weights_args *args,
                                                    layerops_weights **weights) {
  return layerops_weights_pack_(ctx, args, sizeof(layerops_weights_args), weights);
}
/* New values: w has the type and the shape of what was packed. Allocates nothing where w is not
 * staged (a host view on another device). */
LAYEROPS_API layerops_status layerops_weights_update(layerops_context *ctx,
                                                     layerops_weights *weights, layerops_matrix w);
/* w = the packed values, exactly (a NaN stays a NaN); w has their type and shape. None of the
 * three can be recorded (STATE). */
LAYEROPS_API layerops_status layerops_weights_unpack(layerops_context *ctx,
                                                     const layerops_weights *weights,
                                                     layerops_matrix w);
LAYEROPS_API void layerops_weights_destroy(layerops_weights *weights); /* NULL is allowed */

/* How the activations of the block-sparse layer lie in memory: a row of them is a sample, or a
 * feature. */
enum { LAYEROPS_SAMPLES_BY_ROW = 0, LAYEROPS_FEATURES_BY_ROW = 1 };

/* ---- bsr_linear_forward: Y = act(alpha * X W^T + bias) + residual, W block-sparse ---------------
 * As linear_forward, with W [n,k] of bsr.h. By `layout` X is [m,k], and residual, preact and Y are
 * [m,n], or all are transposed: X [k,m], the others [n,m]. bias is [1,n] in both. preact receives
 * what act is applied to. Y may be in place over residual.
 *
 * Block i of W counts gate[i] times (f32, [1, kept blocks]; absent: all once). A gate of 0 leaves
 * its block out, as if it were not kept: NaN and infinity in it, or in what it is multiplied with,
 * do not propagate. Rows of W without blocks give act(alpha * 0 + bias) + residual.
 *
 * X is f32, f16 or bf16, W of X's type or i8 (with the scales of bsr.h); bias, residual, preact and
 * Y are of X's type or f32, each on its own. */
typedef struct layerops_bsr_linear_forward_args {
  layerops_matrix x;
  const layerops_bsr *w;
  layerops_matrix bias;     /* [optional] */
  layerops_matrix residual; /* [optional] */
  layerops_matrix preact;   /* [optional] output */
  layerops_matrix y;        /* output */
  layerops_activation activation;
  uint32_t flags;
  layerops_scalar slope;
  layerops_scalar alpha;
  layerops_matrix gate; /* [optional] */
  int32_t layout;       /* LAYEROPS_SAMPLES_BY_ROW or LAYEROPS_FEATURES_BY_ROW */
  int32_t reserved;
} layerops_bsr_linear_forward_args;
LAYEROPS_DECLARE_OP(bsr_linear_forward)

/* ---- bsr_linear_backward ------------------------------------------------------------------------
 * As linear_backward, with W [n,k] of bsr.h, each of whose blocks counts gate[i] times:
 *   dZ       = dY * act'(saved)                             (dZ = dY where activation is IDENTITY)
 *   dX       = (dZ W) * dx_act'(dx_saved)
 *   dW[i]    = gate[i] * G[i] + beta * dW[i]                G[i]: block i of dZ^T X
 *   dbias    = sum over samples of dZ + beta * dbias        [1,n]
 *   dgate[i] = sum of G[i] * (block i of W, without its gate) + beta * dgate[i]
 * dY, saved and dz are [m,n], X, dx and dx_saved [m,k], or all are transposed, by `layout`. dW is
 * [kept blocks * height, width], the matrix that layerops_bsr_values gives: only kept blocks have a
 * gradient. What of a block lies outside of W is written as 0. gate and dgate are f32, [1, kept
 * blocks]; a block whose gate is 0 adds nothing to dX, and its dW is beta * dW.
 *
 * At least one output. `w` gives the pattern and is always needed; X for dW and dgate only. dY, X
 * and the values of w, which dX and dgate read (for the others w may be of any type), are of one
 * type T of f32, f16, bf16; each other view is T or f32, but dz T. dz may be in place over dY, dX
 * over dx_saved. beta is 0 where unset. */
typedef struct layerops_bsr_linear_backward_args {
  layerops_matrix dy, x;
  const layerops_bsr *w;
  layerops_matrix gate;     /* [optional] */
  layerops_matrix saved;    /* [optional] */
  layerops_matrix dz;       /* [optional] output, type T */
  layerops_matrix dx;       /* [optional] output */
  layerops_matrix dx_saved; /* [optional] */
  layerops_matrix dw;       /* [optional] output */
  layerops_matrix dbias;    /* [optional] output */
  layerops_matrix dgate;    /* [optional] output */
  layerops_activation activation, dx_activation;
  layerops_scalar slope, dx_slope;
  layerops_scalar beta;
  uint32_t flags;
  int32_t layout; /* LAYEROPS_SAMPLES_BY_ROW or LAYEROPS_FEATURES_BY_ROW */
} layerops_bsr_linear_backward_args;
LAYEROPS_DECLARE_OP(bsr_linear_backward)

/* ---- prepare: warms a call ----------------------------------------------------------------------
 * Checks the call as the operation itself would, with the same errors, and makes what its first run
 * would make, but runs nothing and writes to no operand. On CUDA that is the choice of kernels,
 * their code, and the context's workspace, and layerops_last_kernel then names the kernel;
 * elsewhere the call is only checked, and layerops_last_kernel is then "".
 *
 * From then on this call, and any with the same operands present, shapes, strides, alignment and
 * types, allocates nothing and does not wait for the device. So it can also be captured into a CUDA
 * graph of the caller's own, on his stream (open_args.queue), where a call that is cold and needs
 * more workspace is refused (STATE). The context must then outlive that graph, which must be
 * launched in the order of the context's queue, and its workspace must not grow: prepare all calls
 * first, or give it one (open_args.workspace).
 *
 * OUT_OF_MEMORY where a workspace of the user's own is too small. Host views cannot be prepared
 * where they would be staged (STATE). Allowed while recording. `args` is the argument struct of
 * `op`: layerops_gemm_args for LAYEROPS_OP_gemm. Used by the context's thread. */
LAYEROPS_API layerops_status layerops_prepare_(layerops_context *ctx, layerops_op op,
                                               const void *args, size_t size);
static inline layerops_status layerops_prepare(layerops_context *ctx, layerops_op op,
                                               const void *args) {
  size_t size = 0;
  switch (op) {
#define LAYEROPS_OP_SIZE(name, number)                                                             \
  case LAYEROPS_OP_##name:                                                                         \
    size = sizeof(layerops_##name##_args);                                                         \
    break;
    LAYEROPS_OP_LIST(LAYEROPS_OP_SIZE)
#undef LAYEROPS_OP_SIZE
  case LAYEROPS_OP_COUNT:
    break;
  }
  return layerops_prepare_(ctx, op, args, size);
}

#ifdef __cplusplus
}
#endif
#endif
