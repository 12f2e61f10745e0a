/* Evaluation and prediction: the forward pass over many samples. */
#include <config.h>

#include "network/network.h"

#define DEFAULT_BATCH 1024

static layerops_status evaluate(lo_door *door, layerops_network *net, const lo_samples *samples,
                                int64_t batch, layerops_network_result *result) {
  int64_t total = samples->x.rows, rows = total < batch ? total : batch;
  lo_tally tally = {.samples = total,
                    .batch = batch,
                    .steps = total / batch + (total % batch != 0),
                    .loss = lo_network_has_loss(net, samples),
                    .answers = lo_network_has_answers(net, samples),
                    .start = lo_network_clock()};
  LO_TRY(lo_network_reserve(door, net, rows, tally.steps));
  LO_TRY(lo_network_pack(net, tally.steps));
  for (int64_t step = 0; step < tally.steps; step++) {
    int64_t first = step * batch, left = total - first;
    lo_samples part = lo_samples_slice(samples, first, left < batch ? left : batch);
    layerops_matrix y = net->layer[net->layers - 1].y;
    y.rows = part.x.rows;
    LO_TRY(lo_network_forward(net, part.x, y, false));
    LO_TRY(lo_network_loss(net, &part, y, step, false));
  }
  return lo_network_collect(net, &tally, result);
}

static layerops_status check_truth(lo_door *door, const layerops_network *net,
                                   const lo_samples *s) {
  bool labels = lo_given(&s->labels), targets = lo_given(&s->targets);
  if (!labels && !targets)
    return lo_door_refuse(door, LAYEROPS_ERROR_INVALID,
                          "labels and targets are both absent: give one");
  if (labels && targets && net->loss != LAYEROPS_LOSS_MSE)
    return lo_door_refuse(door, LAYEROPS_ERROR_INVALID,
                          "labels and targets are both set: give one");
  return LAYEROPS_OK;
}

layerops_status layerops_network_evaluate_(layerops_network *net,
                                           const layerops_network_evaluate_args *user, size_t size,
                                           layerops_network_result *result, size_t result_size) {
  if (!net) return lo_fail(LAYEROPS_ERROR_INVALID, "network_evaluate: network is NULL");
  if (!result) return lo_fail(LAYEROPS_ERROR_INVALID, "network_evaluate: result is NULL");
  lo_door door;
  layerops_network_evaluate_args args;
  layerops_network_result full;
  LO_TRY(lo_door_enter(&door, net->ctx, "network_evaluate"));
  LO_TRY(lo_not_recording(net->ctx, door.function));
  LO_TRY(lo_copy_args(door.function, &args, sizeof args, user, size));
  if (args.batch < 0)
    return lo_door_refuse(&door, LAYEROPS_ERROR_INVALID, "batch is %lld, but must not be negative",
                          (long long)args.batch);
  lo_samples samples = {.x = args.x, .labels = args.labels, .targets = args.targets};
  LO_TRY(check_truth(&door, net, &samples));
  LO_TRY(lo_samples_open(&door, net, &samples));
  layerops_status status =
      evaluate(&door, net, &samples, args.batch ? args.batch : DEFAULT_BATCH, &full);
  lo_samples_close(&samples);
  if (status == LAYEROPS_OK) lo_network_give(&full, result, result_size);
  return status;
}

static layerops_status predict(lo_door *door, layerops_network *net, const lo_samples *samples,
                               layerops_matrix y) {
  int64_t total = samples->x.rows;
  LO_TRY(lo_network_reserve(door, net, total < DEFAULT_BATCH ? total : DEFAULT_BATCH, 0));
  LO_TRY(lo_network_pack(net, total / DEFAULT_BATCH + (total % DEFAULT_BATCH != 0)));
  for (int64_t first = 0; first < total; first += DEFAULT_BATCH) {
    int64_t left = total - first, rows = left < DEFAULT_BATCH ? left : DEFAULT_BATCH;
    layerops_matrix part = layerops_slice(y, first, rows, 0, y.cols);
    LO_TRY(lo_network_forward(net, lo_samples_slice(samples, first, rows).x, part, false));
    layerops_softmax_args softmax = {.x = part, .y = part};
    if (net->loss == LAYEROPS_LOSS_CROSS_ENTROPY) LO_TRY(layerops_softmax(net->ctx, &softmax));
  }
  return LAYEROPS_OK;
}

/* y in host memory is filled from a copy on the device, once all of it is there. */
static layerops_status predict_to_host(lo_door *door, layerops_network *net,
                                       const lo_samples *samples, layerops_matrix y) {
  layerops_buffer *buffer;
  LO_TRY(layerops_buffer_create(net->ctx, y.rows * y.cols * 4, &buffer));
  layerops_copy_args copy = {.x = layerops_matrix_f32(buffer, y.rows, y.cols), .y = y};
  layerops_status status = predict(door, net, samples, copy.x);
  if (status == LAYEROPS_OK) status = layerops_copy(net->ctx, &copy);
  layerops_buffer_destroy(buffer);
  return status;
}

layerops_status layerops_network_predict(layerops_network *net, const layerops_matrix *x,
                                         const layerops_matrix *y) {
  if (!net) return lo_fail(LAYEROPS_ERROR_INVALID, "network_predict: network is NULL");
  if (!x || !y)
    return lo_fail(LAYEROPS_ERROR_INVALID, "network_predict: %s is NULL", x ? "y" : "x");
  lo_door door;
  layerops_matrix out = *y;
  lo_samples samples = {.x = *x};
  LO_TRY(lo_door_enter(&door, net->ctx, "network_predict"));
  LO_TRY(lo_not_recording(net->ctx, door.function));
  LO_TRY(lo_door_matrix(&door, "y", &out, LO_OUT, LO_BIT(LAYEROPS_F32), x->rows,
                        net->widths[net->layers]));
  LO_TRY(lo_samples_open(&door, net, &samples));
  layerops_status status = lo_check_aliases(&door);
  bool to_host = out.host && !net->ctx->backend->host_memory;
  if (status == LAYEROPS_OK)
    status =
        to_host ? predict_to_host(&door, net, &samples, out) : predict(&door, net, &samples, out);
  lo_samples_close(&samples);
  return status;
}
