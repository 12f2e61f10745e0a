/* One epoch of training. */
#include <config.h>

#include <stdlib.h>

#include "common/bsr.h"
#include "common/call.h"
#include "network/network.h"
#include "network/permutation.h"

typedef struct training {
  layerops_network *net;
  layerops_network_train_args args;
  lo_samples samples;
  int64_t first; /* sample of the epoch with which this call begins */
  int64_t total, steps;
} training;

static layerops_status check_truth(lo_door *door, const layerops_network *net,
                                   const layerops_network_train_args *a) {
  bool labels = lo_given(&a->labels), targets = lo_given(&a->targets);
  if (net->loss == LAYEROPS_LOSS_MSE)
    return targets ? LAYEROPS_OK
                   : lo_door_refuse(door, LAYEROPS_ERROR_INVALID,
                                    "targets is needed for the mean squared error, but is absent");
  if (labels != targets) return LAYEROPS_OK;
  return lo_door_refuse(door, LAYEROPS_ERROR_INVALID, "labels and targets are both %s: give one",
                        labels ? "set" : "absent");
}

static layerops_status check_optimizer(lo_door *door, layerops_network_train_args *a) {
  LO_TRY(lo_door_one_of(door, "optimizer", a->optimizer, 3));
  bool sgd = a->optimizer == LAYEROPS_OPTIMIZER_SGD;
  if (sgd && !a->lr.kind)
    return lo_door_refuse(door, LAYEROPS_ERROR_INVALID, "lr is needed for SGD, but is unset");
  if (!sgd && a->momentum.kind)
    return lo_door_refuse(door, LAYEROPS_ERROR_INVALID, "momentum is set, but only SGD has one");
  if (sgd && (a->beta1.kind || a->beta2.kind || a->epsilon.kind))
    return lo_door_refuse(door, LAYEROPS_ERROR_INVALID, "%s is set, but SGD has none",
                          a->beta1.kind   ? "beta1"
                          : a->beta2.kind ? "beta2"
                                          : "epsilon");
  LO_TRY(lo_door_scalar(door, "lr", &a->lr, 1e-3));
  LO_TRY(lo_door_scalar(door, "momentum", &a->momentum, 0));
  LO_TRY(lo_door_scalar(door, "weight_decay", &a->weight_decay, 0));
  LO_TRY(lo_door_scalar(door, "beta1", &a->beta1, 0.9));
  LO_TRY(lo_door_scalar(door, "beta2", &a->beta2, 0.999));
  return lo_door_scalar(door, "epsilon", &a->epsilon, 1e-8);
}

/* A device that can only run such a network says so before it has done anything. */
static layerops_status check_device(const layerops_network *net) {
  if (!net->sparse_layers) return LAYEROPS_OK;
  LO_TRY(layerops_supports(net->ctx, LAYEROPS_OP_bsr_linear_forward, LAYEROPS_F32));
  return layerops_supports(net->ctx, LAYEROPS_OP_bsr_linear_backward, LAYEROPS_F32);
}

static layerops_status check(lo_door *door, const layerops_network *net,
                             layerops_network_train_args *a) {
  if (a->batch < 1)
    return lo_door_refuse(door, LAYEROPS_ERROR_INVALID, "batch is %lld, but must be positive",
                          (long long)a->batch);
  LO_TRY(lo_door_reserved(door, a->reserved));
  LO_TRY(lo_door_one_of(door, "drop_last", a->drop_last, 2));
  LO_TRY(lo_door_one_of(door, "keep_order", a->keep_order, 2));
  if (a->losses_capacity < 0)
    return lo_door_refuse(door, LAYEROPS_ERROR_INVALID, "losses_capacity is %lld",
                          (long long)a->losses_capacity);
  LO_TRY(check_truth(door, net, a));
  return check_optimizer(door, a);
}

