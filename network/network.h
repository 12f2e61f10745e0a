/* The inside of a network, and what its files share.
 *
 * All dense parameters lie in one buffer, each tensor at a multiple of 64 bytes, and gradients and
 * the optimizer's state have the same layout: an optimizer step is one call over one long vector.
 * The padding between tensors is 0 and has gradient 0, and nothing reads it. The kept blocks of a
 * block-sparse layer have a buffer of their own, that of their layerops_bsr; gradients and state
 * have room for them behind all the rest, and an optimizer step is one more call for each. */
#ifndef LO_NETWORK_H
#define LO_NETWORK_H

#include "common/door.h"

#define LO_NETWORK_LAYERS 1000 /* at most: enough for any network that one would call shallow */

typedef struct lo_layer {
  layerops_bsr *sparse; /* block-sparse weights; NULL: dense */
  layerops_matrix w;    /* [outputs, inputs]; of sparse weights the values */
  layerops_matrix bias;
  layerops_matrix dw, dbias; /* in the gradients; their offsets are those in any such vector */
  layerops_weights *packed;  /* w, where it is in use; NULL before */
  layerops_matrix y, preact; /* of a batch, with as many rows as the network has reserved */
} lo_layer;

/* What a step leaves behind. */
typedef struct lo_slot {
  float loss; /* the batch's mean */
  int32_t correct;
} lo_slot;

/* What the optimizer remembers: vectors as long as the parameters, with names for their files. */
enum { LO_STATE_NONE, LO_STATE_VELOCITY, LO_STATE_MOMENTS, LO_STATE_KINDS };
#define LO_STATE_VECTORS 2
typedef struct lo_state_kind {
  const char *name;
  int vectors;
  const char *vector[LO_STATE_VECTORS];
} lo_state_kind;
extern const lo_state_kind lo_state_kinds[LO_STATE_KINDS];

struct layerops_network {
  layerops_context *ctx;
  int64_t count, layers; /* of widths; one less */
  int64_t *widths;
  lo_layer *layer;
  layerops_activation activation;
  int32_t loss;
  double slope;
  uint64_t seed;

  int64_t epochs, steps;
  int64_t position; /* samples of the current epoch that are done, */
  int64_t samples;  /* out of this many */

  int64_t sparse_layers;
  int64_t dense;    /* elements of the parameters, padding included */
  int64_t elements; /* of vectors beside them, where values of sparse layers come behind */
  layerops_buffer *parameters, *gradients;
  bool shown;  /* the user has views of this buffer, and may change them at any time */
  bool fresh;  /* the packed weights are the weights of now, if nobody else changes them */
  bool packed; /* this call uses them */
  layerops_buffer *state[LO_STATE_VECTORS];
  int state_kind;
  int64_t state_steps; /* since the state was zero */

  /* Memory that one batch needs, for up to `reserved` rows. */
  int64_t reserved;
  layerops_buffer *scratch;
  layerops_matrix x, labels, targets;
  layerops_matrix gradient[2]; /* of two neighbouring layers' outputs */

  /* One slot for each step, read once an epoch. */
  int64_t slot_capacity;
  layerops_buffer *slots;
  lo_slot *slots_host;

  /* The order of samples of an epoch. */
  int64_t order_capacity;
  layerops_buffer *order;
  int32_t *order_host;
};

/* network.c: a network whose dense parameters are still 0. sparse[i] are the weights of layer i, or
 * NULL; they become the network's where this succeeds. sparse is NULL where all layers are dense.
 */
layerops_status lo_network_new(lo_door *door, const layerops_network_args *args,
                               layerops_bsr *const *sparse, layerops_network **network);
/* Memory for batches of `rows` samples, and for `steps` of them. */
layerops_status lo_network_reserve(lo_door *door, layerops_network *net, int64_t rows,
                                   int64_t steps);
/* The optimizer's state of a kind: as it is where the network has this kind already, else zeros. */
layerops_status lo_network_state(layerops_network *net, int kind);
/* Layer i, or NULL with an error that begins with `function`. */
lo_layer *lo_network_at(const char *function, layerops_network *net, int64_t i);

/* Samples of the caller's: views that the device can read. */
typedef struct lo_samples {
  layerops_matrix x, labels, targets; /* labels and targets may be absent */
  layerops_buffer *owned[3];          /* copies of views of host memory, on a device */
} lo_samples;

/* samples.c: checks the three views and copies what the device cannot read. */
layerops_status lo_samples_open(lo_door *door, layerops_network *net, lo_samples *samples);
void lo_samples_close(lo_samples *samples);
/* Samples [first, first + rows), in place. */
lo_samples lo_samples_slice(const lo_samples *samples, int64_t first, int64_t rows);
/* The samples that net->order names in [first, first + rows), collected in the network's scratch.
 */
layerops_status lo_samples_gather(layerops_network *net, const lo_samples *samples, int64_t first,
                                  int64_t rows, lo_samples *batch);

/* forward.c: packs the weights, where that pays for a call of `batches` batches. */
layerops_status lo_network_pack(layerops_network *net, int64_t batches);
/* y = the last layer's output for x. With `keep`, what the backward pass needs is kept, and
 * the weights are those of now. */
layerops_status lo_network_forward(layerops_network *net, layerops_matrix x, layerops_matrix y,
                                   bool keep);
/* Loss and right answers of a batch into slot `step`; with `gradient`, y becomes dLoss/dy. */
layerops_status lo_network_loss(layerops_network *net, const lo_samples *batch, layerops_matrix y,
                                int64_t step, bool gradient);

/* result.c: sums up slots. */
typedef struct lo_tally {
  int64_t samples, batch, steps; /* seen; a step's, the last may have less */
  bool loss, answers;            /* which of the two was measured */
  double start;                  /* lo_network_clock() */
  float *losses;                 /* the caller's, or NULL */
  int64_t losses_capacity;
} lo_tally;
double lo_network_clock(void); /* seconds */
/* What the network's loss can be computed for, and its right answers. */
bool lo_network_has_loss(const layerops_network *net, const lo_samples *samples);
bool lo_network_has_answers(const layerops_network *net, const lo_samples *samples);
/* Waits for the device. */
layerops_status lo_network_collect(layerops_network *net, const lo_tally *tally,
                                   layerops_network_result *result);
/* Copies what the caller's struct has room for. */
void lo_network_give(const layerops_network_result *from, layerops_network_result *to, size_t size);

#endif
