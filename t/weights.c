/* Packed weights as objects: shared by contexts and threads, outliving the context that made them,
 * in graphs, under the user's allocator, and in a network. What calls compute with them is in
 * t/conformance/packed.c. */
#include <config.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "t/devices.h"

enum { M = 14, WIDTH = 33, K = 70 };
static float x[M * K], w[WIDTH * K], other_w[WIDTH * K], wanted[M * WIDTH], other_wanted[M * WIDTH];

static layerops_matrix host(const float *p, int64_t rows, int64_t cols) {
  return layerops_host_matrix(p, LAYEROPS_F32, rows, cols);
}

/* Small integers: exact on every device. */
static void fill(void) {
  for (int i = 0; i < M * K; i++) x[i] = (float)(i * 7 % 9 - 4);
  for (int i = 0; i < WIDTH * K; i++)
    w[i] = (float)(i * 5 % 7 - 3), other_w[i] = (float)(i % 5 - 2);
  for (int i = 0; i < M; i++)
    for (int j = 0; j < WIDTH; j++)
      for (int k = 0; k < K; k++) {
        wanted[i * WIDTH + j] += x[i * K + k] * w[j * K + k];
        other_wanted[i * WIDTH + j] += x[i * K + k] * other_w[j * K + k];
      }
}

static layerops_weights *pack(layerops_context *ctx, const float *values) {
  layerops_weights_args args = {.w = host(values, WIDTH, K), .backward = 1};
  layerops_weights *weights = NULL;
  if (layerops_weights_pack(ctx, &args, &weights)) diag("%s", layerops_last_error());
  return weights;
}

/* Y with these weights is what it should be. */
static int gives(layerops_context *ctx, const layerops_weights *weights, const float *expected) {
  float y[M * WIDTH] = {0};
  layerops_linear_args args = {.x = host(x, M, K), .packed = weights, .y = host(y, M, WIDTH)};
  if (layerops_linear_forward(ctx, &args)) diag("%s", layerops_last_error());
  return !memcmp(y, expected, sizeof y);
}

static void test_lifetime(layerops_context *ctx, const char *name) {
  layerops_context *maker = NULL;
  layerops_weights *weights = NULL;
  if (!layerops_open(name, &maker)) weights = pack(maker, w);
  layerops_sync(maker);
  ok(weights && gives(maker, weights, wanted), "%s: weights are packed", name);
  layerops_close(maker);
  ok(gives(ctx, weights, wanted), "%s: and serve when the context that made them is closed", name);
  layerops_status status = layerops_weights_update(ctx, weights, host(other_w, WIDTH, K));
  ok(!status && gives(ctx, weights, other_wanted), "%s: and can be updated", name);
  layerops_weights_destroy(weights);
}

/* ---- threads ---- */

/* Eight threads, each with a context of its own, on one set of weights. Each thread has its own
 * inputs, long enough that the bits of a sum tell in which order it was added up. */
enum { THREADS = 8, CALLS = 20, SAMPLES = 40, OUT = 136, LONG = 600 };
typedef struct sharing {
  const char *device;
  const layerops_weights *weights;
  float x[SAMPLES * LONG], wanted[SAMPLES * OUT];
  int failures;
} sharing;

static layerops_status forward(layerops_context *ctx, const sharing *s, float *y) {
  layerops_linear_args args = {.x = host(s->x, SAMPLES, LONG),
                               .packed = s->weights,
                               .y = host(y, SAMPLES, OUT),
                               .activation = LAYEROPS_GELU};
  return layerops_linear_forward(ctx, &args);
}

static void *share(void *arg) {
  sharing *s = arg;
  float y[SAMPLES * OUT];
  layerops_context *own = NULL;
  s->failures = layerops_open(s->device, &own) != LAYEROPS_OK;
  for (int i = 0; i < CALLS && !s->failures; i++) {
    memset(y, 0, sizeof y);
    s->failures += forward(own, s, y) || memcmp(y, s->wanted, sizeof y);
  }
  layerops_close(own);
  return NULL;
}

static void test_threads(layerops_context *ctx, const char *name) {
  static sharing shared[THREADS];
  static float long_w[OUT * LONG];
  pthread_t threads[THREADS];
  for (int i = 0; i < OUT * LONG; i++) long_w[i] = (float)(i * 31 % 997) / 997 - 0.5f;
  layerops_weights_args args = {.w = host(long_w, OUT, LONG), .backward = 1};
  layerops_weights *weights = NULL;
  layerops_status status = layerops_weights_pack(ctx, &args, &weights);
  for (int t = 0; t < THREADS && !status; t++) {
    shared[t].device = name;
    shared[t].weights = weights;
    for (int i = 0; i < SAMPLES * LONG; i++)
      shared[t].x[i] = (float)(i * (17 + 2 * t) % 1009) / 1009 - 0.5f;
    status = forward(ctx, &shared[t], shared[t].wanted);
  }
  if (!status) status = layerops_sync(ctx);
  int started = 0, failures = status != LAYEROPS_OK;
  while (!status && started < THREADS &&
         !pthread_create(&threads[started], NULL, share, &shared[started]))
    started++;
  for (int i = 0; i < started; i++) {
    pthread_join(threads[i], NULL);
    failures += shared[i].failures;
  }
  ok(started == THREADS && !failures, "%s: %d threads share them, with the bits of one", name,
     THREADS);
  layerops_weights_destroy(weights);
}

