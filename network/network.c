/* Making a network, its memory, and what it tells of itself. */
#include <config.h>

#include <stdlib.h>
#include <string.h>

#include "network/initialise.h"
#include "network/network.h"

#define ALIGN 16 /* elements: 64 bytes */

const lo_state_kind lo_state_kinds[LO_STATE_KINDS] = {
    [LO_STATE_NONE] = {"none", 0, {NULL}},
    [LO_STATE_VELOCITY] = {"velocity", 1, {"velocity"}},
    [LO_STATE_MOMENTS] = {"moments", 2, {"m", "v"}},
};

/* Places a tight matrix behind *end, which counts elements of 4 bytes. */
static layerops_status place(lo_door *door, layerops_matrix *view, layerops_type type, int64_t rows,
                             int64_t cols, int64_t *end) {
  int64_t size, next;
  if (__builtin_mul_overflow(rows, cols, &size) || __builtin_add_overflow(*end, size, &next) ||
      next > INT64_MAX / 16)
    return lo_door_refuse(door, LAYEROPS_ERROR_OVERFLOW, "%lld x %lld elements are too many",
                          (long long)rows, (long long)cols);
  *view = layerops_matrix_of(NULL, type, rows, cols);
  view->offset = *end;
  *end = (next + ALIGN - 1) / ALIGN * ALIGN;
  return LAYEROPS_OK;
}

static layerops_status check_args(lo_door *door, layerops_network_args *args) {
  if (!args->widths) return lo_door_refuse(door, LAYEROPS_ERROR_INVALID, "widths is NULL");
  if (args->count < 2 || args->count > LO_NETWORK_LAYERS + 1)
    return lo_door_refuse(door, LAYEROPS_ERROR_INVALID, "count is %lld, but must lie in [2, %d]",
                          (long long)args->count, LO_NETWORK_LAYERS + 1);
  for (int64_t i = 0; i < args->count; i++)
    if (args->widths[i] < 1)
      return lo_door_refuse(door, LAYEROPS_ERROR_INVALID,
                            "widths[%lld] is %lld, but must be positive", (long long)i,
                            (long long)args->widths[i]);
  LO_TRY(lo_door_activation(door, "activation", args->activation));
  LO_TRY(lo_door_one_of(door, "loss", args->loss, 2));
  /* Below 0 the derivative of leaky ReLU could not be told from its output. */
  return lo_door_value(door, "slope", &args->slope, 0.01, 0, 1e30);
}

static layerops_status place_dense(lo_door *door, layerops_network *net) {
  for (int64_t i = 0; i < net->layers; i++) {
    lo_layer *l = &net->layer[i];
    int64_t in = net->widths[i], out = net->widths[i + 1];
    if (!l->sparse) LO_TRY(place(door, &l->w, LAYEROPS_F32, out, in, &net->dense));
    LO_TRY(place(door, &l->bias, LAYEROPS_F32, 1, out, &net->dense));
    l->dw = l->w;
    l->dbias = l->bias;
  }
  return LAYEROPS_OK;
}

static layerops_status place_sparse(lo_door *door, layerops_network *net) {
  net->elements = net->dense;
  for (int64_t i = 0; i < net->layers; i++) {
    lo_layer *l = &net->layer[i];
    if (!l->sparse) continue;
    l->w = layerops_bsr_values(l->sparse);
    LO_TRY(place(door, &l->dw, LAYEROPS_F32, l->w.rows, l->w.cols, &net->elements));
    net->sparse_layers++;
  }
  return LAYEROPS_OK;
}

static layerops_status zeros(layerops_network *net, int64_t elements, layerops_buffer **buffer) {
  if (!*buffer) LO_TRY(layerops_buffer_create(net->ctx, elements * 4, buffer));
  layerops_fill_args fill = {.y = layerops_vector_f32(*buffer, elements)};
  return layerops_fill(net->ctx, &fill);
}

static layerops_status make_parameters(lo_door *door, layerops_network *net) {
  LO_TRY(place_dense(door, net));
  LO_TRY(place_sparse(door, net));
  LO_TRY(zeros(net, net->dense, &net->parameters));
  LO_TRY(zeros(net, net->elements, &net->gradients));
  for (int64_t i = 0; i < net->layers; i++) {
    lo_layer *l = &net->layer[i];
    if (!l->sparse) l->w.buffer = net->parameters;
    l->bias.buffer = net->parameters;
    l->dw.buffer = l->dbias.buffer = net->gradients;
  }
  return LAYEROPS_OK;
}

/* The weights become the network's, or are the caller's again. */
static layerops_status take_sparse(lo_door *door, layerops_network *net,
                                   layerops_bsr *const *sparse) {
  for (int64_t i = 0; sparse && i < net->layers; i++) net->layer[i].sparse = sparse[i];
  const layerops_status status = make_parameters(door, net);
  for (int64_t i = 0; status != LAYEROPS_OK && i < net->layers; i++) net->layer[i].sparse = NULL;
  return status;
}

