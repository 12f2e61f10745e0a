/* The forward pass and the loss of a batch. */
#include <config.h>

#include "network/network.h"

layerops_status lo_network_forward(layerops_network *net, layerops_matrix x, layerops_matrix y,
                                   bool keep) {
  for (int64_t i = 0; i < net->layers; i++) {
    const lo_layer *l = &net->layer[i];
    bool last = i + 1 == net->layers;
    layerops_linear_forward_args args = {.x = x,
                                         .w = l->w,
                                         .bias = l->bias,
                                         .y = last ? y : l->y,
                                         .slope = layerops_value(net->slope)};
    args.activation = last ? LAYEROPS_IDENTITY : net->activation;
    args.y.rows = x.rows;
    if (keep && lo_present(&l->preact)) {
      args.preact = l->preact;
      args.preact.rows = x.rows;
    }
    LO_TRY(layerops_linear_forward(net->ctx, &args));
    x = args.y;
  }
  return LAYEROPS_OK;
}

/* A slot is two elements of 4 bytes. */
static layerops_matrix slot_loss(const layerops_network *net, int64_t step) {
  layerops_matrix view = layerops_vector_f32(net->slots, 1);
  view.offset = 2 * step;
  return view;
}

static layerops_matrix slot_correct(const layerops_network *net, int64_t step) {
  layerops_matrix view = layerops_vector_i32(net->slots, 1);
  view.offset = 2 * step + 1;
  return view;
}

static layerops_status mse_loss(layerops_network *net, const lo_samples *batch, layerops_matrix y,
                                int64_t step, bool gradient) {
  if (lo_present(&batch->labels)) {
    layerops_cross_entropy_args answers = {
        .logits = y, .labels = batch->labels, .correct = slot_correct(net, step)};
    LO_TRY(layerops_cross_entropy(net->ctx, &answers));
  }
  if (!lo_present(&batch->targets)) return LAYEROPS_OK;
  layerops_mse_args args = {.y = y, .target = batch->targets, .loss = slot_loss(net, step)};
  if (gradient) args.dy = y;
  return layerops_mse(net->ctx, &args);
}

layerops_status lo_network_loss(layerops_network *net, const lo_samples *batch, layerops_matrix y,
                                int64_t step, bool gradient) {
  if (net->loss == LAYEROPS_LOSS_MSE) return mse_loss(net, batch, y, step, gradient);
  layerops_cross_entropy_args args = {.logits = y,
                                      .labels = batch->labels,
                                      .probabilities = batch->targets,
                                      .loss = slot_loss(net, step),
                                      .correct = slot_correct(net, step)};
  if (gradient) args.dlogits = y;
  return layerops_cross_entropy(net->ctx, &args);
}
