/* The CPU's epoch in one call (backends/cpu/train.c) against one operation after the other: on each
 * instruction set, with any number of threads, and what it refuses. */
#include <config.h>

#ifndef _DEFAULT_SOURCE
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS, setenv */
#endif

#include <float.h>
#include <sys/mman.h>
#include <unistd.h>

#include "t/is.h"
#include "t/network.h"

enum { LAYERS = 6, MOST_STEPS = 512 };

typedef struct shape {
  int64_t widths[LAYERS], samples, batch;
  layerops_activation activation;
  int keep_order;
} shape;

static const shape shapes[] = {
    {{784, 128, 10}, 150, 64, LAYEROPS_RELU, 1},
    {{784, 128, 10}, 150, 64, LAYEROPS_RELU, 0},
    {{784, 128, 10}, 5, 1, LAYEROPS_RELU, 0},
    {{37, 19, 5}, 61, 8, LAYEROPS_RELU, 1},   /* k odd, n no whole vector, a last batch of 5 */
    {{37, 19, 5}, 61, 8, LAYEROPS_GELU, 0},   /* saves its input */
    {{64, 80, 17}, 40, 16, LAYEROPS_TANH, 1}, /* panels of different width */
    {{33, 7}, 50, 12, LAYEROPS_RELU, 1},      /* one layer */
    {{48, 7}, 50, 12, LAYEROPS_RELU, 1},      /* one layer on samples in place */
    {{130, 65}, 9, 9, LAYEROPS_RELU, 0},      /* more classes than samples */
    {{20, 40, 30, 9}, 70, 32, LAYEROPS_SIGMOID, 0},
    {{100, 300, 70, 33}, 400, 300, LAYEROPS_RELU, 1},    /* sums over more than one block */
    {{70, 90, 1100, 3}, 40, 20, LAYEROPS_LEAKY_RELU, 1}, /* more than 16 panels */
    {{5, 3, 4, 3, 2}, 30, 7, LAYEROPS_IDENTITY, 0},
    {{1, 1, 1}, 4, 3, LAYEROPS_SILU, 0},
    {{1024, 20, 3}, 20, 8, LAYEROPS_RELU, 1}, /* rows a page apart */
};
enum { SHAPES = sizeof shapes / sizeof *shapes };

typedef struct samples {
  float *x;
  int32_t *labels;
  size_t bytes, guard;
  char *memory;
} samples;

