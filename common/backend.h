/* What a backend is: a constant struct of functions, one entry in the registry (common/registry.c),
 * and nothing else that common/ knows of it.
 *
 * What a backend may rely on, since the door (common/door.h) has checked it: shapes agree, strides
 * are at least cols (equal where there is one row), no product of sizes overflows, every view lies
 * inside its buffer, the buffers are of this device, outputs do not overlap anything but an input
 * that is the very same view where the header allows it, absent views have type LAYEROPS_NONE_TYPE,
 * scalars that were unset hold their default. At least one output is present and no present output
 * is empty: empty ones were made absent (dX of a batch of 0). Inputs may be empty (k = 0, a loss
 * over 0 rows); their native handle may then be NULL. */
#ifndef LO_BACKEND_H
#define LO_BACKEND_H

#include <stdbool.h>

#include <layerops/layerops.h>

#include "common/error.h"

typedef struct lo_device lo_device;

/* The table: one function for each operation, NULL where the backend lacks it. */
struct lo_ops {
#define LO_OPS_ENTRY(name, number)                                                                 \
  layerops_status (*name)(layerops_context * ctx, const layerops_##name##_args *args);
  LAYEROPS_OP_LIST(LO_OPS_ENTRY)
#undef LO_OPS_ENTRY
};

/* A form of its own for packed weights. Without one (NULL) they are rows in a buffer, and the door
 * gives them to the backend as `w`: it never sees `packed`. With one, it sees `packed`, and `w` is
 * absent. */
struct lo_weights_form {
  /* weights->shape, backward and device are set; sets weights->state. */
  layerops_status (*create)(layerops_context *ctx, layerops_weights *weights);
  void (*release)(layerops_weights *weights); /* the state, which may be NULL */
  layerops_status (*update)(layerops_context *ctx, layerops_weights *weights,
                            const layerops_matrix *w);
  layerops_status (*unpack)(layerops_context *ctx, const layerops_weights *weights,
                            const layerops_matrix *w);
  /* NULL, or why this context cannot use weights of its device. */
  const char *(*refuses)(layerops_context *ctx, const layerops_weights *weights);
  /* NULL, or why they do not serve an X (or dY) of the type `x`. */
  const char *(*refuses_x)(const layerops_weights *weights, layerops_type x);
};

/* What a backend keeps beside the pattern of block-sparse weights, to plan with, and what its
 * device does by itself when they are made. Without it (NULL) nothing is kept, and the host makes
 * them. */
typedef struct lo_bsr_shape lo_bsr_shape;
struct lo_bsr_form {
  /* All but the values is set; sets w->state. */
  layerops_status (*create)(layerops_context *ctx, layerops_bsr *w);
  void (*release)(layerops_bsr *w); /* the state, which may be NULL */
  /* Checks w's row_start and column where they lie; makes its buffers of columns, and the longest
   * of rows and columns. */
  layerops_status (*index)(layerops_context *ctx, layerops_bsr *w, bool *valid);
  /* Of a dense W on the device: the scores of its blocks (bsr_prune), the values of kept blocks and
   * their scales, and back. */
  layerops_status (*scores)(layerops_context *ctx, const lo_bsr_shape *shape,
                            const layerops_matrix *dense, int32_t score, double *scores);
  layerops_status (*gather)(layerops_context *ctx, layerops_bsr *w, const layerops_matrix *dense);
  layerops_status (*scatter)(layerops_context *ctx, const layerops_bsr *w,
                             const layerops_matrix *dense);
  /* Sets values outside of W to 0. */
  layerops_status (*clear)(layerops_context *ctx, const layerops_bsr *w);
};

/* Recorded calls in a form of the device's own, which one launch replays. Without one (NULL) a
 * graph is a list of checked calls, run one after the other. */
typedef struct lo_call lo_call;
struct lo_graph_form {
  /* Warms a checked call, and sets ctx->kernel: from now on it neither allocates nor waits. Nothing
   * runs. */
  layerops_status (*prepare)(layerops_context *ctx, const lo_call *call);
  /* Whether a call made now would be captured, so that no memory can be had for it. */
  bool (*capturing)(layerops_context *ctx);
  /* Of `count` prepared calls, at least one. They stay valid as long as the object. */
  layerops_status (*create)(layerops_context *ctx, const lo_call *calls, size_t count,
                            void **native);
  layerops_status (*replay)(layerops_context *ctx, void *native);
  void (*release)(lo_device *device, void *native); /* maybe after the context is closed */
};

/* What a device makes of a checked call that comes again (common/again.h). Without it (NULL) such a
 * call is run as any other. */
struct lo_again_form {
  /* Runs the call. *kept is the backend's, NULL at first: whatever it made of the call. */
  layerops_status (*run)(layerops_context *ctx, const lo_call *call, void **kept);
  void (*release)(void *kept); /* maybe after the context is closed, or in a forked child */
};

/* An epoch of training (network/train.c), as one call. Views are those of the network and of the
 * checked samples; what is absent has type LAYEROPS_NONE_TYPE. */
typedef struct lo_epoch_layer {
  layerops_matrix w, bias;
} lo_epoch_layer;

typedef struct lo_epoch {
  int64_t layers;
  const lo_epoch_layer *layer;
  layerops_activation activation; /* between layers */
  double slope;
  int32_t loss, optimizer;
  layerops_scalar lr, momentum, weight_decay;
  layerops_matrix x, labels, targets;
  layerops_matrix order; /* i32: which sample comes when; absent: they come as they stand */
  int64_t first, total;  /* the epoch goes on with sample `first` of `total` */
  int64_t batch, steps;
  layerops_matrix
      slots; /* for each step: the mean loss, f32, and the number of right answers, i32 */
  int32_t (*progress)(void *user, int64_t step, int64_t steps); /* or NULL */
  void *progress_user;
  /* Results. */
  bool taken;   /* false: refused, and nothing is done */
  bool stopped; /* by progress */
  int64_t done; /* steps, also where the call failed */
} lo_epoch;

/* Tuning (layerops/tune.h); common/ has checked state and arguments. */
struct lo_tuning_form {
  layerops_status (*begin)(layerops_context *ctx, const layerops_tune_args *args);
  layerops_status (*end)(layerops_context *ctx);
  layerops_status (*list)(layerops_context *ctx, layerops_tuned_fn told, void *user);
  layerops_status (*clear)(layerops_context *ctx);
};

struct lo_backend {
  const char *name; /* "cuda": devices are called "cuda:0", or just "cpu" where `single` */
  int single;       /* one device, whose name is the backend's */
  int host_memory;  /* native handles are host pointers, and host views are used in place */

