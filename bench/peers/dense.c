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

struct bench_dense bench_dense_shape(enum bench_product product, int64_t m, int64_t n, int64_t k) {
  switch (product) {
  case BENCH_DGRAD:
    return (struct bench_dense){.rows = m, .cols = k, .depth = n, .lda = n, .ldb = k, .ldc = k};
  case BENCH_WGRAD:
    return (struct bench_dense){
        .rows = n, .cols = k, .depth = m, .transpose_a = true, .lda = n, .ldb = k, .ldc = k};
  default:
    return (struct bench_dense){
        .rows = m, .cols = n, .depth = k, .transpose_b = true, .lda = k, .ldb = k, .ldc = n};
  }
}

bool bench_dense_make(const struct bench_layer *layer, size_t size, struct bench_dense *dense) {
  const size_t bytes = (size_t)(layer->row->n * layer->row->k) * size;
  void *w = layer->pattern ? aligned_alloc(64, (bytes + 63) / 64 * 64) : NULL;
  void *const operands[] = {layer->x, w ? w : layer->w, layer->y};
  static const struct {
    int a, b, c;
  } places[] = {[BENCH_FORWARD] = {0, 1, 2}, [BENCH_DGRAD] = {2, 1, 0}, [BENCH_WGRAD] = {2, 0, 1}};
  *dense = bench_dense_shape(layer->product, layer->row->m, layer->row->n, layer->row->k);
  dense->a = operands[places[layer->product].a];
  dense->b = operands[places[layer->product].b];
  dense->c = operands[places[layer->product].c];
  dense->expanded = w;
  if (!layer->pattern) return true;
  if (w) bench_dense_expand(layer, size, w);
  return w != NULL;
}

void bench_dense_free(struct bench_dense *dense) {
  free(dense->expanded);
  dense->expanded = NULL;
}
