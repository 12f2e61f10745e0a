/* A shallow network (multi-layer perceptron): linear layers with one activation between them, a loss
 * after the last, trained in batches. It stands on the public operations alone.
 *
 * Initial weights come from a counter-based generator, and the order of samples is a keyed permutation
 * of the index, so that the same seed gives the same weights and batches on every device and after
 * every resume. */
#ifndef LAYEROPS_NETWORK_H
#define LAYEROPS_NETWORK_H

#include <layerops/device.h>
#include <layerops/ops.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct layerops_network layerops_network;

enum { LAYEROPS_LOSS_CROSS_ENTROPY = 0, LAYEROPS_LOSS_MSE = 1 };
enum { LAYEROPS_OPTIMIZER_SGD = 0, LAYEROPS_OPTIMIZER_ADAM = 1, LAYEROPS_OPTIMIZER_ADAMW = 2 };

typedef struct layerops_network_args {
  const int64_t *widths; /* inputs, hidden widths, outputs: {784, 128, 10} */
  int64_t count;         /* of widths, at least 2 */
  layerops_activation activation; /* between layers; the last layer has none */
  int32_t loss;
  layerops_scalar slope;
  uint64_t seed;
} layerops_network_args;

/* Weights and biases uniform in +-1/sqrt(inputs of the layer), as PyTorch's nn.Linear. f32. */
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
  int64_t epochs; /* trained so far */
  int64_t steps;  /* optimizer steps so far */
} layerops_network_info;
LAYEROPS_API layerops_status layerops_network_get_info_(const layerops_network *network,
                                                        layerops_network_info *info, size_t size);
static inline layerops_status layerops_network_get_info(const layerops_network *network,
                                                        layerops_network_info *info) {
  return layerops_network_get_info_(network, info, sizeof(layerops_network_info));
}

/* Layer i's weights [out, in] and bias [out], in place (buffers of the network; i from 0). */
LAYEROPS_API layerops_status layerops_network_layer(layerops_network *network, int64_t i,
                                                    layerops_matrix *w, layerops_matrix *bias);

typedef struct layerops_network_train_args {
  layerops_matrix x;       /* [samples, inputs] f32, on the device (host views are copied once) */
  layerops_matrix labels;  /* i32 [samples], for cross-entropy */
  layerops_matrix targets; /* f32 [samples, outputs], for mean squared error or probabilities */
  int64_t batch;           /* samples a step */
  int32_t optimizer;
  int32_t drop_last;       /* 1: leave out an incomplete last batch */
  int32_t keep_order;      /* 1: samples in their order, no permutation */
  int32_t reserved;
  layerops_scalar lr;      /* needed for SGD */
  layerops_scalar momentum, weight_decay, beta1, beta2, epsilon;
  float *losses;           /* host, receives the mean loss of each step; NULL: not wanted */
  int64_t losses_capacity;
  /* Called after each step is enqueued; a non-zero answer ends the epoch after that step. */
  int32_t (*progress)(void *user, int64_t step, int64_t steps);
  void *progress_user;
} layerops_network_train_args;

typedef struct layerops_network_result {
  double loss;     /* mean over the samples seen */
  double accuracy; /* share of right answers in [0,1]; NaN where there are no labels */
  int64_t samples; /* seen */
  int64_t steps;
  double seconds;  /* wall time of the epoch or the evaluation, the final sync included */
  int32_t stopped; /* 1: progress ended it */
  int32_t reserved;
} layerops_network_result;

/* One epoch: the order of samples is the permutation of (seed, epochs trained so far). Loss and accuracy
 * are those of each batch before its step. */
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

typedef struct layerops_network_evaluate_args {
  layerops_matrix x;
  layerops_matrix labels;  /* [optional], as in training */
  layerops_matrix targets; /* [optional] */
  int64_t batch;           /* samples at once; 0: 1024 */
} layerops_network_evaluate_args;
LAYEROPS_API layerops_status layerops_network_evaluate_(
    layerops_network *network, const layerops_network_evaluate_args *args, size_t size,
    layerops_network_result *result, size_t result_size);
static inline layerops_status layerops_network_evaluate(layerops_network *network,
                                                        const layerops_network_evaluate_args *args,
                                                        layerops_network_result *result) {
  return layerops_network_evaluate_(network, args, sizeof(layerops_network_evaluate_args), result,
                                    sizeof(layerops_network_result));
}

/* y [samples, outputs] = softmax of the last layer (cross-entropy), or the last layer (MSE). */
LAYEROPS_API layerops_status layerops_network_predict(layerops_network *network,
                                                      const layerops_matrix *x,
                                                      const layerops_matrix *y);

/* As .safetensors: tensors "layers.I.weight", "layers.I.bias", metadata for the rest, optimizer state
 * not included. Written to a temporary name in the same folder and renamed: the file is whole or as it
 * was before. */
LAYEROPS_API layerops_status layerops_network_save(layerops_network *network, const char *path);
LAYEROPS_API layerops_status layerops_network_load(layerops_context *ctx, const char *path,
                                                   layerops_network **network);

#ifdef __cplusplus
}
#endif
#endif