/* X ends at a page that must not be touched. */
static samples make_samples(const shape *s, int64_t classes) {
  const size_t page = (size_t)sysconf(_SC_PAGESIZE);
  const size_t bytes = (size_t)(s->samples * s->widths[0]) * sizeof(float);
  samples d = {.guard = page, .bytes = (bytes + page - 1) / page * page};
  d.memory = mmap(NULL, d.bytes + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (d.memory == MAP_FAILED || mprotect(d.memory + d.bytes, page, PROT_NONE)) abort();
  d.x = (float *)(void *)(d.memory + d.bytes - bytes);
  d.labels = malloc((size_t)s->samples * sizeof *d.labels);
  uint32_t state = 1;
  for (int64_t i = 0; i < s->samples * s->widths[0]; i++) {
    state = state * 1664525u + 1013904223u;
    d.x[i] = (float)(int32_t)(state ^ state >> 15) * 0x1p-31f;
  }
  for (int64_t i = 0; i < s->samples; i++) {
    state = state * 1664525u + 1013904223u;
    d.labels[i] = (int32_t)((state >> 8) % (uint32_t)classes);
  }
  return d;
}

static void free_samples(samples *d) {
  munmap(d->memory, d->bytes + d->guard);
  free(d->labels);
}

static int64_t width_count(const shape *s) {
  int64_t n = 0;
  while (n < LAYERS && s->widths[n]) n++;
  return n;
}

/* What the log said of the last epoch. */
static char said[4096];
static void hear(void *user, int32_t level, const char *line) {
  (void)user;
  (void)level;
  if (strstr(line, "network_train") || strstr(line, "kernel=epoch"))
    snprintf(said + strlen(said), sizeof said - strlen(said), "%s\n", line);
}

static layerops_context *open_cpu(const char *isa, int32_t threads) {
  layerops_context *ctx = NULL;
  layerops_open_args args = {.device = "cpu", .threads = threads, .log = hear};
  if (isa) setenv("LAYEROPS_CPU_ISA", isa, 1);
  if (layerops_open_with(&args, &ctx)) return NULL;
  return ctx;
}

static layerops_network *create(layerops_context *ctx, const shape *s) {
  layerops_network_args args = {
      .widths = s->widths, .count = width_count(s), .activation = s->activation, .seed = 3};
  layerops_network *net = NULL;
  if (layerops_network_create(ctx, &args, &net)) diag("create: %s", layerops_last_error());
  return net;
}

static layerops_network_train_args training(const shape *s, const samples *d) {
  layerops_network_train_args args = {
      .x = layerops_host_matrix(d->x, LAYEROPS_F32, s->samples, s->widths[0]),
      .labels = layerops_host_matrix(d->labels, LAYEROPS_I32, 1, s->samples),
      .batch = s->batch,
      .lr = layerops_value(0.1),
      .keep_order = s->keep_order};
  return args;
}

/* A momentum of 0 that the call reads from a buffer: the same steps, which the epoch refuses. */
static int train_plainly(layerops_context *ctx, layerops_network *net,
                         layerops_network_train_args args, layerops_network_result *result) {
  layerops_buffer *zero;
  float value = 0;
  if (layerops_buffer_from(ctx, &value, sizeof value, &zero)) return 0;
  args.momentum = layerops_element(zero, 0);
  int good = !layerops_network_train(net, &args, result);
  layerops_buffer_destroy(zero);
  return good;
}

/* |x| <= 1 and |w| < 1 before and after so few steps, so the terms of an update add up to at most
 * 2 lr (softmax - truth is at most 1 in magnitude and 2 in sum); each passes through sums over the
 * widest two widths and the batch, with a rounding for each term on either side. W itself is
 * rounded once a step. */
static double parameter_bound(const shape *s, int64_t steps) {
  double terms = (double)s->batch;
  for (int64_t i = 0; i < width_count(s); i++) terms += (double)s->widths[i];
  return (double)steps * (2 * 0.1 * 2 * terms + 2) * FLT_EPSILON / 2;
}

static void against_plain(layerops_context *ctx, const shape *s, const char *isa) {
  const int64_t n = width_count(s), first = s->widths[0];
  samples d = make_samples(s, s->widths[n - 1]);
  layerops_network *fused = create(ctx, s), *plain = create(ctx, s);
  layerops_network_train_args args = training(s, &d);
  layerops_network_result a = {0}, b = {0};
  float losses[2][MOST_STEPS];
  args.losses_capacity = MOST_STEPS;
  for (int epoch = 0; epoch < 2; epoch++) {
    args.losses = losses[0];
    said[0] = 0;
    ok(!layerops_network_train(fused, &args, &a) && strstr(said, "kernel=epoch samples="),
       "%s: %lld-..., batch %lld: taken", isa, (long long)first, (long long)s->batch);
    args.losses = losses[1];
    said[0] = 0;
    ok(train_plainly(ctx, plain, args, &b) && !strstr(said, "kernel=epoch samples="),
       "the plain path");
  }
  const int64_t steps = 2 * a.steps;
  const double bound = parameter_bound(s, steps), far = farthest(ctx, fused, ctx, plain);
  if (!ok(far <= bound, "weights agree")) diag("%g, but at most %g", far, bound);
  double worst = 0;
  for (int64_t i = 0; i < a.steps; i++) worst = fmax(worst, fabs(losses[0][i] - losses[1][i]));
  /* A logit moves with all weights that lead to it. */
  if (!ok(worst <= bound * (double)(first + 1), "losses agree"))
    diag("%g, but at most %g", worst, bound * (double)(first + 1));
  ok(a.steps == b.steps && a.samples == b.samples && a.accuracy == b.accuracy &&
         fabs(a.loss - b.loss) <= bound * (double)(first + 1),
     "results agree: loss %g and %g, accuracy %g and %g", a.loss, b.loss, a.accuracy, b.accuracy);
  layerops_network_destroy(fused);
  layerops_network_destroy(plain);
  free_samples(&d);
}

/* Enough work for many threads. */
static void any_threads(const char *isa, const shape *s) {
  static const int32_t threads[] = {1, 2, 3, 7};
  samples d = make_samples(s, s->widths[width_count(s) - 1]);
  layerops_context *first = open_cpu(isa, 1);
  layerops_network *one = create(first, s);
  layerops_network_train_args args = training(s, &d);
  layerops_network_result a = {0}, b = {0};
  ok(!layerops_network_train(one, &args, &a), "%s: with 1 thread", isa);
  for (int i = 0; i < 4; i++) {
    layerops_context *ctx = open_cpu(isa, threads[i]);
    layerops_network *net = create(ctx, s);
    int good = !layerops_network_train(net, &args, &b);
    int64_t count, other;
    float *x = read_parameters(first, one, &count), *y = read_parameters(ctx, net, &other);
    ok(good && count == other && !memcmp(x, y, (size_t)count * sizeof *x) && a.loss == b.loss,
       "%s: the same bits with %d threads", isa, (int)threads[i]);
    free(x);
    free(y);
    layerops_network_destroy(net);
    layerops_close(ctx);
  }
  layerops_network_destroy(one);
  layerops_close(first);
  free_samples(&d);
}

static void on_isa(const char *isa) {
  static const shape deep = {{200, 150, 140, 70, 9}, 100, 48, LAYEROPS_GELU, 0};
  static const shape single = {{2000, 90}, 100, 48, LAYEROPS_RELU, 1};
  layerops_context *ctx = open_cpu(isa, 0);
  if (!ctx) {
    skip(isa, "%s", layerops_last_error());
    return;
  }
  for (int i = 0; i < SHAPES; i++) against_plain(ctx, &shapes[i], isa);
  layerops_close(ctx);
  any_threads(isa, &shapes[0]);
  any_threads(isa, &shapes[1]);
  any_threads(isa, &deep);
  any_threads(isa, &single);
}

/* All weights become 0, but for row `row` of the last layer's bias, which becomes `value`. */
static void set_logits(layerops_context *ctx, layerops_network *net, int64_t row, float value) {
  static const float zeros[64];
  for (int64_t i = 0; i < 2; i++) {
    layerops_matrix w, bias;
    layerops_network_layer(net, i, &w, &bias);
    for (int64_t r = 0; r < w.rows; r++)
      layerops_buffer_write_at(ctx, w.buffer, (w.offset + r * w.stride) * 4, zeros, w.cols * 4);
    layerops_buffer_write_at(ctx, bias.buffer, bias.offset * 4, zeros, bias.cols * 4);
    if (i) layerops_buffer_write_at(ctx, bias.buffer, (bias.offset + row) * 4, &value, 4);
  }
}

/* Whose logit is the largest: the first of equals, and NaN before all others, as on the plain path.
 */
static void largest(layerops_context *ctx, int64_t row, float value, int64_t answer) {
  const shape s = {{6, 5, 4}, 8, 8, LAYEROPS_RELU, 1};
  samples d = make_samples(&s, 4);
  double expected = 0;
  for (int i = 0; i < 8; i++) expected += d.labels[i] == answer ? 1.0 / 8 : 0;
  layerops_network *fused = create(ctx, &s), *plain = create(ctx, &s);
  layerops_network_train_args args = training(&s, &d);
  layerops_network_result a = {0}, b = {0};
  set_logits(ctx, fused, row, value);
  set_logits(ctx, plain, row, value);
  const int good = !layerops_network_train(fused, &args, &a) && train_plainly(ctx, plain, args, &b);
  ok(good && expected > 0 && a.accuracy == expected && b.accuracy == expected,
     "a logit of %g: accuracy %g and %g", value, a.accuracy, b.accuracy);
  /* The sum of 4 exponentials within 1 ulp, its logarithm, a mean: each rounded. */
  ok(isnan(value) ? isnan(a.loss) && isnan(b.loss) : fabs(a.loss - b.loss) <= 8 * FLT_EPSILON,
     "loss %.9g and %.9g", a.loss, b.loss);
  layerops_network_destroy(fused);
  layerops_network_destroy(plain);
  free_samples(&d);
}

static int32_t stop_at_2(void *user, int64_t step, int64_t steps) {
  (void)steps;
  ++*(int *)user;
  return step == 2;
}

/* Interrupted and resumed: the weights of a whole number of steps, and then as if nothing had been.
 */
static void stops(layerops_context *ctx) {
  const shape s = {{37, 19, 5}, 61, 8, LAYEROPS_RELU, 0};
  samples d = make_samples(&s, 5);
  layerops_network *a = create(ctx, &s), *b = create(ctx, &s);
  layerops_network_train_args args = training(&s, &d);
  layerops_network_result result = {0};
  int calls = 0;
  ok(!layerops_network_train(a, &args, NULL), "an epoch");
  args.progress = stop_at_2;
  args.progress_user = &calls;
  ok(!layerops_network_train(b, &args, &result) && result.stopped, "an epoch that stops");
  is_int(calls, 2, "progress is called after each step");
  is_int(result.steps, 2, "steps");
  is_int(result.samples, 16, "samples");
  args.progress = NULL;
  ok(!layerops_network_train(b, &args, &result) && result.steps == 6, "its rest");
  ok(same_parameters(ctx, a, b), "the same weights");
  layerops_network_destroy(a);
  layerops_network_destroy(b);
  free_samples(&d);
}

/* Each is told, and then done plainly. */
static void refuses(layerops_context *ctx) {
  static small_data data;
  make_small_data(&data);
  layerops_network_train_args args[5];
  static const char *const reasons[] = {"the optimizer is not SGD", "momentum is not 0",
                                        "weight_decay is not 0", "targets are probabilities",
                                        "the loss is not cross-entropy"};
  for (int i = 0; i < 5; i++) args[i] = small_training(&data, i == 4 ? LAYEROPS_LOSS_MSE : 0);
  args[0].optimizer = LAYEROPS_OPTIMIZER_ADAM;
  args[1].momentum = layerops_value(0.9);
  args[2].weight_decay = layerops_value(0.01);
  args[3].targets = layerops_host_matrix(data.targets, LAYEROPS_F32, SAMPLES, OUTPUTS);
  args[3].labels = (layerops_matrix){0};
  for (int i = 0; i < 5; i++) {
    layerops_network *net =
        small_network(ctx, LAYEROPS_TANH, i == 4 ? LAYEROPS_LOSS_MSE : LAYEROPS_LOSS_CROSS_ENTROPY);
    said[0] = 0;
    fine(layerops_network_train(net, &args[i], NULL), reasons[i]);
    contains(said, reasons[i], "the reason is told");
    ok(!strstr(said, "kernel=epoch samples="), "not taken");
    layerops_network_destroy(net);
  }
}

int main(void) {
  setenv("LAYEROPS_VERBOSE", "2", 1);
  on_isa("portable");
  on_isa("avx2");
  on_isa("avx512");
  on_isa("neon");
  unsetenv("LAYEROPS_CPU_ISA");
  layerops_context *ctx = open_cpu(NULL, 0);
  if (ok(ctx != NULL, "the cpu opens")) {
    largest(ctx, 0, 0.0f, 0);
    largest(ctx, 2, 0.0f, 0);
    largest(ctx, 2, 1.0f, 2);
    largest(ctx, 2, -1.0f, 0);
    largest(ctx, 2, NAN, 2);
    stops(ctx);
    refuses(ctx);
    layerops_close(ctx);
  }
  return done();
}
