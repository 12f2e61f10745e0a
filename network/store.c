/* Networks as .safetensors files. */
#include <config.h>

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "network/network.h"
#include "network/safetensors.h"

#define NAME_SIZE 64

static const char *const loss_names[] = {
    [LAYEROPS_LOSS_CROSS_ENTROPY] = "cross-entropy", [LAYEROPS_LOSS_MSE] = "mse"};

/* ---- Vectors: the parameters, and the optimizer's state in the same layout ---- */

typedef struct vectors {
  int count;
  layerops_buffer *buffer[1 + LO_STATE_VECTORS];
  const char *prefix[1 + LO_STATE_VECTORS]; /* NULL: none */
  float *host[1 + LO_STATE_VECTORS];
} vectors;

static void free_vectors(vectors *v) {
  for (int i = 0; i < v->count; i++) free(v->host[i]);
}

static layerops_status make_vectors(const char *function, const layerops_network *net, vectors *v) {
  const lo_state_kind *kind = &lo_state_kinds[net->state_kind];
  *v = (vectors){.count = 1 + kind->vectors, .buffer = {net->parameters}};
  for (int i = 0; i < kind->vectors; i++) {
    v->buffer[1 + i] = net->state[i];
    v->prefix[1 + i] = kind->vector[i];
  }
  for (int i = 0; i < v->count; i++) {
    v->host[i] = calloc((size_t)net->elements, sizeof(float));
    if (v->host[i]) continue;
    free_vectors(v);
    return lo_fail(LAYEROPS_ERROR_OUT_OF_MEMORY, "%s: no memory for %lld parameters", function,
                   (long long)net->elements);
  }
  return LAYEROPS_OK;
}

static void tensor_name(char name[NAME_SIZE], const char *prefix, int64_t layer, const char *what) {
  snprintf(name, NAME_SIZE, "%s%s%slayers.%lld.%s", prefix ? "optimizer." : "",
           prefix ? prefix : "", prefix ? "." : "", (long long)layer, what);
}

/* ---- Metadata: numbers as text, the same in every locale ---- */

enum {
  FORMAT,
  PRODUCER,
  ACTIVATION,
  LOSS,
  SLOPE,
  SEED,
  EPOCHS,
  STEPS,
  POSITION,
  SAMPLES,
  STATE,
  STATE_STEPS,
  KEYS
};
static const char *const keys[KEYS] = {
    [FORMAT] = "format",   [PRODUCER] = "producer", [ACTIVATION] = "activation",
    [LOSS] = "loss",       [SLOPE] = "slope",       [SEED] = "seed",
    [EPOCHS] = "epochs",   [STEPS] = "steps",       [POSITION] = "position",
    [SAMPLES] = "samples", [STATE] = "optimizer",   [STATE_STEPS] = "optimizer_steps",
};
#define TEXT_SIZE 48

static layerops_status real_to_text(char text[TEXT_SIZE], double value) {
  json_t *number = json_real(value);
  size_t n = number ? json_dumpb(number, text, TEXT_SIZE - 1, JSON_ENCODE_ANY) : 0;
  json_decref(number);
  if (!n || n >= TEXT_SIZE) return lo_fail(LAYEROPS_ERROR_OUT_OF_MEMORY, "network_save: no memory");
  text[n] = 0;
  return LAYEROPS_OK;
}

static layerops_status make_metadata(const layerops_network *net, char text[KEYS][TEXT_SIZE]) {
  snprintf(text[FORMAT], TEXT_SIZE, "pt"); /* weights lie as PyTorch has them */
  snprintf(text[PRODUCER], TEXT_SIZE, "layerops %s", LAYEROPS_VERSION);
  snprintf(text[ACTIVATION], TEXT_SIZE, "%s", layerops_activation_name(net->activation));
  snprintf(text[LOSS], TEXT_SIZE, "%s", loss_names[net->loss]);
  snprintf(text[SEED], TEXT_SIZE, "%" PRIu64, net->seed);
  snprintf(text[EPOCHS], TEXT_SIZE, "%" PRId64, net->epochs);
  snprintf(text[STEPS], TEXT_SIZE, "%" PRId64, net->steps);
  snprintf(text[POSITION], TEXT_SIZE, "%" PRId64, net->position);
  snprintf(text[SAMPLES], TEXT_SIZE, "%" PRId64, net->samples);
  snprintf(text[STATE], TEXT_SIZE, "%s", lo_state_kinds[net->state_kind].name);
  snprintf(text[STATE_STEPS], TEXT_SIZE, "%" PRId64, net->state_steps);
  return real_to_text(text[SLOPE], net->slope);
}

