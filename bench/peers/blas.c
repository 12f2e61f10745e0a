/* A BLAS as a peer: sgemm (sgemv where a side is 1), then the bias and activation pass; of
   block-sparse rows the dense product. The adapter brings the table. */
#include <config.h>

#include "bench/peers/blas.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/peers/dense.h"

struct state {
  const struct bench_blas *blas;
  struct bench_layer layer;
  struct bench_dense dense;
  int way;
  void *packed;
};

static void gemm(const struct state *s) {
  const struct bench_dense *d = &s->dense;
  s->blas->sgemm(d->transpose_a, d->transpose_b, d->rows, d->cols, d->depth, d->a, d->lda, d->b,
                 d->ldb, d->c, d->ldc);
}

static void gemv(const struct state *s) {
  const struct bench_dense *d = &s->dense;
  if (d->rows == 1)
    s->blas->sgemv(d->cols, d->depth, d->b, d->a, d->c);
  else
    s->blas->sgemv(d->rows, d->depth, d->a, d->b, d->c);
}

static void gemm_packed(const struct state *s) {
  const struct bench_row *r = s->layer.row;
  s->blas->sgemm_packed(r->m, r->n, r->k, s->layer.x, s->packed, s->layer.y);
}

static const struct {
  const char *name;
  void (*product)(const struct state *s);
} ways[] = {{"", gemm}, {":gemv", gemv}, {":packed", gemm_packed}};
enum { GEMM, GEMV, PACKED };

static bool run_way(void *state, int way, int64_t calls) {
  const struct state *s = state;
  const struct bench_layer *layer = &s->layer;
  s->blas->set_threads(layer->threads);
  for (int64_t i = 0; i < calls; i++) {
    ways[way].product(s);
    if (layer->pattern) continue; /* neither bias nor activation */
    bench_epilogue_parallel(layer->y, layer->row->m, layer->row->n, layer->bias,
                            layer->row->activation, layer->threads);
  }
  return true;
}

bool bench_blas_run(void *state, int64_t calls) {
  return run_way(state, ((struct state *)state)->way, calls);
}

bool bench_blas_fetch(void *state) {
  const struct state *s = state;
  bench_dense_gather(&s->layer, sizeof(float), &s->dense);
  return true;
}

bool bench_blas_pack(void *state) {
  struct state *s = state;
  const struct bench_row *r = s->layer.row;
  s->blas->set_threads(s->layer.threads);
  s->blas->pack(r->m, r->n, r->k, s->dense.b, s->packed);
  return true;
}

void bench_blas_close(void *state) {
  struct state *s = state;
  bench_dense_free(&s->dense);
  free(s->packed);
  free(s);
}

static bool choose_way(struct state *s) {
  const struct bench_row *r = s->layer.row;
  if (!s->layer.packed) {
    const bool vector = s->layer.product == BENCH_FORWARD && (r->m == 1 || r->n == 1);
    s->way = vector ? bench_pick(s, run_way, PACKED) : GEMM;
    return true;
  }
  s->way = PACKED;
  size_t size = s->blas->packed_size(r->m, r->n, r->k);
  s->packed = aligned_alloc(64, (size + 127) / 64 * 64);
  return s->packed && bench_blas_pack(s);
}

bool bench_blas_setup(const struct bench_blas *blas, const struct bench_layer *layer, void **state,
                      char *label, size_t label_size, char *why, size_t why_size) {
  if (strcmp(layer->dtype, "f32")) {
    snprintf(why, why_size, "its product is of f32");
    return false;
  }
  if (layer->packed && layer->product != BENCH_FORWARD) {
    snprintf(why, why_size, "it packs weights for forward");
    return false;
  }
  struct state *s = calloc(1, sizeof *s);
  if (s) *s = (struct state){.blas = blas, .layer = *layer};
  if (blas->choose) blas->choose();
  if (!s || !bench_dense_make(layer, sizeof(float), &s->dense) || !choose_way(s)) {
    snprintf(why, why_size, "out of memory");
    if (s) bench_blas_close(s);
    return false;
  }
  char name[96];
  blas->label(name, sizeof name);
  snprintf(label, label_size, "%s%s%s", name, layer->pattern ? ":dense" : "", ways[s->way].name);
  *state = s;
  return true;
}
