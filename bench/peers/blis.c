/* BLIS: sgemm (sgemv where a side is 1), then the bias and activation pass. */
#include <config.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/peers/blis_quiet.h"
#include "bench/peers/common.h"

struct state {
  struct bench_layer layer;
  int way; /* 0: sgemm, 1: sgemv */
};

static void gemv(dim_t rows, dim_t k, float *matrix, float *vector, float *y) {
  float one = 1, zero = 0;
  bli_sgemv(BLIS_NO_TRANSPOSE, BLIS_NO_CONJUGATE, rows, k, &one, matrix, k, 1, vector, 1, &zero, y,
            1);
}

static void product(const struct bench_layer *layer, int way) {
  const struct bench_row *row = layer->row;
  float one = 1, zero = 0;
  float *x = (float *)(uintptr_t)layer->x, *w = (float *)(uintptr_t)layer->w;
  if (way == 0)
    bli_sgemm(BLIS_NO_TRANSPOSE, BLIS_TRANSPOSE, row->m, row->n, row->k, &one, x, row->k, 1, w,
              row->k, 1, &zero, layer->y, row->n, 1);
  else if (row->m == 1)
    gemv(row->n, row->k, w, x, layer->y);
  else
    gemv(row->m, row->k, x, w, layer->y);
}

static bool run_way(void *state, int way, int64_t calls) {
  const struct bench_layer *layer = &((struct state *)state)->layer;
  bli_thread_set_num_threads(layer->threads);
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

/* BLIS knows its own processors only and falls back to plain C on the others: tell it, before its
   first call, which of its kernels this one can run. */
static void choose_kernels(void) {
#if defined __x86_64__
  char skx[16];
  snprintf(skx, sizeof skx, "%d", (int)BLIS_ARCH_SKX);
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq"))
    setenv("BLIS_ARCH_TYPE", skx, 0);
#endif
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
  choose_kernels();
  s->layer = *layer;
  s->way = bench_pick(s, run_way, layer->row->m == 1 || layer->row->n == 1 ? 2 : 1);
  snprintf(label, label_size, "blis-%s[%s]%s", bli_info_get_version_str(),
           bli_arch_string(bli_arch_query_id()), s->way ? ":gemv" : "");
  *state = s;
  return true;
}

BENCH_PEER_EXPORT extern const struct bench_peer layerops_bench_peer;
const struct bench_peer layerops_bench_peer = {BENCH_PEER_ABI, "blis", setup, run, fetch, free};