/* A missing entry is 0. */
static layerops_status get_number(const char *path, const lo_safetensors *file, int key,
                                  uint64_t limit, uint64_t *value) {
  const char *text = lo_safetensors_metadata(file, keys[key]);
  char *end;
  *value = 0;
  if (!text) return LAYEROPS_OK;
  errno = 0;
  unsigned long long number = strtoull(text, &end, 10);
  if (text[0] < '0' || text[0] > '9' || *end || errno || number > limit)
    return lo_fail(LAYEROPS_ERROR_FORMAT, "%s: metadata %s is \"%.40s\", but must be 0 to %" PRIu64,
                   path, keys[key], text, limit);
  *value = number;
  return LAYEROPS_OK;
}

static layerops_status get_count(const char *path, const lo_safetensors *file, int key,
                                 int64_t *value) {
  uint64_t number;
  LO_TRY(get_number(path, file, key, INT64_MAX, &number));
  *value = (int64_t)number;
  return LAYEROPS_OK;
}

static layerops_status get_slope(const char *path, const lo_safetensors *file,
                                 layerops_scalar *slope) {
  const char *text = lo_safetensors_metadata(file, keys[SLOPE]);
  if (!text) return LAYEROPS_OK;
  json_t *number = json_loads(text, JSON_DECODE_ANY, NULL);
  bool good = json_is_number(number);
  *slope = layerops_value(json_number_value(number));
  json_decref(number);
  if (!good || slope->value < 0 || slope->value > 1e30)
    return lo_fail(LAYEROPS_ERROR_FORMAT,
                   "%s: metadata slope is \"%.40s\", but must be a number from "
                   "0 to 1e30",
                   path, text);
  return LAYEROPS_OK;
}

static layerops_status get_name(const char *path, const lo_safetensors *file, int key,
                                const char **name) {
  *name = lo_safetensors_metadata(file, keys[key]);
  if (*name) return LAYEROPS_OK;
  return lo_fail(LAYEROPS_ERROR_FORMAT, "%s: metadata %s is missing: not a network of layerops",
                 path, keys[key]);
}

static layerops_status unknown_name(const char *path, int key, const char *name) {
  return lo_fail(LAYEROPS_ERROR_FORMAT, "%s: metadata %s is \"%.40s\", which is unknown", path,
                 keys[key], name);
}

static layerops_status get_description(const char *path, const lo_safetensors *file,
                                       layerops_network_args *args, int *state_kind) {
  const char *name;
  LO_TRY(get_name(path, file, ACTIVATION, &name));
  args->activation = layerops_activation_from_name(name);
  if (args->activation < 0) return unknown_name(path, ACTIVATION, name);
  LO_TRY(get_name(path, file, LOSS, &name));
  for (args->loss = 0; strcmp(name, loss_names[args->loss]);)
    if (++args->loss > LAYEROPS_LOSS_MSE) return unknown_name(path, LOSS, name);
  name = lo_safetensors_metadata(file, keys[STATE]);
  for (*state_kind = 0; name && strcmp(name, lo_state_kinds[*state_kind].name);)
    if (++*state_kind == LO_STATE_KINDS) return unknown_name(path, STATE, name);
  LO_TRY(get_slope(path, file, &args->slope));
  return get_number(path, file, SEED, UINT64_MAX, &args->seed);
}

static layerops_status get_progress(const char *path, const lo_safetensors *file,
                                    layerops_network *net) {
  LO_TRY(get_count(path, file, EPOCHS, &net->epochs));
  LO_TRY(get_count(path, file, STEPS, &net->steps));
  LO_TRY(get_count(path, file, POSITION, &net->position));
  LO_TRY(get_count(path, file, SAMPLES, &net->samples));
  LO_TRY(get_count(path, file, STATE_STEPS, &net->state_steps));
  if (net->position > net->samples)
    return lo_fail(LAYEROPS_ERROR_FORMAT, "%s: metadata position is %lld, but samples is %lld",
                   path, (long long)net->position, (long long)net->samples);
  return LAYEROPS_OK;
}

