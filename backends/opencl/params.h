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
  LO_INT features_by_row, reserved; /* a row of C is a feature, and has one bias */
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

/* Y = X W^T or dX = dZ W with block-sparse W: outputs stand in lines of blocks, block rows forward
 * and block columns backward. */
typedef struct lo_cl_bsr {
  lo_cl_epilogue epilogue;
  lo_cl_operand in; /* samples; on CPU devices panels of them, whose first is `first` */
  lo_cl_operand w;  /* a block: across its line and along it, batch_stride from one to the next */
  LO_LONG inputs, outputs; /* features */
  LO_LONG width, depth;    /* of a block: across its line and along it */
  LO_LONG first;           /* sample, of the first group */
  LO_LONG pieces;          /* CPU: of outputs, those of a group */
  LO_LONG gate;            /* offset of the gates, or -1 */
  LO_INT backward, scaled;
  LO_INT depth_log2, reserved; /* divisions of 64 bits are slow on GPUs */
} lo_cl_bsr;

/* GPUs: where a step of a line, one of `depth` of a kept block, finds its operands; what W counts.
 */
typedef struct lo_cl_bsr_step {
  LO_LONG x, w;
  LO_FLOAT factor;
  LO_INT present;
} lo_cl_bsr_step;

/* dW, by units: blocks that follow each other in a block row, as many as a tile's columns hold. */
typedef struct lo_cl_bsr_gradient {
  lo_cl_epilogue epilogue; /* c: dW, LO_TYPE_NONE where only sums are wanted */
  lo_cl_operand dz, x;     /* features; on CPU devices panels of a block's height and width */
  LO_LONG m;               /* samples of this launch */
  LO_LONG samples, parts; /* GPUs: of a part of them; parts, whose sums stand `part` floats apart */
  LO_LONG part;
  LO_LONG height, width, block_rows;    /* of blocks */
  LO_LONG blocks, row_parts, col_parts; /* of a unit; its tiles */
  LO_LONG gate;                         /* offset of the gates, or -1 */
  LO_LONG sums;                         /* offset of dZ^T X in floats, block by block, or -1 */
  LO_INT begins,
      ends; /* whether no samples came before; whether none come after, and dW is written */
  LO_INT width_log2, blocks_log2;
} lo_cl_bsr_gradient;

/* Values as f32 with scales and gates; the gradient of gates. */
typedef struct lo_cl_bsr_values {
  lo_cl_view dgate;
  lo_cl_scalar beta;
  LO_LONG area, gate;
  LO_LONG at; /* offset in floats: of what is written; of dZ^T X */
  LO_INT type, scaled;
} lo_cl_bsr_values;

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
