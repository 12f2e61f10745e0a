/* A shallow network (multi-layer perceptron): linear layers with one activation between them, a
 * loss after the last, trained in batches. It stands on the public operations alone.
 *
 * Initial weights come from a counter-based generator, and the order of samples is a keyed
 * permutation of the index, so that the same seed gives the same weights and batches on every
 * device and after every resume. */
#ifndef LAYEROPS_NETWORK_H
#define LAYEROPS_NETWORK_H

#include <layerops/bsr.h>
#include <layerops/device.h>
#include <layerops/ops.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct layerops_network layerops_network;

enum { LAYEROPS_LOSS_CROSS_ENTROPY = 0, LAYEROPS_LOSS_MSE = 1 };
enum { LAYEROPS_OPTIMIZER_SGD = 0, LAYEROPS_OPTIMIZER_ADAM = 1, LAYEROPS_OPTIMIZER_ADAMW = 2 };

typedef struct layerops_network_args {
  const int64_t *widths;          /* inputs, hidden widths, outputs: {784, 128, 10}; copied */
  int64_t count;                  /* of widths, 2 to 1001 */
  layerops_activation activation; /* between layers; the last layer has none */
  int32_t loss;
  layerops_scalar slope; /* leaky ReLU's: a value of at least 0, 0.01 where unset */
  uint64_t seed;
} layerops_network_args;

/* Weights and biases uniform in +-1/sqrt(inputs of the layer), as PyTorch's nn.Linear. f32. The
 * context must live until the network's last call but destroy; it is used by one thread at a time,
 * and so is the network. */
LAYEROPS_API layerops_status layerops_network_create_(layerops_context *ctx,
                                                      const layerops_network_args *args,
                                                      size_t size, layerops_network **network);
static inline layerops_status layerops_network_create(layerops_context *ctx,
                                                      const layerops_network_args *args,
                                                      layerops_network **network) {
  return layerops_network_create_(ctx, args, sizeof(layerops_network_args), network);
}
LAYEROPS_API void layerops_network_destroy(layerops_network *network); /* NULL is allowed */

typedef struct layerops_network_info {
  int64_t count;         /* of widths */
  const int64_t *widths; /* valid as long as the network */
  layerops_activation activation;
  int32_t loss;
  uint64_t seed;
  int64_t epochs;   /* trained so far, to their end */
  int64_t steps;    /* optimizer steps so far */
  int64_t position; /* samples of the current epoch that are done: not 0 where progress ended it */
  double slope;
} layerops_network_info;
LAYEROPS_API layerops_status layerops_network_get_info_(const layerops_network *network,
                                                        layerops_network_info *info, size_t size);
static inline layerops_status layerops_network_get_info(const layerops_network *network,
                                                        layerops_network_info *info) {
  return layerops_network_get_info_(network, info, sizeof(layerops_network_info));
}

/* Layer i's weights [out, in] and bias [out], in place (parts of the network's buffer; i from 0).
 * Of a block-sparse layer w is the kept blocks, as layerops_bsr_values gives them. w and bias may
 * be NULL. */
LAYEROPS_API layerops_status layerops_network_layer(layerops_network *network, int64_t i,
                                                    layerops_matrix *w, layerops_matrix *bias);

/* *sparse = layer i's block-sparse weights, the network's own; NULL where it is dense. */
LAYEROPS_API layerops_status layerops_network_sparse(layerops_network *network, int64_t i,
                                                     const layerops_bsr **sparse);

/* Makes layers block-sparse: of each by itself the blocks stay that layerops_bsr_prune would keep
 * of its W, whose arguments these are, with their values; all else is 0 from then on, and training
 * changes kept blocks alone. A layer that is sparse already is pruned as the dense matrix that it
 * stands for, so the blocks may be others. Epochs and steps count on; the optimizer's state is zero
 * again. Views and weights that the network has shown are no longer its own, and must not be used,
 * by a graph that was recorded with them either. After an error the network is as it was. Weights
 * go through host memory: the call returns when it is done. */
typedef struct layerops_network_prune_args {
  int64_t first, count; /* layers first ... first + count - 1. count 0: from first on all but the
                           network's last, which has few weights and suffers the most */
  int64_t block, width; /* as in layerops_bsr_args */
  int32_t score, rule;  /* LAYEROPS_BSR_L1, ...; LAYEROPS_BSR_DENSITY, ... */
  double density, threshold;
  int64_t n, m;
} layerops_network_prune_args;
LAYEROPS_API layerops_status layerops_network_prune_(layerops_network *network,
                                                     const layerops_network_prune_args *args,
                                                     size_t size);
static inline layerops_status layerops_network_prune(layerops_network *network,
                                                     const layerops_network_prune_args *args) {
  return layerops_network_prune_(network, args, sizeof(layerops_network_prune_args));
}