/* ---- Saving ---- */

static void describe_tensor(lo_tensor *t, const char *name, const layerops_matrix *view, int rank,
                            const float *host) {
  *t = (lo_tensor){.name = name, .dtype = "F32", .rank = rank, .data = host + view->offset};
  if (rank == 2) t->shape[0] = view->rows;
  t->shape[rank - 1] = view->cols;
}

static layerops_status write_file(const layerops_network *net, const vectors *v, const char *path,
                                  lo_tensor *tensors, char (*names)[NAME_SIZE]) {
  char text[KEYS][TEXT_SIZE];
  lo_metadata metadata[KEYS];
  lo_safetensors file = {.tensors = tensors, .metadata = metadata, .metadata_count = KEYS};
  LO_TRY(make_metadata(net, text));
  for (int i = 0; i < KEYS; i++) metadata[i] = (lo_metadata){keys[i], text[i]};
  for (int i = 0; i < v->count; i++)
    for (int64_t l = 0; l < net->layers; l++) {
      int64_t at = file.count;
      tensor_name(names[at], v->prefix[i], l, "weight");
      tensor_name(names[at + 1], v->prefix[i], l, "bias");
      describe_tensor(&tensors[at], names[at], &net->layer[l].w, 2, v->host[i]);
      describe_tensor(&tensors[at + 1], names[at + 1], &net->layer[l].bias, 1, v->host[i]);
      file.count += 2;
    }
  return lo_safetensors_write(path, &file);
}

static layerops_status save(layerops_network *net, const vectors *v, const char *path) {
  LO_TRY(layerops_sync(net->ctx));
  for (int i = 0; i < v->count; i++)
    LO_TRY(layerops_buffer_read(net->ctx, v->buffer[i], v->host[i], net->elements * 4));
  size_t count = 2 * (size_t)net->layers * (size_t)v->count;
  lo_tensor *tensors = malloc(count * sizeof *tensors);
  char(*names)[NAME_SIZE] = malloc(count * sizeof *names);
  layerops_status status = tensors && names
                               ? write_file(net, v, path, tensors, names)
                               : lo_fail(LAYEROPS_ERROR_OUT_OF_MEMORY, "network_save: no memory");
  free(tensors);
  free(names);
  return status;
}

layerops_status layerops_network_save(layerops_network *net, const char *path) {
  if (!net) return lo_fail(LAYEROPS_ERROR_INVALID, "network_save: network is NULL");
  LO_TRY(lo_enter(net->ctx, "network_save"));
  LO_TRY(lo_not_recording(net->ctx, "network_save"));
  if (!path) return lo_fail(LAYEROPS_ERROR_INVALID, "network_save: path is NULL");
  vectors v;
  LO_TRY(make_vectors("network_save", net, &v));
  layerops_status status = save(net, &v, path);
  free_vectors(&v);
  return status;
}

/* ---- Loading ---- */

/* The widths from the shapes of the weights, as far as they go. */
static layerops_status get_widths(const char *path, const lo_safetensors *file, int64_t *widths,
                                  int64_t *count) {
  char name[NAME_SIZE];
  const lo_tensor *t;
  *count = 0;
  for (int64_t i = 0;; i++) {
    tensor_name(name, NULL, i, "weight");
    if (!(t = lo_safetensors_find(file, name))) break;
    if (i == LO_NETWORK_LAYERS)
      return lo_fail(LAYEROPS_ERROR_FORMAT, "%s: more than %d layers", path, LO_NETWORK_LAYERS);
    if (t->rank != 2)
      return lo_fail(LAYEROPS_ERROR_FORMAT, "%s: %s has %d dimensions, but must have 2", path, name,
                     (int)t->rank);
    for (int j = 0; j < 2; j++)
      if (t->shape[j] < 1) return lo_fail(LAYEROPS_ERROR_FORMAT, "%s: %s is empty", path, name);
    if (i > 0 && t->shape[1] != widths[i])
      return lo_fail(LAYEROPS_ERROR_FORMAT,
                     "%s: %s takes %lld inputs, but the layer before has %lld "
                     "outputs",
                     path, name, (long long)t->shape[1], (long long)widths[i]);
    widths[i] = t->shape[1];
    widths[i + 1] = t->shape[0];
    *count = i + 2;
  }
  if (*count) return LAYEROPS_OK;
  return lo_fail(LAYEROPS_ERROR_FORMAT, "%s: layers.0.weight is missing: not a network of layerops",
                 path);
}

