/* Networks as .safetensors files. */
#include <config.h>

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "network/store.h"

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

lo_store_name lo_store_name_of(const char *state, int64_t layer, const char *what) {
  lo_store_name name;
  snprintf(name.text, sizeof name.text, "%s%s%slayers.%lld.%s", state ? "optimizer." : "",
           state ? state : "", state ? "." : "", (long long)layer, what);
  return name;
}

/* The tensors that a layer has in each vector. */
enum { WEIGHT, BIAS, LAYER_TENSORS };

/* Their name, and shape; where it begins in the vector. */
static int64_t describe(const layerops_network *net, int64_t layer, int which, const char *prefix,
                        lo_store_name *name, lo_tensor *t) {
  const lo_layer *l = &net->layer[layer];
  const layerops_bsr *w = which == WEIGHT ? l->sparse : NULL;
  *name = lo_store_name_of(prefix, layer,
                           w                 ? "weight.values"
                           : which == WEIGHT ? "weight"
                                             : "bias");
  *t = (lo_tensor){.name = name->text, .dtype = "F32", .rank = 1, .shape = {l->bias.cols}};
  if (which == BIAS) return l->dbias.offset;
  t->rank = w ? 3 : 2;
  if (w)
    memcpy(t->shape, (int64_t[]){w->count, w->height, w->width}, 3 * sizeof *t->shape);
  else
    memcpy(t->shape, (int64_t[]){l->w.rows, l->w.cols}, 2 * sizeof *t->shape);
  return l->dw.offset;
}

/* A vector between the device and its copy: the parameters are in several buffers. */
typedef layerops_status (*transfer)(layerops_context *ctx, layerops_buffer *buffer, float *host,
                                    int64_t bytes);

static layerops_status from_device(layerops_context *ctx, layerops_buffer *buffer, float *host,
                                   int64_t bytes) {
  return layerops_buffer_read(ctx, buffer, host, bytes);
}

static layerops_status to_device(layerops_context *ctx, layerops_buffer *buffer, float *host,
                                 int64_t bytes) {
  return layerops_buffer_write(ctx, buffer, host, bytes);
}