typedef struct layerops_network_train_args {
  layerops_matrix x;       /* [samples, inputs] f32, on the device (host views are copied once) */
  layerops_matrix labels;  /* i32 [samples]. Cross-entropy: these or targets. MSE: [optional], to
                              count  right answers (the largest output) */
  layerops_matrix targets; /* f32 [samples, outputs]. MSE: needed. Cross-entropy: probabilities */
  int64_t batch;           /* samples a step; the last may have less */
  int32_t optimizer;
  int32_t drop_last;  /* 1: leave out an incomplete last batch */
  int32_t keep_order; /* 1: samples in their order, no permutation */
  int32_t reserved;
  layerops_scalar lr;                                            /* needed for SGD */
  layerops_scalar momentum, weight_decay, beta1, beta2, epsilon; /* as in sgd and adam of ops.h */
  float *losses;           /* host, receives the mean loss of each step; NULL: not wanted */
  int64_t losses_capacity; /* at most so many */
  /* Called after step `step` (from 1) of `steps` of this call is enqueued; a non-zero answer ends
   * the call after that step. It must not use the network. */
  int32_t (*progress)(void *user, int64_t step, int64_t steps);
  void *progress_user;
} layerops_network_train_args;

typedef struct layerops_network_result {
  double
      loss; /* mean over the samples seen; NaN where there are none, or nothing to compute it of */
  double accuracy; /* share of right answers in [0,1]; NaN where there are no labels (cross-entropy:
                      nor probabilities) or no samples */
  int64_t samples; /* seen */
  int64_t steps;
  double seconds;  /* wall time of the epoch or the evaluation, the final sync included */
  int32_t stopped; /* 1: progress ended it */
  int32_t reserved;
} layerops_network_result;

/* One epoch: the order of samples is the permutation of (seed, epochs trained so far). Loss and
 * accuracy are those of each batch before its step. An epoch that progress ended goes on at the
 * next call with as many samples; then loss and accuracy are those of the samples that were left.
 * The epoch waits for the device once, at its end. The first allocates what the next ones reuse.
 * A device may train for the epoch in another way than one operation after the other (cpu:
 * cross-entropy with labels and SGD without momentum or weight decay): losses and weights then
 * agree within rounding, and the weights of the network change when the call returns, not before.
 * With block-sparse layers it is always one operation after the other, and UNSUPPORTED, before the
 * first step, where the device lacks one for their blocks.
 * The optimizer's state is zero at first, and again after a change of its kind (momentum or none,
 * Adam). A label outside [0, outputs) that the host can read is an error before the first step; on
 * another device it shows at the end, and its sample counted for nothing. After an error the steps
 * that were enqueued have changed the weights, and the next call begins the epoch again. result may
 * be NULL. */
LAYEROPS_API layerops_status layerops_network_train_(layerops_network *network,
                                                     const layerops_network_train_args *args,
                                                     size_t size, layerops_network_result *result,
                                                     size_t result_size);
static inline layerops_status layerops_network_train(layerops_network *network,
                                                     const layerops_network_train_args *args,
                                                     layerops_network_result *result) {
  return layerops_network_train_(network, args, sizeof(layerops_network_train_args), result,
                                 sizeof(layerops_network_result));
}

/* Loss and accuracy without training. At least one of labels and targets; with cross-entropy
 * exactly one. With MSE labels give the accuracy, targets the loss. */
typedef struct layerops_network_evaluate_args {
  layerops_matrix x;
  layerops_matrix labels;  /* [optional] */
  layerops_matrix targets; /* [optional] */
  int64_t batch;           /* samples at once; 0: 1024 */
} layerops_network_evaluate_args;
LAYEROPS_API layerops_status layerops_network_evaluate_(layerops_network *network,
                                                        const layerops_network_evaluate_args *args,
                                                        size_t size,
                                                        layerops_network_result *result,
                                                        size_t result_size);
static inline layerops_status layerops_network_evaluate(layerops_network *network,
                                                        const layerops_network_evaluate_args *args,
                                                        layerops_network_result *result) {
  return layerops_network_evaluate_(network, args, sizeof(layerops_network_evaluate_args), result,
                                    sizeof(layerops_network_result));
}

/* y [samples, outputs] f32 = softmax of the last layer (cross-entropy), or the last layer (MSE). */
LAYEROPS_API layerops_status layerops_network_predict(layerops_network *network,
                                                      const layerops_matrix *x,
                                                      const layerops_matrix *y);

/* As .safetensors: tensors "layers.I.weight", "layers.I.bias", and where the optimizer has a state,
 * the same names behind "optimizer.velocity." (momentum) or "optimizer.m." and "optimizer.v."
 * (Adam); the rest as metadata. A block-sparse layer has no weight, but "layers.I.weight.values"
 * F32 [kept blocks, height, width], of which there is a state too, and the arrays of bsr.h:
 * "layers.I.weight.row_start" I32 [block_rows + 1] and "layers.I.weight.column" I32 [kept blocks],
 * with W's sizes "layers.I.weight.size" I64 [2] = {rows, cols}. They are judged as by
 * layerops_bsr_create before use; FORMAT is what bad ones get. So training goes on after load as if
 * it had never stopped. Written to a temporary name in the same folder and renamed: the file is
 * whole or as it was before. */
LAYEROPS_API layerops_status layerops_network_save(layerops_network *network, const char *path);
LAYEROPS_API layerops_status layerops_network_load(layerops_context *ctx, const char *path,
                                                   layerops_network **network);

#ifdef __cplusplus
}
#endif
#endif
