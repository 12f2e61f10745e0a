/* LAYEROPS_BATCH_INVARIANT with block-sparse weights: a sample's bits depend neither on the other
 * samples nor on their number, in both layouts. */
#include <config.h>

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "t/devices.h"
#include "t/is.h"

enum { M = 300, SIDE = 330 };
static float wide[M * SIDE], w_values[SIDE * SIDE], all[M * SIDE], some[M * SIDE];
static float narrow[M * SIDE]; /* of the type that is tested */

static void draw(float *values, int64_t count) {
  static uint32_t state = 5;
  for (int64_t i = 0; i < count; i++) {
    state = state * 1664525 + 1013904223;
    values[i] = (float)(state >> 8) * 0x1p-24f - 0.5f;
  }
}

typedef struct layer {
  layerops_context *ctx;
  layerops_bsr *w;
  layerops_type type;
  int64_t n, k;
  int32_t layout;
  bool backward;
} layer;

/* m samples of `features`, as the layer's layout has them. */
static layerops_matrix view(const layer *l, void *memory, layerops_type type, int64_t m,
                            int64_t features) {
  const bool by_features = l->layout == LAYEROPS_FEATURES_BY_ROW;
  return layerops_host_matrix(memory, type, by_features ? features : m, by_features ? m : features);
}

/* The first m of the samples: into `out`. */
static layerops_status run(const layer *l, int64_t m, float *out) {
  const int64_t in_features = l->backward ? l->n : l->k, out_features = l->backward ? l->k : l->n;
  static float given[M * SIDE];
  for (int64_t i = 0; i < m; i++)
    for (int64_t j = 0; j < in_features; j++)
      given[l->layout == LAYEROPS_FEATURES_BY_ROW ? j * m + i : i * in_features + j] =
          wide[i * SIDE + j];
  const layerops_copy_args cast = {.x = view(l, given, LAYEROPS_F32, m, in_features),
                                   .y = view(l, narrow, l->type, m, in_features)};
  const layerops_status status = layerops_copy(l->ctx, &cast);
  const layerops_matrix y = view(l, out, LAYEROPS_F32, m, out_features);
  const layerops_bsr_linear_forward_args forward = {
      .x = cast.y, .w = l->w, .y = y, .flags = LAYEROPS_BATCH_INVARIANT, .layout = l->layout};
  const layerops_bsr_linear_backward_args backward = {
      .dy = cast.y, .w = l->w, .dx = y, .flags = LAYEROPS_BATCH_INVARIANT, .layout = l->layout};
  if (status) return status;
  return l->backward ? layerops_bsr_linear_backward(l->ctx, &backward)
                     : layerops_bsr_linear_forward(l->ctx, &forward);
}

static int same(const layer *l, int64_t m) {
  const int64_t features = l->backward ? l->k : l->n;
  const bool by_features = l->layout == LAYEROPS_FEATURES_BY_ROW;
  for (int64_t i = 0; i < m; i++)
    for (int64_t j = 0; j < features; j++)
      if (memcmp(&some[by_features ? j * m + i : i * features + j],
                 &all[by_features ? j * M + i : i * features + j], sizeof(float)))
        return 0;
  return 1;
}

static void test(layer l, const char *device, int64_t block) {
  static const int64_t counts[] = {1, 2, 7, 13, 33, 64, 130};
  layerops_status status = run(&l, M, all);
  int good = !status;
  for (size_t i = 0; good && i < sizeof counts / sizeof *counts; i++)
    good = !(status = run(&l, counts[i], some)) && same(&l, counts[i]);
  ok(good, "%s: %s, %s, blocks of %lld, layout %d", device, layerops_type_name(l.type),
     l.backward ? "dgrad" : "forward", (long long)block, (int)l.layout);
  if (status) diag("%s", layerops_last_error());
}

static void on_device(layerops_context *ctx, const char *device) {
  static const layerops_type types[] = {LAYEROPS_F32, LAYEROPS_F16, LAYEROPS_BF16};
  static const int64_t blocks[] = {8, 16, 32, 64};
  for (int t = 0; t < 3; t++)
    for (int b = 0; b < 4; b++) {
      layer l = {.ctx = ctx, .type = types[t], .n = 5 * blocks[b] - b % 2, .k = 300};
      const layerops_bsr_dense_args cut = {
          .w = layerops_host_matrix(w_values, LAYEROPS_F32, l.n, l.k),
          .block = blocks[b],
          .type = types[t]};
      if (layerops_bsr_from_dense(ctx, &cut, &l.w)) ok(0, "%s", layerops_last_error());
      for (int i = 0; l.w && i < 4; i++) {
        l.layout = i % 2;
        l.backward = i / 2;
        test(l, device, blocks[b]);
      }
      layerops_bsr_destroy(l.w);
    }
}

int main(void) {
  draw(wide, M * SIDE);
  draw(w_values, SIDE * SIDE);
  on_each_device(on_device);
  return done();
}
