#include <config.h>

#include "bench/peers/dense.h"

#include <stdlib.h>
#include <string.h>

/* Calls move with each row of each kept block: where it lies among the blocks, and in W. */
static void each_row(const struct bench_layer *layer, size_t size, char *blocks, char *w,
                     void (*move)(char *blocks, char *w, size_t bytes)) {
  const size_t b = (size_t)layer->row->block, k = (size_t)layer->row->k;
  const struct bench_pattern *p = layer->pattern;
  for (int64_t r = 0; r < p->rows; r++)
    for (int32_t e = p->row_start[r]; e < p->row_start[r + 1]; e++)
      for (size_t i = 0; i < b; i++)
        move(blocks + ((size_t)e * b + i) * b * size,
             w + (((size_t)r * b + i) * k + (size_t)p->col[e] * b) * size, b * size);
}

static void expand(char *blocks, char *w, size_t bytes) {
  memcpy(w, blocks, bytes);
}

static void gather(char *blocks, char *w, size_t bytes) {
  memcpy(blocks, w, bytes);
}

void bench_dense_expand(const struct bench_layer *layer, size_t size, void *w) {
  memset(w, 0, (size_t)(layer->row->n * layer->row->k) * size);
  each_row(layer, size, layer->w, w, expand);
}

void bench_dense_gather(const struct bench_layer *layer, size_t size,
                        const struct bench_dense *dense) {
  if (layer->product == BENCH_WGRAD && dense->expanded)
    each_row(layer, size, layer->w, dense->expanded, gather);
}

static struct bench_dense product_of(const struct bench_layer *l, void *w) {
  const int64_t m = l->row->m, n = l->row->n, k = l->row->k;
  switch (l->product) {
  case BENCH_DGRAD:
    return (struct bench_dense){m, k, n, false, false, n, k, k, l->y, w, l->x, NULL};
  case BENCH_WGRAD:
    return (struct bench_dense){n, k, m, true, false, n, k, k, l->y, l->x, w, NULL};
  default:
    return (struct bench_dense){m, n, k, false, true, k, k, n, l->x, w, l->y, NULL};
  }
}

bool bench_dense_make(const struct bench_layer *layer, size_t size, struct bench_dense *dense) {
  const size_t bytes = (size_t)(layer->row->n * layer->row->k) * size;
  void *w = layer->pattern ? aligned_alloc(64, (bytes + 63) / 64 * 64) : NULL;
  *dense = product_of(layer, w ? w : layer->w);
  dense->expanded = w;
  if (!layer->pattern) return true;
  if (w) bench_dense_expand(layer, size, w);
  return w != NULL;
}

void bench_dense_free(struct bench_dense *dense) {
  free(dense->expanded);
  dense->expanded = NULL;
}