static layerops_status make_order(training *t) {
  layerops_network *net = t->net;
  if (t->args.keep_order || !t->total) return LAYEROPS_OK;
  if (t->total > INT32_MAX)
    return lo_fail(LAYEROPS_ERROR_OVERFLOW,
                   "network_train: x has %lld rows; their order can be changed for at most %d",
                   (long long)t->total, INT32_MAX);
  if (t->total > net->order_capacity) {
    layerops_buffer_destroy(net->order);
    free(net->order_host);
    net->order = NULL;
    net->order_capacity = 0;
    net->order_host = malloc((size_t)t->total * sizeof *net->order_host);
    if (!net->order_host) return lo_fail(LAYEROPS_ERROR_OUT_OF_MEMORY, "network_train: no memory");
    LO_TRY(layerops_buffer_create(net->ctx, t->total * 4, &net->order));
    net->order_capacity = t->total;
  }
  lo_permutation p;
  lo_permutation_init(&p, (uint64_t)t->total, net->seed, (uint64_t)net->epochs);
  for (int64_t i = 0; i < t->total; i++)
    net->order_host[i] = (int32_t)lo_permutation_at(&p, (uint64_t)i);
  return layerops_buffer_write(net->ctx, net->order, net->order_host, t->total * 4);
}

static layerops_status sparse_backward(layerops_network *net, const layerops_bsr *w,
                                       const layerops_linear_backward_args *a) {
  const layerops_bsr_linear_backward_args args = {.dy = a->dy,
                                                  .x = a->x,
                                                  .w = w,
                                                  .dx = a->dx,
                                                  .dx_saved = a->dx_saved,
                                                  .dw = a->dw,
                                                  .dbias = a->dbias,
                                                  .dx_activation = a->dx_activation,
                                                  .dx_slope = a->dx_slope};
  return layerops_bsr_linear_backward(net->ctx, &args);
}

/* From the gradient at the last layer's output to those of all parameters. */
static layerops_status backward(layerops_network *net, layerops_matrix x, layerops_matrix dy) {
  for (int64_t i = net->layers - 1; i >= 0; i--) {
    const lo_layer *l = &net->layer[i], *below = l - 1;
    layerops_linear_backward_args args = {.dy = dy,
                                          .x = x,
                                          .w = l->w,
                                          .dw = l->dw,
                                          .dbias = l->dbias,
                                          .dx_slope = layerops_value(net->slope)};
    if (i > 0) {
      args.x = below->y;
      args.dx = layerops_matrix_f32(net->scratch, x.rows, net->widths[i]);
      args.dx.offset = net->gradient[i % 2].offset;
      args.dx_activation = net->activation;
      args.x.rows = x.rows;
      if (net->activation != LAYEROPS_IDENTITY) {
        args.dx_saved = lo_present(&below->preact) ? below->preact : below->y;
        args.dx_saved.rows = x.rows;
      }
    }
    LO_TRY(l->sparse ? sparse_backward(net, l->sparse, &args)
                     : layerops_linear_backward(net->ctx, &args));
    dy = args.dx;
  }
  return LAYEROPS_OK;
}

/* Elements of a vector beside the parameters. */
typedef struct piece {
  int64_t first, count;
} piece;

static layerops_matrix piece_of(layerops_buffer *buffer, piece p) {
  layerops_matrix view = layerops_vector_f32(buffer, p.count);
  view.offset = p.first;
  return view;
}

static layerops_status sgd(training *t, layerops_matrix w, piece p) {
  layerops_network *net = t->net;
  layerops_sgd_args args = {.w = w,
                            .g = piece_of(net->gradients, p),
                            .lr = t->args.lr,
                            .weight_decay = t->args.weight_decay};
  if (net->state_kind == LO_STATE_VELOCITY) {
    args.velocity = piece_of(net->state[0], p);
    args.momentum = t->args.momentum;
  }
  return layerops_sgd(net->ctx, &args);
}

static layerops_status adam(training *t, layerops_matrix w, piece p) {
  layerops_network *net = t->net;
  layerops_adam_args args = {.w = w,
                             .g = piece_of(net->gradients, p),
                             .m = piece_of(net->state[0], p),
                             .v = piece_of(net->state[1], p),
                             .lr = t->args.lr,
                             .beta1 = t->args.beta1,
                             .beta2 = t->args.beta2,
                             .epsilon = t->args.epsilon,
                             .weight_decay = t->args.weight_decay,
                             .step = layerops_value((double)net->state_steps + 1),
                             .decoupled = t->args.optimizer == LAYEROPS_OPTIMIZER_ADAMW};
  return layerops_adam(net->ctx, &args);
}

