/* Names and sizes of everything that the public enumerations number. */
#include <config.h>

#include <string.h>

#include "common/kernel/codes.h"
#include <layerops/layerops.h>

int layerops_version(void) {
  return LAYEROPS_VERSION_NUMBER;
}
const char *layerops_version_string(void) {
  return LAYEROPS_VERSION;
}

const char *layerops_status_name(layerops_status status) {
  switch (status) {
#define X(name, number, text)                                                                      \
  case LAYEROPS_##name:                                                                            \
    return "LAYEROPS_" #name;
    LAYEROPS_STATUS_LIST(X)
#undef X
  }
  return "?";
}

const char *layerops_status_text(layerops_status status) {
  switch (status) {
#define X(name, number, text)                                                                      \
  case LAYEROPS_##name:                                                                            \
    return text;
    LAYEROPS_STATUS_LIST(X)
#undef X
  }
  return "unknown status";
}

const char *layerops_op_name(layerops_op op) {
  switch (op) {
#define X(name, number)                                                                            \
  case LAYEROPS_OP_##name:                                                                         \
    return #name;
    LAYEROPS_OP_LIST(X)
#undef X
  case LAYEROPS_OP_COUNT:
    break;
  }
  return "?";
}

static const struct {
  const char *name;
  size_t size;
} types[LAYEROPS_TYPE_COUNT] = {
    [LAYEROPS_NONE_TYPE] = {"none", 0}, [LAYEROPS_F32] = {"f32", 4},
    [LAYEROPS_F16] = {"f16", 2},        [LAYEROPS_BF16] = {"bf16", 2},
    [LAYEROPS_I32] = {"i32", 4},        [LAYEROPS_I8] = {"i8", 1},
    [LAYEROPS_U8] = {"u8", 1},          [LAYEROPS_F8E4M3] = {"f8e4m3", 1},
    [LAYEROPS_F8E5M2] = {"f8e5m2", 1},
};

static int known_type(layerops_type type) {
  return type >= 0 && type < LAYEROPS_TYPE_COUNT;
}

size_t layerops_type_size(layerops_type type) {
  return known_type(type) ? types[type].size : 0;
}
const char *layerops_type_name(layerops_type type) {
  return known_type(type) ? types[type].name : "?";
}

static const struct {
  const char *name;
  int saves_input;
} activations[LAYEROPS_ACTIVATION_COUNT] = {
    [LAYEROPS_IDENTITY] = {"none", 0},         [LAYEROPS_RELU] = {"relu", 0},
    [LAYEROPS_LEAKY_RELU] = {"leaky_relu", 0}, [LAYEROPS_GELU] = {"gelu", 1},
    [LAYEROPS_GELU_TANH] = {"gelu_tanh", 1},   [LAYEROPS_SILU] = {"silu", 1},
    [LAYEROPS_SIGMOID] = {"sigmoid", 0},       [LAYEROPS_TANH] = {"tanh", 0},
};

static int known_activation(layerops_activation a) {
  return a >= 0 && a < LAYEROPS_ACTIVATION_COUNT;
}

const char *layerops_activation_name(layerops_activation a) {
  return known_activation(a) ? activations[a].name : "?";
}

int layerops_activation_saves_input(layerops_activation a) {
  return known_activation(a) ? activations[a].saves_input : 0;
}

layerops_activation layerops_activation_from_name(const char *name) {
  for (layerops_activation a = 0; name && a < LAYEROPS_ACTIVATION_COUNT; a++)
    if (!strcmp(name, activations[a].name)) return a;
  return -1;
}

/* common/kernel/codes.h repeats these numbers for OpenCL C. */
#define SAME(a, b) _Static_assert((int)(a) == (int)(b), #a " and " #b)
SAME(LO_TYPE_F32, LAYEROPS_F32);
SAME(LO_TYPE_F16, LAYEROPS_F16);
SAME(LO_TYPE_BF16, LAYEROPS_BF16);
SAME(LO_TYPE_I32, LAYEROPS_I32);
SAME(LO_TYPE_I8, LAYEROPS_I8);
SAME(LO_TYPE_U8, LAYEROPS_U8);
SAME(LO_TYPE_F8E4M3, LAYEROPS_F8E4M3);
SAME(LO_TYPE_F8E5M2, LAYEROPS_F8E5M2);
SAME(LO_ACT_RELU, LAYEROPS_RELU);
SAME(LO_ACT_LEAKY_RELU, LAYEROPS_LEAKY_RELU);
SAME(LO_ACT_GELU, LAYEROPS_GELU);
SAME(LO_ACT_GELU_TANH, LAYEROPS_GELU_TANH);
SAME(LO_ACT_SILU, LAYEROPS_SILU);
SAME(LO_ACT_SIGMOID, LAYEROPS_SIGMOID);
SAME(LO_ACT_TANH, LAYEROPS_TANH);
