/* The forward pass and the loss of a batch. */
#include <config.h>

#include "network/network.h"

static layerops_status pack_layer(layerops_network *net, lo_layer *l) {
  layerops_weights_args args = {.w = l->w};
  return l->packed ? layerops_weights_update(net->ctx, l->packed, l->w)
                   : layerops_weights_pack(net->ctx, &args, &l->packed);
}

/* Where the device has no layout of its own, a copy would be of no use; where the user may change
 * weights between calls, packing for one batch costs what it saves. */
layerops_status lo_network_pack(layerops_network *net, int64_t batches) {
  net->packed = net->ctx->backend->weights && (batches > 1 || !net->shown);
  if (!net->packed || (net->fresh && !net->shown)) return LAYEROPS_OK;
  for (int64_t i = 0; i < net->layers; i++)
    if (!net->layer[i].sparse) LO_TRY(pack_layer(net, &net->layer[i]));
  net->fresh = true;
  return LAYEROPS_OK;
}

static layerops_status sparse_forward(layerops_network *net, const layerops_bsr *w,
                                      const layerops_linear_forward_args *a) {
  const layerops_bsr_linear_forward_args args = {.x = a->x,
                                                 .w = w,
                                                 .bias = a->bias,
                                                 .preact = a->preact,
                                                 .y = a->y,
                                                 .activation = a->activation,
                                                 .slope = a->slope};
  return layerops_bsr_linear_forward(net->ctx, &args);
}

layerops_status lo_network_forward(layerops_network *net, layerops_matrix x, layerops_matrix y,
                                   bool keep) {
  for (int64_t i = 0; i < net->layers; i++) {
    const lo_layer *l = &net->layer[i];
    bool last = i + 1 == net->layers;
    layerops_linear_forward_args args = {
        .x = x, .bias = l->bias, .y = last ? y : l->y, .slope = layerops_value(net->slope)};
    if (net->packed && !keep)
      args.packed = l->packed;
    else
      args.w = l->w;
    args.activation = last ? LAYEROPS_IDENTITY : net->activation;
    args.y.rows = x.rows;
    if (keep && lo_present(&l->preact)) {
      args.preact = l->preact;
      args.preact.rows = x.rows;
    }
    LO_TRY(l->sparse ? sparse_forward(net, l->sparse, &args)
                     : layerops_linear_forward(net->ctx, &args));
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