layerops_status lo_network_new(lo_door *door, const layerops_network_args *user,
                               layerops_bsr *const *sparse, layerops_network **network) {
  layerops_network_args args = *user;
  LO_TRY(check_args(door, &args));
  layerops_network *net = calloc(1, sizeof *net);
  if (net) {
    net->widths = malloc((size_t)args.count * sizeof *net->widths);
    net->layer = calloc((size_t)args.count - 1, sizeof *net->layer);
  }
  if (!net || !net->widths || !net->layer) {
    layerops_network_destroy(net);
    return lo_door_refuse(door, LAYEROPS_ERROR_OUT_OF_MEMORY, "no memory");
  }
  memcpy(net->widths, args.widths, (size_t)args.count * sizeof *net->widths);
  net->ctx = door->ctx;
  net->count = args.count;
  net->layers = args.count - 1;
  net->activation = args.activation;
  net->loss = args.loss;
  net->slope = args.slope.value;
  net->seed = args.seed;
  layerops_status status = take_sparse(door, net, sparse);
  if (status != LAYEROPS_OK) {
    layerops_network_destroy(net);
    return status;
  }
  *network = net;
  return LAYEROPS_OK;
}

/* In pieces, so that a large layer does not need its size once more. */
static layerops_status initialise(layerops_network *net, const layerops_matrix *view,
                                  uint32_t tensor, float bound, float *piece, int64_t length) {
  int64_t total = view->rows * view->cols;
  for (int64_t first = 0; first < total; first += length) {
    int64_t n = total - first < length ? total - first : length;
    lo_initialise_uniform(piece, first, n, net->seed, tensor, bound);
    LO_TRY(layerops_buffer_write_at(net->ctx, net->parameters, (view->offset + first) * 4, piece,
                                    n * 4));
  }
  return LAYEROPS_OK;
}

/* Tensor 2 i is layer i's weight, tensor 2 i + 1 its bias. */
static layerops_status initialise_all(layerops_network *net) {
  enum { LENGTH = 1 << 16 };
  float *piece = malloc(LENGTH * sizeof *piece);
  if (!piece) return lo_fail(LAYEROPS_ERROR_OUT_OF_MEMORY, "network_create: no memory");
  layerops_status status = LAYEROPS_OK;
  for (int64_t i = 0; i < net->layers && status == LAYEROPS_OK; i++) {
    float bound = lo_linear_bound(net->widths[i]);
    uint32_t tensor = (uint32_t)(2 * i);
    status = initialise(net, &net->layer[i].w, tensor, bound, piece, LENGTH);
    if (status == LAYEROPS_OK)
      status = initialise(net, &net->layer[i].bias, tensor + 1, bound, piece, LENGTH);
  }
  free(piece);
  return status;
}

layerops_status layerops_network_create_(layerops_context *ctx, const layerops_network_args *user,
                                         size_t size, layerops_network **network) {
  if (!network) return lo_fail(LAYEROPS_ERROR_INVALID, "network_create: network is NULL");
  *network = NULL;
  lo_door door;
  layerops_network_args args;
  layerops_network *net;
  LO_TRY(lo_door_enter(&door, ctx, "network_create"));
  LO_TRY(lo_not_recording(ctx, door.function));
  LO_TRY(lo_copy_args(door.function, &args, sizeof args, user, size));
  LO_TRY(lo_network_new(&door, &args, NULL, &net));
  layerops_status status = initialise_all(net);
  if (status != LAYEROPS_OK) {
    layerops_network_destroy(net);
    return status;
  }
  *network = net;
  return LAYEROPS_OK;
}

void layerops_network_destroy(layerops_network *net) {
  if (!net) return;
  for (int64_t i = 0; net->layer && i < net->layers; i++) {
    layerops_weights_destroy(net->layer[i].packed);
    layerops_bsr_destroy(net->layer[i].sparse);
  }
  layerops_buffer_destroy(net->parameters);
  layerops_buffer_destroy(net->gradients);
  for (int i = 0; i < LO_STATE_VECTORS; i++) layerops_buffer_destroy(net->state[i]);
  layerops_buffer_destroy(net->scratch);
  layerops_buffer_destroy(net->slots);
  layerops_buffer_destroy(net->order);
  free(net->slots_host);
  free(net->order_host);
  free(net->widths);
  free(net->layer);
  free(net);
}

layerops_status lo_network_state(layerops_network *net, int kind) {
  if (kind == net->state_kind) return LAYEROPS_OK;
  net->state_kind = LO_STATE_NONE; /* until all vectors are zero */
  net->state_steps = 0;
  for (int i = 0; i < lo_state_kinds[kind].vectors; i++)
    LO_TRY(zeros(net, net->elements, &net->state[i]));
  net->state_kind = kind;
  return LAYEROPS_OK;
}