  /* How many devices there are; if none, `reason` says why. Cheap and without side effects that a
   * program which never opens one would mind. Thread-safe. */
  int (*count)(char *reason, size_t reason_size);
  /* Fills the info of device `index`; name too. Thread-safe. */
  layerops_status (*info)(int index, layerops_device_info *info);
  /* The index of a name's part behind "name:" ("0", "1.0"), or -1. */
  int (*index_of)(const char *rest);

  /* ctx->device, ctx->args and ctx->backend are set; sets ctx->state. */
  layerops_status (*open)(layerops_context *ctx, int index, const layerops_open_args *args);
  void (*close)(layerops_context *ctx);
  layerops_status (*sync)(layerops_context *ctx);
  layerops_status (*wait)(layerops_context *ctx,
                          layerops_context *other); /* NULL: calls complete */

  /* buffer->bytes is set; sets buffer->native (and root, root_offset: where two natives may share
   * memory). wrap finds the root of what the user gave. release is called with the last reference,
   * maybe from another thread than the context's, maybe after the context is closed. */
  layerops_status (*buffer_create)(layerops_context *ctx, layerops_buffer *buffer);
  layerops_status (*buffer_wrap)(layerops_context *ctx, layerops_buffer *buffer);
  void (*buffer_release)(layerops_buffer *buffer);
  layerops_status (*write)(layerops_context *ctx, layerops_buffer *buffer, int64_t offset,
                           const void *host, int64_t bytes);
  layerops_status (*read)(layerops_context *ctx, layerops_buffer *buffer, int64_t offset,
                          void *host, int64_t bytes);

  layerops_status (*event_create)(layerops_context *ctx, void **event);
  layerops_status (*event_record)(layerops_context *ctx, void *event);
  layerops_status (*event_wait)(layerops_context *ctx, void *event);
  layerops_status (*event_elapsed)(layerops_context *ctx, void *start, void *stop, double *ms);
  void (*event_destroy)(layerops_context *ctx, void *event);

  const struct lo_weights_form *weights; /* NULL: none */
  const struct lo_bsr_form *bsr;         /* NULL: none */
  const struct lo_graph_form *graphs;    /* NULL: none */
  const struct lo_tuning_form *tuning;   /* NULL: nothing to choose by measuring */
  const struct lo_again_form *again;     /* NULL: nothing is kept of calls that come again */

  /* NULL, or why this device refuses the operation for these types. Asked by the door before each
   * call and by layerops_supports. `type` is that of the operation's first operand, `second` that
   * of B or W, or of the copy that copy and gather make; LAYEROPS_NONE_TYPE where the operation has
   * no such operand, or layerops_supports asks for `type` alone. */
  const char *(*refuses)(layerops_context *ctx, layerops_op op, layerops_type type,
                         layerops_type second);

  struct lo_ops ops;

  /* NULL, or a way to train for an epoch that is faster than one operation after the other, which
   * stays its oracle: the network tries it first. It refuses what it cannot do (`taken`; the reason
   * goes to the log by lo_select). When it returns, whatever its status, the network's weights are
   * those of a whole number of steps. Losses and weights agree with the plain path's within
   * rounding: the order of sums may differ, and w - lr * g may be rounded once. */
  layerops_status (*train_epoch)(layerops_context *ctx, lo_epoch *epoch);
};

extern const struct lo_backend lo_backend_reference, lo_backend_cpu;
extern const struct lo_backend lo_backend_opencl, lo_backend_cuda;

/* All backends of this build, in the order in which "auto" tries them; ends with NULL. */
extern const struct lo_backend *const lo_backends[];

#endif