static layerops_status get_tensor(const char *path, const lo_safetensors *file, const char *name,
                                  const layerops_matrix *view, int rank, float *host) {
  const lo_tensor *t = lo_safetensors_find(file, name);
  if (!t) return lo_fail(LAYEROPS_ERROR_FORMAT, "%s: %s is missing", path, name);
  if (strcmp(t->dtype, "F32"))
    return lo_fail(LAYEROPS_ERROR_FORMAT, "%s: %s is %.20s, but must be F32", path, name, t->dtype);
  bool fits = t->rank == rank && t->shape[rank - 1] == view->cols &&
              (rank == 1 || t->shape[0] == view->rows);
  if (!fits)
    return lo_fail(LAYEROPS_ERROR_FORMAT,
                   "%s: %s does not have the shape of its layer, %lld x %lld", path, name,
                   (long long)view->rows, (long long)view->cols);
  memcpy(host + view->offset, t->data, (size_t)t->bytes);
  return LAYEROPS_OK;
}

static layerops_status get_vectors(const char *path, const lo_safetensors *file,
                                   layerops_network *net, vectors *v) {
  char name[NAME_SIZE];
  int64_t expected = 2 * net->layers * v->count;
  if (file->count != expected)
    return lo_fail(LAYEROPS_ERROR_FORMAT,
                   "%s: %lld tensors, but a network of %lld layers with "
                   "optimizer state \"%s\" has %lld",
                   path, (long long)file->count, (long long)net->layers,
                   lo_state_kinds[net->state_kind].name, (long long)expected);
  for (int i = 0; i < v->count; i++) {
    for (int64_t l = 0; l < net->layers; l++) {
      tensor_name(name, v->prefix[i], l, "weight");
      LO_TRY(get_tensor(path, file, name, &net->layer[l].w, 2, v->host[i]));
      tensor_name(name, v->prefix[i], l, "bias");
      LO_TRY(get_tensor(path, file, name, &net->layer[l].bias, 1, v->host[i]));
    }
    LO_TRY(layerops_buffer_write(net->ctx, v->buffer[i], v->host[i], net->elements * 4));
  }
  return LAYEROPS_OK;
}

static layerops_status fill(const char *path, const lo_safetensors *file, int state_kind,
                            layerops_network *net) {
  vectors v;
  LO_TRY(lo_network_state(net, state_kind));
  LO_TRY(get_progress(path, file, net));
  LO_TRY(make_vectors("network_load", net, &v));
  layerops_status status = get_vectors(path, file, net, &v);
  free_vectors(&v);
  return status;
}

static layerops_status load(lo_door *door, const char *path, const lo_safetensors *file,
                            layerops_network **network) {
  int64_t widths[LO_NETWORK_LAYERS + 1];
  layerops_network_args args = {.widths = widths};
  int state_kind = LO_STATE_NONE;
  LO_TRY(get_widths(path, file, widths, &args.count));
  LO_TRY(get_description(path, file, &args, &state_kind));
  LO_TRY(lo_network_new(door, &args, network));
  layerops_status status = fill(path, file, state_kind, *network);
  if (status == LAYEROPS_OK) return status;
  layerops_network_destroy(*network);
  *network = NULL;
  return status;
}

layerops_status layerops_network_load(layerops_context *ctx, const char *path,
                                      layerops_network **network) {
  if (!network) return lo_fail(LAYEROPS_ERROR_INVALID, "network_load: network is NULL");
  *network = NULL;
  lo_door door;
  lo_safetensors file;
  LO_TRY(lo_door_enter(&door, ctx, "network_load"));
  LO_TRY(lo_not_recording(ctx, door.function));
  if (!path) return lo_fail(LAYEROPS_ERROR_INVALID, "network_load: path is NULL");
  LO_TRY(lo_safetensors_read(path, &file));
  layerops_status status = load(&door, path, &file, network);
  lo_safetensors_free(&file);
  return status;
}
