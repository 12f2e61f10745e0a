/* Layers of a network made block-sparse: what is of least magnitude is left out. */
#include <config.h>

#include <stdlib.h>
#include <string.h>

#include "common/bsr.h"
#include "network/network.h"

/* ---- One layer ---- */

static layerops_status prune_dense(layerops_network *net, layerops_matrix w,
                                   const layerops_network_prune_args *a, layerops_bsr **sparse) {
  lo_bsr_shape shape;
  LO_TRY(lo_bsr_check_shape("network_prune", w.rows, w.cols, a->block, a->width, &shape));
  uint8_t *mask = lo_bsr_memory(shape.block_rows * shape.block_cols, sizeof *mask);
  if (!mask) return lo_bsr_no_memory("network_prune");
  const layerops_bsr_prune_args prune = {.w = w,
                                         .block = a->block,
                                         .width = a->width,
                                         .score = a->score,
                                         .rule = a->rule,
                                         .density = a->density,
                                         .threshold = a->threshold,
                                         .n = a->n,
                                         .m = a->m,
                                         .mask = mask};
  const layerops_bsr_dense_args keep = {
      .w = w, .block = a->block, .width = a->width, .mask = mask, .type = LAYEROPS_F32};
  layerops_status status = layerops_bsr_prune(net->ctx, &prune);
  if (status == LAYEROPS_OK) status = layerops_bsr_from_dense(net->ctx, &keep, sparse);
  free(mask);
  return status;
}

/* As the dense matrix that it stands for. */
static layerops_status prune_sparse(layerops_network *net, const layerops_bsr *w,
                                    const layerops_network_prune_args *a, layerops_bsr **sparse) {
  int64_t elements;
  if (__builtin_mul_overflow(w->rows, w->cols, &elements) ||
      elements > INT64_MAX / (int64_t)sizeof(float))
    return lo_fail(LAYEROPS_ERROR_OVERFLOW, "network_prune: %lld x %lld elements are too many",
                   (long long)w->rows, (long long)w->cols);
  float *dense = lo_bsr_memory(elements, sizeof *dense);
  if (!dense) return lo_bsr_no_memory("network_prune");
  const layerops_matrix view = layerops_host_matrix(dense, LAYEROPS_F32, w->rows, w->cols);
  layerops_status status = layerops_bsr_to_dense(net->ctx, w, view);
  if (status == LAYEROPS_OK) status = prune_dense(net, view, a, sparse);
  free(dense);
  return status;
}

static layerops_status copy_sparse(layerops_network *net, const layerops_bsr *w,
                                   layerops_bsr **copy) {
  const layerops_bsr_args args = {.rows = w->rows,
                                  .cols = w->cols,
                                  .block = w->height,
                                  .width = w->width,
                                  .count = w->count,
                                  .row_start = w->host.row_start,
                                  .column = w->host.column,
                                  .type = w->type,
                                  .device_values = layerops_bsr_values(w)};
  return layerops_bsr_create(net->ctx, &args, copy);
}

static layerops_status make_sparse(layerops_network *net, const layerops_network_prune_args *a,
                                   int64_t i, layerops_bsr **sparse) {
  const lo_layer *l = &net->layer[i];
  const bool pruned = i >= a->first && i - a->first < a->count;
  if (pruned)
    return l->sparse ? prune_sparse(net, l->sparse, a, sparse) : prune_dense(net, l->w, a, sparse);
  return l->sparse ? copy_sparse(net, l->sparse, sparse) : LAYEROPS_OK;
}

/* ---- The network around them ---- */

static layerops_status copy(layerops_network *net, layerops_matrix x, layerops_matrix y) {
  const layerops_copy_args args = {.x = x, .y = y};
  return layerops_copy(net->ctx, &args);
}

static layerops_status copy_dense(const layerops_network *from, layerops_network *to) {
  for (int64_t i = 0; i < to->layers; i++) {
    LO_TRY(copy(to, from->layer[i].bias, to->layer[i].bias));
    if (!to->layer[i].sparse) LO_TRY(copy(to, from->layer[i].w, to->layer[i].w));
  }
  return layerops_sync(to->ctx);
}

/* What does not depend on the layers' form; the user has seen the address of the widths. */
static void keep_progress(layerops_network *net, layerops_network *pruned) {
  int64_t *widths = pruned->widths;
  pruned->widths = net->widths;
  net->widths = widths;
  pruned->epochs = net->epochs;
  pruned->steps = net->steps;
  pruned->position = net->position;
  pruned->samples = net->samples;
}

/* The new network takes the place of the old one once it is whole. */
static layerops_status replace(lo_door *door, layerops_network *net, layerops_bsr *const *sparse) {
  const layerops_network_args args = {.widths = net->widths,
                                      .count = net->count,
                                      .activation = net->activation,
                                      .loss = net->loss,
                                      .slope = layerops_value(net->slope),
                                      .seed = net->seed};
  layerops_network *pruned;
  LO_TRY(lo_network_new(door, &args, sparse, &pruned));
  layerops_status status = copy_dense(net, pruned);
  if (status == LAYEROPS_OK) {
    keep_progress(net, pruned);
    const layerops_network old = *net;
    *net = *pruned;
    *pruned = old;
  } else {
    for (int64_t i = 0; i < net->layers; i++) pruned->layer[i].sparse = NULL;
  }
  layerops_network_destroy(pruned);
  return status;
}

static layerops_status prune(lo_door *door, layerops_network *net,
                             const layerops_network_prune_args *a) {
  layerops_bsr **sparse = calloc((size_t)net->layers, sizeof(layerops_bsr *));
  if (!sparse) return lo_bsr_no_memory(door->function);
  layerops_status status = LAYEROPS_OK;
  for (int64_t i = 0; i < net->layers && status == LAYEROPS_OK; i++)
    status = make_sparse(net, a, i, &sparse[i]);
  if (status == LAYEROPS_OK) status = replace(door, net, sparse);
  for (int64_t i = 0; i < net->layers && status != LAYEROPS_OK; i++)
    layerops_bsr_destroy(sparse[i]);
  free(sparse);
  return status;
}

/* ---- The public function ---- */

static layerops_status check_layers(lo_door *door, const layerops_network *net,
                                    layerops_network_prune_args *a) {
  if (a->first < 0 || a->first >= net->layers)
    return lo_door_refuse(door, LAYEROPS_ERROR_INVALID, "first is %lld, but must lie in [0, %lld)",
                          (long long)a->first, (long long)net->layers);
  if (a->count < 0 || a->count > net->layers - a->first)
    return lo_door_refuse(
        door, LAYEROPS_ERROR_INVALID, "count is %lld, but there are %lld layers from %lld on",
        (long long)a->count, (long long)(net->layers - a->first), (long long)a->first);
  if (!a->count) a->count = net->layers - 1 - a->first;
  if (a->count) return LAYEROPS_OK;
  return lo_door_refuse(door, LAYEROPS_ERROR_INVALID,
                        "layer %lld is the last, which stays dense where count is 0",
                        (long long)a->first);
}

layerops_status layerops_network_prune_(layerops_network *net,
                                        const layerops_network_prune_args *user, size_t size) {
  if (!net) return lo_fail(LAYEROPS_ERROR_INVALID, "network_prune: network is NULL");
  lo_door door;
  layerops_network_prune_args args;
  LO_TRY(lo_door_enter(&door, net->ctx, "network_prune"));
  LO_TRY(lo_not_recording(net->ctx, door.function));
  LO_TRY(lo_copy_args(door.function, &args, sizeof args, user, size));
  LO_TRY(check_layers(&door, net, &args));
  return prune(&door, net, &args);
}