static layerops_status update(training *t, layerops_buffer *parameters, piece p) {
  const layerops_matrix w = layerops_vector_f32(parameters, p.count);
  return t->args.optimizer == LAYEROPS_OPTIMIZER_SGD ? sgd(t, w, p) : adam(t, w, p);
}

/* Adam makes 0 / 0 of a gradient that is always 0, as it is outside of W. */
static bool spoils_outside(const training *t) {
  const layerops_scalar *epsilon = &t->args.epsilon;
  return t->args.optimizer != LAYEROPS_OPTIMIZER_SGD && (epsilon->kind != 1 || epsilon->value == 0);
}

/* The dense parameters in one call, and each sparse layer's values in one. */
static layerops_status update_all(training *t) {
  const layerops_network *net = t->net;
  LO_TRY(update(t, net->parameters, (piece){0, net->dense}));
  for (int64_t i = 0; i < net->layers; i++) {
    const lo_layer *l = &net->layer[i];
    if (!l->sparse) continue;
    LO_TRY(update(t, l->w.buffer, (piece){l->dw.offset, l->dw.rows * l->dw.cols}));
    if (spoils_outside(t)) LO_TRY(lo_bsr_clear_outside(net->ctx, l->sparse));
  }
  return LAYEROPS_OK;
}

static int state_kind(const layerops_network_train_args *a) {
  if (a->optimizer != LAYEROPS_OPTIMIZER_SGD) return LO_STATE_MOMENTS;
  return a->momentum.kind == 1 && a->momentum.value == 0 ? LO_STATE_NONE : LO_STATE_VELOCITY;
}

static layerops_status one_step(training *t, int64_t step) {
  layerops_network *net = t->net;
  int64_t left = t->total - net->position, rows = left < t->args.batch ? left : t->args.batch;
  lo_samples batch = lo_samples_slice(&t->samples, net->position, rows);
  if (!t->args.keep_order) LO_TRY(lo_samples_gather(net, &t->samples, net->position, rows, &batch));
  layerops_matrix y = net->layer[net->layers - 1].y;
  y.rows = rows;
  LO_TRY(lo_network_forward(net, batch.x, y, true));
  LO_TRY(lo_network_loss(net, &batch, y, step, true));
  LO_TRY(backward(net, batch.x, y));
  LO_TRY(update_all(t));
  net->state_steps++;
  net->steps++;
  net->position += rows;
  return LAYEROPS_OK;
}

/* An epoch that was interrupted goes on, if these are as many samples as they were. */
static void find_position(training *t) {
  layerops_network *net = t->net;
  if (net->samples != t->total) net->position = 0;
  net->samples = t->total;
  t->first = net->position;
  int64_t left = t->total - t->first, batch = t->args.batch;
  t->steps = left / batch + (!t->args.drop_last && left % batch);
}

/* One operation after the other. */
static layerops_status plain_epoch(training *t, lo_door *door, bool *stopped) {
  layerops_network *net = t->net;
  int64_t rows = t->total < t->args.batch ? t->total : t->args.batch;
  LO_TRY(lo_network_reserve(door, net, rows, t->steps));
  for (int64_t step = 0; step < t->steps && !*stopped;) {
    LO_TRY(one_step(t, step++));
    if (t->args.progress) *stopped = t->args.progress(t->args.progress_user, step, t->steps) != 0;
  }
  return LAYEROPS_OK;
}

/* The steps that were taken, where the backend counted them. */
static void advance(training *t, int64_t steps) {
  layerops_network *net = t->net;
  const int64_t left = t->total - net->position, samples = steps * t->args.batch;
  net->state_steps += steps;
  net->steps += steps;
  net->position += samples < left ? samples : left;
}