/* ---- graphs ---- */

static void test_graph(layerops_context *ctx, const char *name) {
  float y[M * WIDTH] = {0};
  layerops_buffer *bx = NULL, *by = NULL;
  layerops_graph *graph = NULL;
  layerops_weights *weights = pack(ctx, w);
  int failed = layerops_buffer_from(ctx, x, sizeof x, &bx) ||
               layerops_buffer_create(ctx, sizeof y, &by) || layerops_record_begin(ctx);
  layerops_linear_args args = {.x = layerops_matrix_f32(bx, M, K),
                               .packed = weights,
                               .y = layerops_matrix_f32(by, M, WIDTH)};
  failed = failed || layerops_linear_forward(ctx, &args) || layerops_record_end(ctx, &graph) ||
           layerops_graph_replay(graph) || layerops_buffer_read(ctx, by, y, sizeof y);
  ok(!failed && !memcmp(y, wanted, sizeof y), "%s: a graph uses them", name);
  failed = failed || layerops_weights_update(ctx, weights, host(other_w, WIDTH, K)) ||
           layerops_graph_replay(graph) || layerops_buffer_read(ctx, by, y, sizeof y);
  ok(!failed && !memcmp(y, other_wanted, sizeof y), "%s: and sees an update", name);
  layerops_graph_destroy(graph);
  layerops_buffer_destroy(bx);
  layerops_buffer_destroy(by);
  layerops_weights_destroy(weights);
}

/* ---- the verbose line ---- */

static void find_packed(void *user, int level, const char *line) {
  if (level == 1 && strstr(line, " packed=1")) ++*(int *)user;
}

static void test_line(const char *name) {
  int lines = 0;
  layerops_open_args args = {.device = name, .verbose = 1, .log = find_packed, .log_user = &lines};
  layerops_context *ctx = NULL;
  if (layerops_open_with(&args, &ctx)) diag("%s", layerops_last_error());
  layerops_weights *weights = pack(ctx, w);
  ok(gives(ctx, weights, wanted) && lines == 1, "%s: the verbose line tells of it", name);
  layerops_weights_destroy(weights);
  layerops_close(ctx);
}

/* ---- networks ---- */

/* The forward pass as single calls, from the weights as they are. */
static int predicts(layerops_context *ctx, layerops_network *net, const layerops_matrix layer[4],
                    int64_t rows) {
  static float hidden[1100 * 17], right[1100 * 5], y[1100 * 5], in[1100 * 20];
  for (int i = 0; i < rows * 20; i++) in[i] = (float)(i * 13 % 29) / 29 - 0.5f;
  layerops_linear_args first = {.x = host(in, rows, 20),
                                .w = layer[0],
                                .bias = layer[1],
                                .y = host(hidden, rows, 17),
                                .activation = LAYEROPS_RELU};
  layerops_linear_args last = {
      .x = host(hidden, rows, 17), .w = layer[2], .bias = layer[3], .y = host(right, rows, 5)};
  layerops_matrix from = host(in, rows, 20), to = host(y, rows, 5);
  if (layerops_linear_forward(ctx, &first) || layerops_linear_forward(ctx, &last) ||
      layerops_network_predict(net, &from, &to)) {
    diag("%s", layerops_last_error());
    return 0;
  }
  for (int64_t i = 0; i < rows * 5; i++) {
    float off = y[i] - right[i];
    if (!(off < 1e-5f && off > -1e-5f)) return 0;
  }
  return 1;
}

static int train(layerops_network *net) {
  static float in[64 * 20], targets[64 * 5];
  for (int i = 0; i < 64 * 20; i++) in[i] = (float)(i % 11) / 11;
  for (int i = 0; i < 64 * 5; i++) targets[i] = (float)(i % 3);
  layerops_network_train_args args = {.x = host(in, 64, 20),
                                      .targets = host(targets, 64, 5),
                                      .batch = 16,
                                      .lr = layerops_value(0.1)};
  return !layerops_network_train(net, &args, NULL);
}

/* `shown`: a user who holds views of the weights may change them between calls. Where the views of
 * the single calls are not wanted, they come from a twin with the same seed. */
