/* What the library adds to a launch on the host, on the first CUDA device: warm eager calls and
 * replays beside an empty kernel with as many bytes of arguments, on one stream, in turns. A figure
 * is the median over many batches; a difference the median over pairs of neighbouring batches.
 * Usage: host_cost [--json] */
#include <config.h>

#include <layerops/layerops.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/host_cost.h"
#include "bench/timing.h"

enum { BATCHES = 200, CALLS = 100, REPLAYS = 5, NODES = 20 };

static layerops_context *ctx;
static void *stream;

static int fail(void) {
  fprintf(stderr, "host_cost: %s\n", layerops_last_error());
  return 1;
}

/* ---- What is measured: calls that return 0 */
typedef int (*call_function)(const void *state);

typedef struct layer {
  layerops_linear_args args;
  layerops_graph *graph;
  void *empty; /* a graph of as many empty kernels */
} layer;

static int call_layer(const void *state) {
  return layerops_linear_forward(ctx, &((const layer *)state)->args);
}
static int call_empty(const void *state) {
  (void)state;
  return empty_launch(stream);
}
static int replay_layer(const void *state) {
  return layerops_graph_replay(((const layer *)state)->graph);
}
static int replay_empty(const void *state) {
  return empty_replay(((const layer *)state)->empty, stream);
}

/* ---- Batches */
typedef struct figures {
  double ours, empty, difference; /* seconds a call */
} figures;

/* One batch, but for the wait at its end; negative where a call failed. */
static double batch(call_function call, const void *state, int calls) {
  double start = bench_now();
  int failed = 0;
  for (int i = 0; i < calls; i++) failed |= call(state);
  double seconds = (bench_now() - start) / calls;
  return failed | empty_wait(stream) ? -1 : seconds;
}

static double median(double *values) {
  bench_sort(values, BATCHES);
  return bench_percentile(values, BATCHES, 0.5);
}

static bool measure(call_function ours, call_function empty, const layer *l, int calls,
                    figures *f) {
  static double a[BATCHES], b[BATCHES], d[BATCHES];
  for (int i = -1; i < BATCHES; i++) { /* the first is not counted */
    int at = i < 0 ? 0 : i;
    a[at] = batch(ours, l, calls);
    b[at] = batch(empty, l, calls);
    d[at] = a[at] - b[at];
    if (a[at] < 0 || b[at] < 0) return false;
  }
  *f = (figures){median(a), median(b), median(d)};
  return true;
}

/* ---- Layers */
static int make(layer *l, layerops_type type, int64_t m, int64_t n, int64_t k) {
  int64_t size = (int64_t)layerops_type_size(type);
  layerops_buffer *x, *w, *bias, *y;
  layerops_status status = layerops_buffer_create(ctx, m * k * size, &x);
  if (!status) status = layerops_buffer_create(ctx, n * k * size, &w);
  if (!status) status = layerops_buffer_create(ctx, n * size, &bias);
  if (!status) status = layerops_buffer_create(ctx, m * n * size, &y);
  if (status) return status;
  l->args = (layerops_linear_args){.x = layerops_matrix_of(x, type, m, k),
                                   .w = layerops_matrix_of(w, type, n, k),
                                   .bias = layerops_matrix_of(bias, type, 1, n),
                                   .y = layerops_matrix_of(y, type, m, n),
                                   .activation = LAYEROPS_RELU};
  status = layerops_linear_forward(ctx, &l->args);
  if (!status) status = layerops_record_begin(ctx);
  for (int i = 0; i < NODES && !status; i++) status = layerops_linear_forward(ctx, &l->args);
  if (!status) status = layerops_record_end(ctx, &l->graph);
  return status || empty_graph(stream, NODES, &l->empty);
}

static void release(layer *l) {
  layerops_graph_destroy(l->graph);
  layerops_buffer_destroy(l->args.x.buffer);
  layerops_buffer_destroy(l->args.w.buffer);
  layerops_buffer_destroy(l->args.bias.buffer);
  layerops_buffer_destroy(l->args.y.buffer);
}

static void print(bool json, const char *separator, const char *what, const layer *l,
                  const figures *f) {
  const layerops_matrix *x = &l->args.x, *y = &l->args.y;
  const char *format =
      json ? "%s{\"what\": \"%s\", \"type\": \"%s\", \"m\": %lld, \"n\": %lld, \"k\": %lld, "
             "\"kernel\": \"%s\", \"seconds\": %.4g, \"empty_seconds\": %.4g, "
             "\"difference_seconds\": %.4g}"
           : "%s%-8s %-4s m=%lld n=%lld k=%lld kernel=%s: %.4g s, empty %.4g s, difference %.3g s";
  printf(format, separator, what, layerops_type_name(x->type), (long long)x->rows,
         (long long)y->cols, (long long)x->cols, layerops_last_kernel(ctx), f->ours, f->empty,
         f->difference);
}

static int run(bool json) {
  static const struct {
    layerops_type type;
    int64_t m, n, k;
  } rows[] = {{LAYEROPS_F32, 1, 128, 256},
              {LAYEROPS_F32, 64, 128, 784},
              {LAYEROPS_F16, 64, 128, 784},
              {LAYEROPS_BF16, 1, 1024, 1024}};
  printf(json ? "{\"bytes\": %d, \"rows\": [\n" : "%d bytes of arguments\n", empty_bytes());
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    layer l = {0};
    figures call, replay;
    if (make(&l, rows[i].type, rows[i].m, rows[i].n, rows[i].k) ||
        !measure(call_layer, call_empty, &l, CALLS, &call) ||
        !measure(replay_layer, replay_empty, &l, REPLAYS, &replay))
      return fail();
    print(json, i && json ? ",\n" : "", "call", &l, &call);
    print(json, json ? ",\n" : "\n", "replay", &l, &replay);
    if (!json) printf("\n");
    fflush(stdout);
    release(&l);
  }
  if (json) printf("\n]}\n");
  return 0;
}

int main(int argc, char **argv) {
  bool json = argc == 2 && !strcmp(argv[1], "--json");
  if (argc > 1 && !json) {
    fprintf(stderr, "usage: host_cost [--json]\n");
    return 2;
  }
  layerops_open_args args = {.device = "cuda:0", .no_cache = 1};
  if (empty_stream(&stream)) {
    fprintf(stderr, "host_cost: no CUDA device\n");
    return 1;
  }
  args.queue = stream;
  if (layerops_open_with(&args, &ctx)) return fail();
  int status = run(json);
  layerops_close(ctx);
  return status;
}
