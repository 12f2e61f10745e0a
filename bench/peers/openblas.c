/* OpenBLAS: sgemm (sgemv where a side is 1), then the bias and activation pass. The tool sets
   OPENBLAS_CORETYPE before it loads this module: the library reads it while it is loaded. */
#include <config.h>

#include <cblas.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/peers/common.h"

struct state {
  struct bench_layer layer;
  int way; /* 0: sgemm, 1: sgemv */
};

static void product(const struct bench_layer *layer, int way) {
  const struct bench_row *row = layer->row;
  blasint m = (blasint)row->m, n = (blasint)row->n, k = (blasint)row->k;
  if (way == 0)
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, m, n, k, 1, layer->x, k, layer->w, k, 0,
                layer->y, n);
  else if (m == 1)
    cblas_sgemv(CblasRowMajor, CblasNoTrans, n, k, 1, layer->w, k, layer->x, 1, 0, layer->y, 1);
  else
    cblas_sgemv(CblasRowMajor, CblasNoTrans, m, k, 1, layer->x, k, layer->w, 1, 0, layer->y, 1);
}

static bool run_way(void *state, int way, int64_t calls) {
  const struct bench_layer *layer = &((struct state *)state)->layer;
  openblas_set_num_threads(layer->threads);
  for (int64_t i = 0; i < calls; i++) {
    product(layer, way);
    bench_epilogue_parallel(layer->y, layer->row->m, layer->row->n, layer->bias,
                            layer->row->activation, layer->threads);
  }
  return true;
}

static bool run(void *state, int64_t calls) {
  return run_way(state, ((struct state *)state)->way, calls);
}

static bool fetch(void *state) {
  (void)state;
  return true; /* run writes the layer's y */
}

/* "OpenBLAS 0.3.21 ..." of openblas_get_config */
static void write_label(char *label, size_t size, int way) {
  char version[32] = "?";
  sscanf(openblas_get_config(), "OpenBLAS %31s", version);
  const char *threading = openblas_get_parallel() == OPENBLAS_OPENMP ? "-openmp" : "";
  snprintf(label, size, "openblas-%s%s[%s]%s", version, threading, openblas_get_corename(),
           way ? ":gemv" : "");
}

static bool setup(const struct bench_layer *layer, void **state, char *label, size_t label_size,
                  char *why, size_t why_size) {
  if (strcmp(layer->dtype, "f32") || layer->pattern) {
    snprintf(why, why_size, "its product is dense f32");
    return false;
  }
  struct state *s = calloc(1, sizeof *s);
  if (!s) {
    snprintf(why, why_size, "out of memory");
    return false;
  }
  s->layer = *layer;
  s->way = bench_pick(s, run_way, layer->row->m == 1 || layer->row->n == 1 ? 2 : 1);
  write_label(label, label_size, s->way);
  *state = s;
  return true;
}

BENCH_PEER_EXPORT extern const struct bench_peer layerops_bench_peer;
const struct bench_peer layerops_bench_peer = {BENCH_PEER_ABI, "openblas", setup, run, fetch, free};