/* The epoch as one call of the backend's, where it has one that accepts it: of dense layers. */
static layerops_status fused_epoch(training *t, lo_door *door, bool *taken, bool *stopped) {
  layerops_network *net = t->net;
  layerops_context *ctx = net->ctx;
  if (!ctx->backend->train_epoch || !t->steps || net->sparse_layers) return LAYEROPS_OK;
  lo_epoch_layer *layer = malloc((size_t)net->layers * sizeof *layer);
  if (!layer) return lo_door_refuse(door, LAYEROPS_ERROR_OUT_OF_MEMORY, "no memory");
  for (int64_t i = 0; i < net->layers; i++)
    layer[i] = (lo_epoch_layer){net->layer[i].w, net->layer[i].bias};
  lo_epoch e = {.layers = net->layers,
                .layer = layer,
                .activation = net->activation,
                .slope = net->slope,
                .loss = net->loss,
                .optimizer = t->args.optimizer,
                .lr = t->args.lr,
                .momentum = t->args.momentum,
                .weight_decay = t->args.weight_decay,
                .x = t->samples.x,
                .labels = t->samples.labels,
                .targets = t->samples.targets,
                .first = t->first,
                .total = t->total,
                .batch = t->args.batch,
                .steps = t->steps,
                .slots = layerops_vector_f32(net->slots, 2 * t->steps),
                .progress = t->args.progress,
                .progress_user = t->args.progress_user};
  if (!t->args.keep_order) e.order = layerops_vector_i32(net->order, t->total);
  ctx->kernel = "";
  const double start = lo_network_clock();
  layerops_status status = ctx->backend->train_epoch(ctx, &e);
  free(layer);
  *taken = e.taken;
  *stopped = e.stopped;
  advance(t, e.done);
  if (e.taken)
    lo_log(ctx, 1, "layerops: network_train device=%s kernel=%s samples=%lld steps=%lld ms=%.6g",
           ctx->device->name, ctx->kernel, (long long)(net->position - t->first), (long long)e.done,
           (lo_network_clock() - start) * 1e3);
  return status;
}

static layerops_status epoch(training *t, lo_door *door, layerops_network_result *result) {
  layerops_network *net = t->net;
  lo_tally tally = {.batch = t->args.batch,
                    .loss = true,
                    .answers = lo_network_has_answers(net, &t->samples),
                    .start = lo_network_clock(),
                    .losses = t->args.losses,
                    .losses_capacity = t->args.losses_capacity};
  bool taken = false, stopped = false;
  LO_TRY(lo_network_reserve(door, net, 0, t->steps));
  LO_TRY(lo_network_state(net, state_kind(&t->args)));
  LO_TRY(make_order(t));
  net->fresh = false;
  const int64_t before = net->steps;
  LO_TRY(fused_epoch(t, door, &taken, &stopped));
  if (!taken) LO_TRY(plain_epoch(t, door, &stopped));
  tally.steps = net->steps - before;
  tally.samples = net->position - t->first;
  LO_TRY(lo_network_collect(net, &tally, result));
  result->stopped = stopped;
  return LAYEROPS_OK;
}

layerops_status layerops_network_train_(layerops_network *net,
                                        const layerops_network_train_args *user, size_t size,
                                        layerops_network_result *result, size_t result_size) {
  if (!net) return lo_fail(LAYEROPS_ERROR_INVALID, "network_train: network is NULL");
  lo_door door;
  training t = {.net = net};
  layerops_network_result full;
  LO_TRY(lo_door_enter(&door, net->ctx, "network_train"));
  LO_TRY(lo_not_recording(net->ctx, door.function));
  LO_TRY(lo_copy_args(door.function, &t.args, sizeof t.args, user, size));
  LO_TRY(check(&door, net, &t.args));
  LO_TRY(check_device(net));
  t.samples = (lo_samples){.x = t.args.x, .labels = t.args.labels, .targets = t.args.targets};
  LO_TRY(lo_samples_open(&door, net, &t.samples));
  t.total = t.samples.x.rows;
  find_position(&t);
  layerops_status status = epoch(&t, &door, &full);
  lo_samples_close(&t.samples);
  if (status != LAYEROPS_OK) {
    net->position = 0;
    return status;
  }
  bool complete = !full.stopped || full.steps == t.steps;
  net->epochs += complete;
  if (complete) net->position = 0;
  lo_network_give(&full, result, result_size);
  return LAYEROPS_OK;
}