static void test_network(layerops_context *ctx, const char *name, int shown) {
  static const int64_t widths[] = {20, 17, 5};
  layerops_network_args args = {.widths = widths,
                                .count = 3,
                                .activation = LAYEROPS_RELU,
                                .loss = LAYEROPS_LOSS_MSE,
                                .seed = 3};
  layerops_network *net = NULL, *twin = NULL;
  layerops_matrix layer[4];
  int good =
      !layerops_network_create(ctx, &args, &net) && !layerops_network_create(ctx, &args, &twin);
  layerops_network *views = shown ? net : twin;
  for (int64_t i = 0; i < 2 && good; i++)
    good = !layerops_network_layer(views, i, &layer[2 * i], &layer[2 * i + 1]);
  if (!ok(good, "%s: a network", name)) return;
  const char *how = shown ? " whose weights are shown" : "";
  ok(predicts(ctx, net, layer, 1) && predicts(ctx, net, layer, 1), "%s: predicts%s", name, how);
  ok(predicts(ctx, net, layer, 1100), "%s: in two batches%s", name, how);
  good = train(net) && (shown || train(twin));
  ok(good && predicts(ctx, net, layer, 1) && predicts(ctx, net, layer, 1100),
     "%s: with the weights after training%s", name, how);
  layerops_fill_args halves = {.y = layer[0], .value = layerops_value(0.5)};
  if (shown)
    ok(!layerops_fill(ctx, &halves) && predicts(ctx, net, layer, 1) &&
           predicts(ctx, net, layer, 1100),
       "%s: with the weights after the user has written them", name);
  layerops_network_destroy(net);
  layerops_network_destroy(twin);
}

static void test_device(layerops_context *ctx, const char *name) {
  test_lifetime(ctx, name);
  test_threads(ctx, name);
  test_graph(ctx, name);
  test_line(name);
  test_network(ctx, name, 0);
  test_network(ctx, name, 1);
}

/* ---- the CPU's own form ---- */

typedef struct account {
  int given, taken;
} account;

static void *account_alloc(void *user, size_t bytes, size_t alignment) {
  void *p = NULL;
  ((account *)user)->given++;
  return posix_memalign(&p, alignment, bytes) ? NULL : p;
}

static void account_release(void *user, void *p) {
  ((account *)user)->taken++;
  free(p);
}

/* 2 MiB and more are of the user's allocator too, and only when they are packed. */
static void test_allocator(void) {
  enum { ROWS = 700, COLS = 1000 };
  account a = {0, 0};
  layerops_open_args open = {
      .device = "cpu", .alloc = account_alloc, .release = account_release, .alloc_user = &a};
  layerops_context *ctx = NULL;
  float *values = calloc(ROWS * COLS, sizeof *values), *back = calloc(ROWS * COLS, sizeof *back);
  layerops_weights *weights = NULL;
  for (int i = 0; i < ROWS * COLS; i++) values[i] = (float)i;
  layerops_weights_args args = {.w = host(values, ROWS, COLS)};
  int good = !layerops_open_with(&open, &ctx) && !layerops_weights_pack(ctx, &args, &weights);
  ok(good && a.given == 1, "cpu: packing asks the user's allocator once (%d)", a.given);
  values[5] = -1;
  good = good && !layerops_weights_update(ctx, weights, args.w) &&
         !layerops_weights_unpack(ctx, weights, host(back, ROWS, COLS)) &&
         !memcmp(values, back, ROWS * COLS * sizeof *values);
  ok(good && a.given == 1, "cpu: update and unpack ask for nothing (%d)", a.given);
  layerops_close(ctx);
  layerops_weights_destroy(weights);
  ok(a.given == a.taken, "cpu: all is given back (%d, %d)", a.given, a.taken);
  free(values);
  free(back);
}

/* Panels are as wide as an instruction set's microkernels read them. */
static void test_isa(void) {
  const char *before = getenv("LAYEROPS_CPU_ISA");
  char *kept = before ? strdup(before) : NULL;
  layerops_context *one = NULL, *two = NULL;
  layerops_device_info info = {0};
  setenv("LAYEROPS_CPU_ISA", "portable", 1);
  int good = !layerops_open("cpu", &one) && !layerops_context_info(one, &info);
  char *best = strtok(info.isa, " ");
  if (good && best && strcmp(best, "portable")) {
    float y[M * WIDTH];
    layerops_weights *weights = pack(one, w);
    layerops_linear_args args = {.x = host(x, M, K), .packed = weights, .y = host(y, M, WIDTH)};
    setenv("LAYEROPS_CPU_ISA", best, 1);
    good = !layerops_open("cpu", &two) && gives(one, weights, wanted);
    ok(good && layerops_linear_forward(two, &args) == LAYEROPS_ERROR_INVALID &&
           strstr(layerops_last_error(), "packed was packed for another LAYEROPS_CPU_ISA"),
       "another instruction set refuses them: %s", layerops_last_error());
    ok(layerops_weights_update(two, weights, host(w, WIDTH, K)) == LAYEROPS_ERROR_INVALID,
       "and does not update them");
    layerops_weights_destroy(weights);
  } else {
    skip("another instruction set refuses them", "there is only one");
  }
  layerops_close(one);
  layerops_close(two);
  unsetenv("LAYEROPS_CPU_ISA");
  if (kept) setenv("LAYEROPS_CPU_ISA", kept, 1);
  free(kept);
}

int main(void) {
  fill();
  on_each_device(test_device);
  test_allocator();
  test_isa();
  return done();
}
