/* Small networks and samples for the tests of network/. */
#ifndef LO_TEST_NETWORK_H
#define LO_TEST_NETWORK_H

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <layerops/layerops.h>

#include "t/tap.h"

/* Status OK, or what went wrong in the output. */
static inline int fine(layerops_status status, const char *what) {
  if (!ok(status == LAYEROPS_OK, "%s", what))
    diag("%s: %s", layerops_status_name(status), layerops_last_error());
  return status == LAYEROPS_OK;
}

enum { SAMPLES = 37, INPUTS = 5, OUTPUTS = 3, BATCH = 8 };
static const int64_t small_widths[] = {INPUTS, 7, 6, OUTPUTS};

typedef struct small_data {
  float x[SAMPLES * INPUTS], targets[SAMPLES * OUTPUTS];
  int32_t labels[SAMPLES];
} small_data;

/* x in [-1, 1); targets are a distribution over the outputs; the label is a function of x with
 * noise. */
static inline void make_small_data(small_data *d) {
  uint32_t state = 12345;
  for (int i = 0; i < SAMPLES; i++) {
    float sum = 0;
    for (int j = 0; j < INPUTS; j++) {
      state = state * 1664525u + 1013904223u;
      d->x[i * INPUTS + j] = (float)(int32_t)state * 0x1p-31f;
    }
    for (int j = 0; j < OUTPUTS; j++) {
      state = state * 1664525u + 1013904223u;
      sum += d->targets[i * OUTPUTS + j] = (float)(1 + (state >> 24));
    }
    for (int j = 0; j < OUTPUTS; j++) d->targets[i * OUTPUTS + j] /= sum;
    d->labels[i] = (d->x[i * INPUTS] > 0) + (d->x[i * INPUTS + 1] > 0.3f);
  }
}

static inline layerops_network *small_network(layerops_context *ctx, layerops_activation activation,
                                              int32_t loss) {
  layerops_network_args args = {
      .widths = small_widths, .count = 4, .activation = activation, .loss = loss, .seed = 7};
  layerops_network *net = NULL;
  if (layerops_network_create(ctx, &args, &net)) diag("create: %s", layerops_last_error());
  return net;
}

/* Training on views of host memory; the optimizer is SGD with 0.1 until the caller changes it. */
static inline layerops_network_train_args small_training(const small_data *d, int32_t loss) {
  layerops_network_train_args args = {
      .x = layerops_host_matrix(d->x, LAYEROPS_F32, SAMPLES, INPUTS),
      .labels = layerops_host_matrix(d->labels, LAYEROPS_I32, 1, SAMPLES),
      .batch = BATCH,
      .lr = layerops_value(0.1)};
  if (loss == LAYEROPS_LOSS_MSE)
    args.targets = layerops_host_matrix(d->targets, LAYEROPS_F32, SAMPLES, OUTPUTS);
  return args;
}

/* All weights and biases, layer by layer; the caller frees them. */
static inline float *read_parameters(layerops_context *ctx, layerops_network *net, int64_t *count) {
  layerops_network_info info;
  *count = 0;
  if (!net || layerops_network_get_info(net, &info)) return NULL;
  for (int64_t i = 0; i + 1 < info.count; i++) *count += info.widths[i + 1] * (info.widths[i] + 1);
  float *all = malloc((size_t)*count * sizeof *all), *p = all;
  for (int64_t i = 0; i + 1 < info.count; i++) {
    layerops_matrix views[2];
    layerops_network_layer(net, i, &views[0], &views[1]);
    for (int j = 0; j < 2; j++) {
      int64_t n = views[j].rows * views[j].cols;
      if (layerops_buffer_read_at(ctx, views[j].buffer, views[j].offset * 4, p, n * 4))
        diag("read: %s", layerops_last_error());
      p += n;
    }
  }
  return all;
}

/* Whether two networks have the same parameters, bit by bit. */
static inline int same_parameters(layerops_context *ctx, layerops_network *a, layerops_network *b) {
  int64_t n, m;
  float *x = read_parameters(ctx, a, &n), *y = read_parameters(ctx, b, &m);
  int same = x && y && n == m && !memcmp(x, y, (size_t)n * sizeof *x);
  for (int64_t i = 0; x && y && n == m && i < n; i++)
    if (memcmp(&x[i], &y[i], sizeof *x)) {
      diag("parameter %lld: %.9g and %.9g", (long long)i, x[i], y[i]);
      break;
    }
  free(x);
  free(y);
  return same;
}

/* The largest difference between two networks' parameters; NaN counts as infinite. */
static inline double farthest(layerops_context *ctx_a, layerops_network *a, layerops_context *ctx_b,
                              layerops_network *b) {
  int64_t n, m;
  double most = 0;
  float *x = read_parameters(ctx_a, a, &n), *y = read_parameters(ctx_b, b, &m);
  if (!x || !y || n != m) most = INFINITY;
  for (int64_t i = 0; i < n && most < INFINITY; i++) {
    double distance = fabs((double)x[i] - y[i]);
    if (!(distance <= most)) most = isnan(distance) ? INFINITY : distance;
  }
  free(x);
  free(y);
  return most;
}

#endif
