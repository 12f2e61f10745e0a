/* An epoch of training on the CPU (train.c), and the passes of a step (train_pass.c).
 *
 * Everything lies in panels of columns, each [rows][panel] in one piece, in the layouts that all
 * passes read and write in place: nothing is transposed or packed within a step, and no gradient of
 * a weight is ever in memory.
 *
 *   first layer    W in panels of outputs, [in][panel], as the forward pass reads it. Its update is
 *                  dW^T = X^T D, which has the same layout: rows of the tile are columns of X, read
 *                  k-major, and the tile is added to W.
 *   other layers   W in panels of inputs, [out][panel]: the forward pass multiplies rows by rows
 * (dot tiles), dX = D W reads it k-major, and the update dW = D^T Y has its layout again. D the
 * gradient of a layer's output times -lr, so that W + D^T Y is the step of SGD: the plain path
 * rounds once more, after lr * g. The last layer's is in groups of 16 samples, [out][16] each, as
 * the softmax works on samples side by side.
 *
 * A task owns the same panels of a layer's output in all passes, and with them the weights that
 * lead to and from them: between cores go only Y and the last D, and no two tasks write near each
 * other. Every sum is taken in an order that depends on shapes alone, and so are the bits. */
#ifndef LO_CPU_TRAIN_H
#define LO_CPU_TRAIN_H

#include "backends/cpu/cpu.h"

typedef struct lo_train_layer {
  int64_t in, out;
  int64_t panels; /* of out */
  float *w;
  float *bias;   /* whole panels; like w padded with zeros */
  float *y;      /* in panels of out; the last layer has none */
  float *preact; /* the same before the activation, where its derivative needs that; else y */
  float *d;
  int64_t next; /* floats from a panel of w to the next, */
  int64_t step; /* and from a panel of y, preact and d, or of the last layer's d a group */
} lo_train_layer;

/* A batch of samples. */
typedef struct lo_train_batch {
  int64_t first, rows;  /* of the epoch's samples */
  const float **x_rows; /* where each is, where they are scattered; else x */
  const float *x;
  int64_t row;
  int32_t *labels;
} lo_train_batch;

enum { LO_TRAIN_GROUP = LO_LANES }; /* samples of one lo_softmax_loss */

/* What a group leaves. */
typedef struct lo_train_sum {
  double loss;
  int64_t correct;
} lo_train_sum;

typedef struct lo_train {
  const lo_epoch *epoch;
  const lo_isa *isa;
  lo_caches caches;
  int64_t tasks;
  int64_t vectors, panel; /* of a panel; floats */
  int64_t layers;
  lo_train_layer *layer;
  bool copies;    /* batches are copied: into the two of x in turn */
  bool scattered; /* they are read where they are, row by row */
  float *x[2];
  const float **x_rows[2];
  int32_t *labels[2];
  lo_train_batch batch, next; /* of this step and the next; rows is 0 behind the last */
  float scale;                /* of the gradient: -lr / rows */
  float *ones;                /* as many as a batch has rows */
  float *column;              /* as many as the last layer has rows */
  lo_train_sum *sums;         /* of each group of the batch */
} lo_train;

/* ---- Passes: what task `task` of t->tasks does ---- */

/* Weights and biases from the network (train_weights.c), and back. */
void lo_train_enter(const lo_train *t, int64_t task);
void lo_train_leave(const lo_train *t, int64_t task);
/* Rows of t->next to where the batch says. */
void lo_train_gather(const lo_train *t, int64_t task);
/* Y of layer i, not the last, for `batch`. */
void lo_train_forward(const lo_train *t, int64_t i, const lo_train_batch *batch, int64_t task);
/* The last layer's D, the loss and the right answers, for a part of the batch. */
void lo_train_loss(const lo_train *t, int64_t task);
/* D of layer i - 1, where there is one; then the update of layer i. */
void lo_train_backward(const lo_train *t, int64_t i, int64_t task);

#endif
