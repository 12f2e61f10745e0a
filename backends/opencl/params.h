/* What the host hands to a kernel beside its buffers, read by C and by OpenCL C. No struct has
 * padding. */
#ifndef LO_OPENCL_PARAMS_H
#define LO_OPENCL_PARAMS_H

#ifdef __OPENCL_VERSION__
#define LO_LONG  long
#define LO_INT   int
#define LO_FLOAT float
#else
#define LO_LONG  int64_t
#define LO_INT   int32_t
#define LO_FLOAT float
#endif

/* A view: in elements of `type`, LO_TYPE_NONE where absent. */
typedef struct lo_cl_view {
  LO_LONG offset, stride, batch_stride;
  LO_INT type, reserved;
} lo_cl_view;

/* A scalar: an element of a buffer, or a value where offset is -1. */
typedef struct lo_cl_scalar {
  LO_LONG offset;
  LO_FLOAT value;
  LO_INT reserved;
} lo_cl_scalar;

typedef struct lo_cl_epilogue {
  lo_cl_scalar alpha, beta;
  lo_cl_view c, bias, preact, residual, saved;
  LO_INT activation, derivative;
  LO_FLOAT slope, derivative_slope;
} lo_cl_epilogue;

/* An operand of a product with its strides named by meaning: `across` from one of its m rows (or n
 * columns) to the next, `along` from one step of k to the next. */
typedef struct lo_cl_operand {
  LO_LONG offset, across, along, batch_stride;
  LO_LONG count; /* m or n */
  LO_INT type, reserved;
} lo_cl_operand;

typedef struct lo_cl_product {
  lo_cl_epilogue epilogue;
  lo_cl_operand a, b;
  LO_LONG k;
  LO_LONG row, col; /* of C, where the operands' first row and column stand */
  LO_LONG batch;    /* of C, of the first group */
  LO_LONG tiles;    /* row tiles of one group */
} lo_cl_product;

/* Copies op(A)'s rows or op(B)'s columns into panels of a tile's width, as f32. */
typedef struct lo_cl_pack {
  lo_cl_operand from;
  LO_LONG k, chunk; /* steps of k; those of one group */
  LO_LONG to;       /* offset of the panels in floats */
  LO_LONG batch;    /* of the operand, of the first group */
} lo_cl_pack;

/* A block-sparse product: values [count, block, block], transposed into `packed` by CPU devices. */
typedef struct lo_cl_bsr {
  lo_cl_epilogue epilogue;
  lo_cl_operand a;
  LO_LONG packed;    /* offset in floats */
  LO_LONG block_row; /* of the first group */
} lo_cl_bsr;

/* Its gradients. beta's buffer and gate's: offset in elements, or -1 where there is none. */
typedef struct lo_cl_bsr_gradient {
  lo_cl_view dz, x, saved, to; /* to: the gradient */
  lo_cl_scalar beta;
  LO_LONG m, n, k;                          /* samples, rows and columns of W */
  LO_LONG height, width, count, block_rows; /* of blocks; kept ones */
  LO_LONG gate;
  LO_INT transposed, activation;
  LO_FLOAT slope;
  LO_INT reserved;
} lo_cl_bsr_gradient;

/* Work on each element of views of one shape: an item takes item_cols columns of item_rows rows. */
typedef struct lo_cl_shape {
  LO_LONG rows, cols;
  LO_LONG item_rows, item_cols;
  LO_LONG across, items; /* items across a row; in all */
} lo_cl_shape;

/* Activations and mean squared error. in: x; or dy and saved; or y and target. */
typedef struct lo_cl_map {
  lo_cl_shape shape;
  lo_cl_view in, other, out;
  lo_cl_scalar scale;
  LO_LONG partial; /* offset of the groups' sums in floats, or -1 */
  LO_INT activation;
  LO_FLOAT slope;
  LO_FLOAT factor; /* of mse's gradient, before scale */
  LO_INT reserved;
} lo_cl_map;

/* Column sums of x in chunks of rows, and then of the chunks. */
typedef struct lo_cl_sum {
  lo_cl_view x, to;
  lo_cl_scalar beta;
  LO_LONG rows, cols, chunk, chunks;
  LO_LONG partial; /* offset of the chunks' sums in floats */
} lo_cl_sum;

/* The sum of numbers in scratch memory, times factor. */
typedef struct lo_cl_total {
  lo_cl_view to;
  LO_LONG partial, count;
  LO_FLOAT factor;
  LO_INT reserved;
} lo_cl_total;

typedef struct lo_cl_sgd_params {
  lo_cl_shape shape;
  lo_cl_view w, g, velocity;
  lo_cl_scalar lr, momentum, weight_decay;
  LO_INT nesterov, reserved;
} lo_cl_sgd_params;

/* rest: 1 - beta, log: log(beta), taken in double where beta is a value. */
typedef struct lo_cl_adam_params {
  lo_cl_shape shape;
  lo_cl_view w, g, m, v;
  lo_cl_scalar lr, beta1, beta2, epsilon, weight_decay, step;
  LO_FLOAT rest1, rest2, log1, log2;
  LO_INT decoupled, reserved;
} lo_cl_adam_params;

/* Softmax and cross-entropy. */
typedef struct lo_cl_rows {
  LO_LONG rows, cols;
  lo_cl_view x, y; /* cross-entropy: logits and dlogits */
  lo_cl_view labels, probabilities, loss, losses, correct;
  lo_cl_scalar grad_scale;
  LO_LONG ignore;      /* a label, or one that no i32 can be */
  LO_LONG row_losses;  /* offsets in the scratch memory, in words of 4 bytes: f32 [rows] */
  LO_LONG row_correct; /* i32 [rows] */
  LO_LONG counted;     /* i32: rows that count */
  LO_INT log, mean;
} lo_cl_rows;

/* Fill, copy, gather and transpose. */
typedef struct lo_cl_move {
  lo_cl_shape shape; /* of y */
  lo_cl_view x, y, index;
  lo_cl_scalar value;
  LO_LONG limit; /* rows that an index may name */
} lo_cl_move;

/* The device's error word: what a kernel found. */
enum {
  LO_CL_FAULT_SET,
  LO_CL_FAULT_KIND, /* 1: labels of cross_entropy, 2: index of gather */
  LO_CL_FAULT_AT,   /* low and high half */
  LO_CL_FAULT_AT_HIGH,
  LO_CL_FAULT_VALUE,
  LO_CL_FAULT_LIMIT,
  LO_CL_FAULT_LIMIT_HIGH,
  LO_CL_FAULT_WORDS
};
enum { LO_CL_FAULT_LABELS = 1, LO_CL_FAULT_INDEX = 2 };

#endif