static layerops_status place_batch(lo_door *door, layerops_network *net, int64_t rows,
                                   int64_t *end) {
  int64_t widest = 1;
  LO_TRY(place(door, &net->x, LAYEROPS_F32, rows, net->widths[0], end));
  LO_TRY(place(door, &net->labels, LAYEROPS_I32, 1, rows, end));
  LO_TRY(place(door, &net->targets, LAYEROPS_F32, rows, net->widths[net->layers], end));
  for (int64_t i = 0; i < net->layers; i++) {
    lo_layer *l = &net->layer[i];
    int64_t width = net->widths[i + 1];
    bool hidden = i + 1 < net->layers;
    LO_TRY(place(door, &l->y, LAYEROPS_F32, rows, width, end));
    l->preact = (layerops_matrix){0};
    if (hidden && layerops_activation_saves_input(net->activation))
      LO_TRY(place(door, &l->preact, LAYEROPS_F32, rows, width, end));
    if (hidden && width > widest) widest = width;
  }
  for (int i = 0; i < 2; i++)
    LO_TRY(place(door, &net->gradient[i], LAYEROPS_F32, rows, widest, end));
  return LAYEROPS_OK;
}

static void set_scratch(layerops_network *net, layerops_buffer *scratch) {
  net->scratch = net->x.buffer = net->labels.buffer = net->targets.buffer = scratch;
  net->gradient[0].buffer = net->gradient[1].buffer = scratch;
  for (int64_t i = 0; i < net->layers; i++) {
    net->layer[i].y.buffer = scratch;
    if (lo_present(&net->layer[i].preact)) net->layer[i].preact.buffer = scratch;
  }
}

static layerops_status reserve_rows(lo_door *door, layerops_network *net, int64_t rows) {
  int64_t end = 0;
  layerops_buffer *scratch;
  layerops_buffer_destroy(net->scratch);
  net->scratch = NULL;
  net->reserved = 0;
  LO_TRY(place_batch(door, net, rows, &end));
  LO_TRY(layerops_buffer_create(net->ctx, end * 4, &scratch));
  set_scratch(net, scratch);
  net->reserved = rows;
  return LAYEROPS_OK;
}

static layerops_status reserve_slots(lo_door *door, layerops_network *net, int64_t steps) {
  layerops_buffer_destroy(net->slots);
  free(net->slots_host);
  net->slots = NULL;
  net->slots_host = NULL;
  net->slot_capacity = 0;
  if (steps > INT64_MAX / 16 || !(net->slots_host = malloc((size_t)steps * sizeof(lo_slot))))
    return lo_door_refuse(door, LAYEROPS_ERROR_OUT_OF_MEMORY, "no memory for %lld steps",
                          (long long)steps);
  LO_TRY(layerops_buffer_create(net->ctx, steps * (int64_t)sizeof(lo_slot), &net->slots));
  net->slot_capacity = steps;
  return LAYEROPS_OK;
}

layerops_status lo_network_reserve(lo_door *door, layerops_network *net, int64_t rows,
                                   int64_t steps) {
  if (rows > net->reserved) LO_TRY(reserve_rows(door, net, rows));
  return steps > net->slot_capacity ? reserve_slots(door, net, steps) : LAYEROPS_OK;
}

layerops_status layerops_network_get_info_(const layerops_network *net, layerops_network_info *info,
                                           size_t size) {
  if (!net) return lo_fail(LAYEROPS_ERROR_INVALID, "network_get_info: network is NULL");
  if (!info) return lo_fail(LAYEROPS_ERROR_INVALID, "network_get_info: info is NULL");
  layerops_network_info full = {.count = net->count,
                                .widths = net->widths,
                                .activation = net->activation,
                                .loss = net->loss,
                                .seed = net->seed,
                                .epochs = net->epochs,
                                .steps = net->steps,
                                .position = net->position,
                                .slope = net->slope};
  memset(info, 0, size);
  memcpy(info, &full, size < sizeof full ? size : sizeof full);
  return LAYEROPS_OK;
}

lo_layer *lo_network_at(const char *function, layerops_network *net, int64_t i) {
  if (net && i >= 0 && i < net->layers) return &net->layer[i];
  if (!net)
    lo_fail(LAYEROPS_ERROR_INVALID, "%s: network is NULL", function);
  else
    lo_fail(LAYEROPS_ERROR_INVALID, "%s: i is %lld, but must lie in [0, %lld)", function,
            (long long)i, (long long)net->layers);
  return NULL;
}

layerops_status layerops_network_layer(layerops_network *net, int64_t i, layerops_matrix *w,
                                       layerops_matrix *bias) {
  const lo_layer *l = lo_network_at("network_layer", net, i);
  if (!l) return LAYEROPS_ERROR_INVALID;
  net->shown = true;
  if (w) *w = l->w;
  if (bias) *bias = l->bias;
  return LAYEROPS_OK;
}

layerops_status layerops_network_sparse(layerops_network *net, int64_t i,
                                        const layerops_bsr **sparse) {
  if (!sparse) return lo_fail(LAYEROPS_ERROR_INVALID, "network_sparse: sparse is NULL");
  const lo_layer *l = lo_network_at("network_sparse", net, i);
  *sparse = l ? l->sparse : NULL;
  return l ? LAYEROPS_OK : LAYEROPS_ERROR_INVALID;
}