static layerops_status move_vectors(layerops_network *net, vectors *v, transfer move) {
  for (int i = 1; i < v->count; i++)
    LO_TRY(move(net->ctx, v->buffer[i], v->host[i], net->elements * 4));
  for (int64_t i = 0; i < net->layers; i++) {
    const lo_layer *l = &net->layer[i];
    if (l->sparse)
      LO_TRY(move(net->ctx, l->w.buffer, v->host[0] + l->dw.offset, l->w.rows * l->w.cols * 4));
  }
  return move(net->ctx, v->buffer[0], v->host[0], net->dense * 4);
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

/* How many tensors the file of a network has. */
static int64_t tensor_count(const layerops_network *net, const vectors *v) {
  return LAYER_TENSORS * net->layers * v->count + LO_STORE_ARRAYS * net->sparse_layers;
}

/* What tensors point to. */
typedef struct tensor_memory {
  lo_tensor *tensors;
  lo_store_name *names;
  int64_t (*sizes)[2]; /* of block-sparse layers */
} tensor_memory;

static layerops_status write_file(const layerops_network *net, const vectors *v, const char *path,
                                  const tensor_memory *m) {
  char text[KEYS][TEXT_SIZE];
  lo_metadata metadata[KEYS];
  lo_safetensors file = {.tensors = m->tensors, .metadata = metadata, .metadata_count = KEYS};
  LO_TRY(make_metadata(net, text));
  for (int i = 0; i < KEYS; i++) metadata[i] = (lo_metadata){keys[i], text[i]};
  for (int i = 0; i < v->count; i++)
    for (int64_t l = 0; l < net->layers; l++)
      for (int which = 0; which < LAYER_TENSORS; which++) {
        lo_tensor *t = &m->tensors[file.count];
        t->data = v->host[i] + describe(net, l, which, v->prefix[i], &m->names[file.count++], t);
      }
  for (int64_t l = 0; l < net->layers; l++) {
    const layerops_bsr *w = net->layer[l].sparse;
    if (!w) continue;
    lo_store_sparse_arrays(w, l, m->sizes[l], &m->names[file.count], &m->tensors[file.count]);
    file.count += LO_STORE_ARRAYS;
  }
  return lo_safetensors_write(path, &file);
}

static layerops_status save(layerops_network *net, vectors *v, const char *path) {
  LO_TRY(layerops_sync(net->ctx));
  LO_TRY(move_vectors(net, v, from_device));
  const size_t count = (size_t)tensor_count(net, v);
  const tensor_memory m = {.tensors = malloc(count * sizeof *m.tensors),
                           .names = malloc(count * sizeof *m.names),
                           .sizes = malloc((size_t)net->layers * sizeof *m.sizes)};
  layerops_status status = m.tensors && m.names && m.sizes
                               ? write_file(net, v, path, &m)
                               : lo_fail(LAYEROPS_ERROR_OUT_OF_MEMORY, "network_save: no memory");
  free(m.tensors);
  free(m.names);
  free(m.sizes);
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

/* A network without parameters: what the file's tensors tell of its layers. */
typedef struct layout {
  int64_t count;                         /* of widths */
  int64_t widths[LO_NETWORK_LAYERS + 1]; /* inputs, then each layer's outputs */
  layerops_bsr *sparse[LO_NETWORK_LAYERS];
} layout;

static void free_sparse(layout *l) {
  for (int64_t i = 0; i + 1 < l->count; i++) layerops_bsr_destroy(l->sparse[i]);
}

/* W's sizes, from its own shape or, where it is block-sparse, from the array that tells it. */
static layerops_status get_size(const char *path, const lo_safetensors *file, int64_t layer,
                                bool *found, bool *sparse, int64_t size[2]) {
  const lo_store_name name = lo_store_name_of(NULL, layer, "weight");
  const lo_tensor *t = lo_safetensors_find(file, name.text);
  LO_TRY(lo_store_sparse_size(path, file, layer, sparse, size));
  *found = t || *sparse;
  if (!*found || *sparse) return LAYEROPS_OK;
  if (t->rank != 2)
    return lo_fail(LAYEROPS_ERROR_FORMAT, "%s: %s has %d dimensions, but must have 2", path,
                   name.text, (int)t->rank);
  memcpy(size, t->shape, 2 * sizeof *size);
  return LAYEROPS_OK;
}

static layerops_status check_size(const char *path, const layout *l, int64_t layer,
                                  const int64_t size[2]) {
  const lo_store_name name = lo_store_name_of(NULL, layer, "weight");
  if (layer == LO_NETWORK_LAYERS)
    return lo_fail(LAYEROPS_ERROR_FORMAT, "%s: more than %d layers", path, LO_NETWORK_LAYERS);
  for (int j = 0; j < 2; j++)
    if (size[j] < 1) return lo_fail(LAYEROPS_ERROR_FORMAT, "%s: %s is empty", path, name.text);
  if (layer > 0 && size[1] != l->widths[layer])
    return lo_fail(LAYEROPS_ERROR_FORMAT,
                   "%s: %s takes %lld inputs, but the layer before has %lld "
                   "outputs",
                   path, name.text, (long long)size[1], (long long)l->widths[layer]);
  return LAYEROPS_OK;
}

/* The layers, as far as they go. On failure too, what was made is in *l. */
static layerops_status get_layout(layerops_context *ctx, const char *path,
                                  const lo_safetensors *file, layout *l) {
  for (int64_t i = 0;; i++) {
    bool found, sparse;
    int64_t size[2];
    LO_TRY(get_size(path, file, i, &found, &sparse, size));
    if (!found) break;
    LO_TRY(check_size(path, l, i, size));
    l->sparse[i] = NULL;
    if (sparse) LO_TRY(lo_store_sparse_pattern(ctx, path, file, i, size, &l->sparse[i]));
    l->widths[i] = size[1];
    l->widths[i + 1] = size[0];
    l->count = i + 2;
  }
  if (l->count) return LAYEROPS_OK;
  return lo_fail(LAYEROPS_ERROR_FORMAT, "%s: layers.0.weight is missing: not a network of layerops",
                 path);
}

static layerops_status get_tensor(const char *path, const lo_safetensors *file,
                                  const lo_tensor *want, float *host) {
  const lo_tensor *t = lo_safetensors_find(file, want->name);
  if (!t) return lo_fail(LAYEROPS_ERROR_FORMAT, "%s: %s is missing", path, want->name);
  if (strcmp(t->dtype, want->dtype))
    return lo_fail(LAYEROPS_ERROR_FORMAT, "%s: %s is %.20s, but must be %s", path, want->name,
                   t->dtype, want->dtype);
  if (t->rank != want->rank || memcmp(t->shape, want->shape, (size_t)t->rank * sizeof *t->shape)) {
    char shape[64] = "";
    for (int i = 0, n = 0; i < want->rank; i++)
      n += snprintf(shape + n, sizeof shape - (size_t)n, "%s%lld", i ? " x " : "",
                    (long long)want->shape[i]);
    return lo_fail(LAYEROPS_ERROR_FORMAT, "%s: %s does not have the shape of its layer, %s", path,
                   want->name, shape);
  }
  memcpy(host, t->data, (size_t)t->bytes);
  return LAYEROPS_OK;
}

static layerops_status get_layer(const char *path, const lo_safetensors *file,
                                 const layerops_network *net, int64_t layer, const char *prefix,
                                 float *host) {
  const layerops_bsr *w = net->layer[layer].sparse;
  for (int which = 0; which < LAYER_TENSORS; which++) {
    lo_store_name name;
    lo_tensor want;
    float *begin = host + describe(net, layer, which, prefix, &name, &want);
    LO_TRY(get_tensor(path, file, &want, begin));
    if (which == WEIGHT && w) lo_store_clear_outside(w, begin);
  }
  return LAYEROPS_OK;
}

static layerops_status get_vectors(const char *path, const lo_safetensors *file,
                                   layerops_network *net, vectors *v) {
  const int64_t expected = tensor_count(net, v);
  if (file->count != expected)
    return lo_fail(LAYEROPS_ERROR_FORMAT,
                   "%s: %lld tensors, but a network of %lld layers with "
                   "optimizer state \"%s\" has %lld",
                   path, (long long)file->count, (long long)net->layers,
                   lo_state_kinds[net->state_kind].name, (long long)expected);
  for (int i = 0; i < v->count; i++)
    for (int64_t l = 0; l < net->layers; l++)
      LO_TRY(get_layer(path, file, net, l, v->prefix[i], v->host[i]));
  return move_vectors(net, v, to_device);
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

static layerops_status make(lo_door *door, const char *path, const lo_safetensors *file, layout *l,
                            int *state_kind, layerops_network **network) {
  layerops_network_args args = {.widths = l->widths};
  LO_TRY(get_layout(door->ctx, path, file, l));
  args.count = l->count;
  LO_TRY(get_description(path, file, &args, state_kind));
  return lo_network_new(door, &args, l->sparse, network);
}

static layerops_status load(lo_door *door, const char *path, const lo_safetensors *file,
                            layerops_network **network) {
  layout l = {.count = 0};
  int state_kind = LO_STATE_NONE;
  const layerops_status made = make(door, path, file, &l, &state_kind, network);
  if (made != LAYEROPS_OK) {
    free_sparse(&l);
    return made;
  }
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
