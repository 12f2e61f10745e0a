/* Networks on every device found: against the reference, and against what the header promises. */
#include <config.h>

#include "t/devices.h"
#include "t/is.h"
#include "t/network.h"
#include "t/scratch.h"

static small_data data;

typedef struct method {
  const char *name;
  int32_t optimizer;
  double lr, momentum, weight_decay, epsilon; /* 0: unset */
} method;

/* Adam with its usual epsilon divides a gradient by its own size, so that rounding decides where
 * the gradient is nearly 0. With 0.1 it is as smooth as the others. */
static const method methods[] = {
    {"sgd", LAYEROPS_OPTIMIZER_SGD, 0.1, 0, 0, 0},
    {"sgd with momentum and decay", LAYEROPS_OPTIMIZER_SGD, 0.05, 0.9, 0.01, 0},
    {"adam", LAYEROPS_OPTIMIZER_ADAM, 0.01, 0, 0.01, 0.1},
    {"adamw", LAYEROPS_OPTIMIZER_ADAMW, 0.01, 0, 0.01, 0.1},
};
enum { METHODS = sizeof methods / sizeof *methods };

static layerops_network_train_args training(const method *m, int32_t loss) {
  layerops_network_train_args args = small_training(&data, loss);
  args.optimizer = m->optimizer;
  args.lr = layerops_value(m->lr);
  if (m->momentum > 0) args.momentum = layerops_value(m->momentum);
  if (m->weight_decay > 0) args.weight_decay = layerops_value(m->weight_decay);
  if (m->epsilon > 0) args.epsilon = layerops_value(m->epsilon);
  return args;
}

static layerops_status train(layerops_network *net, const layerops_network_train_args *args,
                             int epochs) {
  layerops_status status = LAYEROPS_OK;
  for (int i = 0; i < epochs && !status; i++) status = layerops_network_train(net, args, NULL);
  if (status) diag("%s: %s", layerops_status_name(status), layerops_last_error());
  return status;
}

/* ---- Against the reference ----
 * 15 steps (3 epochs of 5). In each a parameter takes at most lr |g| c u + u |w| of error, with u =
 * 2^-24, |w| < 1, |g| < 1 (times 10 for the velocity of momentum 0.9, whose lr is half), and c the
 * roundings on the longest path to a gradient: 3 layers forward and back with sums of at most 8
 * terms, 10 for an activation: 2 * 3 * (8 + 10) = 108. That is at most (0.05 * 10 * 108 + 1) u = 55
 * u a step. An error grows by at most 1 + lr L a step, L the curvature, below 5 here: (1 + 0.1 *
 * 5)^15 if it always met the steepest direction; what is added at step i has grown 15 - i times, so
 * that all together 55 u * (1.5^15 - 1) / 0.5 = 4.8e4 u = 2.9e-3. A slip (a dropped row, a missing
 * bias gradient, a wrong derivative) moves parameters by lr |g| a step, 1e-2 and more. */
#define REFERENCE_BOUND 2.9e-3

static void against_reference(layerops_context *ctx, layerops_context *reference,
                              const char *device, layerops_activation activation, int32_t loss,
                              const method *m) {
  layerops_network *a = small_network(ctx, activation, loss);
  layerops_network *b = small_network(reference, activation, loss);
  layerops_network_train_args args = training(m, loss);
  layerops_status status = train(a, &args, 3);
  if (!status) status = train(b, &args, 3);
  double distance = status ? INFINITY : farthest(ctx, a, reference, b);
  if (!ok(distance <= REFERENCE_BOUND, "%s: %s, %s, %s trains as the reference", device,
          layerops_activation_name(activation), loss ? "mse" : "cross-entropy", m->name))
    diag("distance %g, bound %g", distance, REFERENCE_BOUND);
  layerops_network_destroy(a);
  layerops_network_destroy(b);
}

static void all_against_reference(layerops_context *ctx, const char *device) {
  layerops_context *reference = NULL;
  if (!fine(layerops_open("reference", &reference), "reference opens")) return;
  for (layerops_activation a = 0; a < LAYEROPS_ACTIVATION_COUNT; a++)
    for (int32_t loss = 0; loss < 2; loss++)
      against_reference(ctx, reference, device, a, loss, &methods[0]);
  for (int i = 1; i < METHODS; i++)
    against_reference(ctx, reference, device, LAYEROPS_TANH, 0, &methods[i]);
  layerops_close(reference);
}

/* ---- Gradients against finite differences ----
 * One step of SGD over all samples with lr 1 leaves w' = w - g. The loss at w + h and w - h gives g
 * up to h^2 f'''/6, and with half of h once more: Richardson's (4 D(h/2) - D(h)) / 3 has an error
 * of order h^4, some 1e-6 for h = 2^-4 and smooth activations, for f''''' of order 1. Rounding: the
 * loss is a mean of f32 values below 2, each known to about 20 u (u = 2^-24), which gives 20 u * 2
 * / h = 4e-5 in D(h/2) and 4/3 of that in the result; the step itself rounds to u. */
#define DIFFERENCE_BOUND 1e-4

static double loss_at(layerops_context *ctx, layerops_network *net, const layerops_matrix *view,
                      int64_t i, float value) {
  layerops_network_result result = {.loss = NAN};
  layerops_network_evaluate_args args = {
      .x = layerops_host_matrix(data.x, LAYEROPS_F32, SAMPLES, INPUTS),
      .labels = layerops_host_matrix(data.labels, LAYEROPS_I32, 1, SAMPLES),
      .batch = SAMPLES};
  layerops_buffer_write_at(ctx, view->buffer, (view->offset + i) * 4, &value, 4);
  layerops_network_evaluate(net, &args, &result);
  return result.loss;
}

static double difference(layerops_context *ctx, layerops_network *net, const layerops_matrix *view,
                         int64_t i, float w, float h) {
  float up = w + h, down = w - h;
  return (loss_at(ctx, net, view, i, up) - loss_at(ctx, net, view, i, down)) /
         ((double)up - (double)down);
}

static void gradients(layerops_context *ctx, const char *device, layerops_activation activation) {
  layerops_network *before = small_network(ctx, activation, 0);
  layerops_network *after = small_network(ctx, activation, 0);
  layerops_network_train_args args = small_training(&data, 0);
  double worst = 0;
  args.batch = SAMPLES;
  args.lr = layerops_value(1);
  if (train(after, &args, 1)) worst = INFINITY;
  for (int64_t l = 0; l < 3; l++) {
    layerops_matrix old[2], new[2];
    layerops_network_layer(before, l, &old[0], &old[1]);
    layerops_network_layer(after, l, &new[0], &new[1]);
    for (int k = 0; k < 2; k++)
      for (int64_t i = 0; i < old[k].rows * old[k].cols; i++) {
        float w, moved, h = 0x1p-4f;
        layerops_buffer_read_at(ctx, old[k].buffer, (old[k].offset + i) * 4, &w, 4);
        layerops_buffer_read_at(ctx, new[k].buffer, (new[k].offset + i) * 4, &moved, 4);
        double whole = difference(ctx, before, &old[k], i, w, h);
        double half = difference(ctx, before, &old[k], i, w, h / 2);
        loss_at(ctx, before, &old[k], i, w); /* puts it back */
        double error = fabs((4 * half - whole) / 3 - ((double)w - moved));
        if (!(error <= worst)) worst = isnan(error) ? INFINITY : error;
      }
  }
  if (!ok(worst <= DIFFERENCE_BOUND, "%s: %s: gradients agree with finite differences", device,
          layerops_activation_name(activation)))
    diag("largest error %g, bound %g", worst, DIFFERENCE_BOUND);
  layerops_network_destroy(before);
  layerops_network_destroy(after);
}

/* ---- Two optimizer steps by hand, in double ----
 * The gradient is what a step of SGD with lr 1 takes away, from a copy of the network: known to u =
 * 2^-24. The step itself rounds w and the state a few times, which moves w < 1 by some u: 8 u all
 * together. (7 + 6 + 3 outputs: 111 parameters.) */
#define BY_HAND_BOUND (8 * 0x1p-24)

typedef struct hand {
  double w, m, v;
} hand;

static void step_by_hand(const method *k, int t, double g, hand *h) {
  if (k->optimizer == LAYEROPS_OPTIMIZER_SGD) {
    h->v = k->momentum * h->v + g + k->weight_decay * h->w;
    h->w -= k->lr * h->v;
    return;
  }
  if (k->optimizer == LAYEROPS_OPTIMIZER_ADAM)
    g += k->weight_decay * h->w;
  else
    h->w -= k->lr * k->weight_decay * h->w;
  h->m = 0.9 * h->m + 0.1 * g;
  h->v = 0.999 * h->v + 0.001 * g * g;
  h->w -= k->lr * h->m / (1 - pow(0.9, t)) / (sqrt(h->v / (1 - pow(0.999, t))) + k->epsilon);
}

/* The parameters of a copy of the network after one step with lr 1. */
static float *after_unit_step(layerops_context *ctx, layerops_network *net,
                              layerops_network_train_args args) {
  const char *path = scratch_path("copy.safetensors");
  layerops_network *copy = NULL;
  layerops_network_train_args unit = small_training(&data, 0);
  int64_t n;
  unit.batch = args.batch;
  unit.keep_order = 1;
  unit.lr = layerops_value(1);
  float *parameters = NULL;
  if (!layerops_network_save(net, path) && !layerops_network_load(ctx, path, &copy) &&
      !train(copy, &unit, 1))
    parameters = read_parameters(ctx, copy, &n);
  layerops_network_destroy(copy);
  return parameters;
}

static void by_hand(layerops_context *ctx, const char *device, const method *k) {
  layerops_network *net = small_network(ctx, LAYEROPS_TANH, 0);
  layerops_network_train_args args = training(k, 0);
  hand h[128] = {{0}};
  double worst = 0;
  int64_t n = 0;
  args.batch = SAMPLES;
  args.keep_order = 1;
  for (int t = 1; t <= 2; t++) {
    float *w = read_parameters(ctx, net, &n), *moved = after_unit_step(ctx, net, args), *got = NULL;
    if (n <= 128 && moved && !train(net, &args, 1)) got = read_parameters(ctx, net, &n);
    if (!got) worst = INFINITY;
    for (int64_t i = 0; got && i < n; i++) {
      if (t == 1) h[i].w = w[i];
      step_by_hand(k, t, (double)w[i] - moved[i], &h[i]);
      double error = fabs(h[i].w - got[i]);
      if (!(error <= worst)) worst = isnan(error) ? INFINITY : error;
    }
    free(w);
    free(moved);
    free(got);
  }
  if (!ok(worst <= BY_HAND_BOUND, "%s: %s: two steps as by hand", device, k->name))
    diag("largest error %g, bound %g", worst, BY_HAND_BOUND);
  layerops_network_destroy(net);
}

/* ---- Bits ---- */

static void repeats(layerops_context *ctx, const char *device) {
  layerops_network *a = small_network(ctx, LAYEROPS_GELU, 0);
  layerops_network *b = small_network(ctx, LAYEROPS_GELU, 0);
  layerops_network_train_args args = training(&methods[1], 0);
  int good = !train(a, &args, 3) && !train(b, &args, 3);
  ok(good && same_parameters(ctx, a, b), "%s: the same training gives the same bits", device);
  layerops_network_destroy(a);
  layerops_network_destroy(b);
}

static void host_and_device(layerops_context *ctx, const char *device) {
  layerops_network *a = small_network(ctx, LAYEROPS_RELU, 1);
  layerops_network *b = small_network(ctx, LAYEROPS_RELU, 1);
  layerops_network_train_args host = training(&methods[0], 1), buffers = host;
  layerops_buffer *x = NULL, *labels = NULL, *targets = NULL;
  int good = !layerops_buffer_from(ctx, data.x, sizeof data.x, &x) &&
             !layerops_buffer_from(ctx, data.labels, sizeof data.labels, &labels) &&
             !layerops_buffer_from(ctx, data.targets, sizeof data.targets, &targets);
  buffers.x = layerops_matrix_f32(x, SAMPLES, INPUTS);
  buffers.labels = layerops_vector_i32(labels, SAMPLES);
  buffers.targets = layerops_matrix_f32(targets, SAMPLES, OUTPUTS);
  good = good && !train(a, &host, 2) && !train(b, &buffers, 2);
  ok(good && same_parameters(ctx, a, b), "%s: host memory and buffers give the same bits", device);
  layerops_buffer_destroy(x);
  layerops_buffer_destroy(labels);
  layerops_buffer_destroy(targets);
  layerops_network_destroy(a);
  layerops_network_destroy(b);
}

/* A network that was saved after `before` epochs, loaded, and trained for the rest. */
static void resumes(layerops_context *ctx, const char *device, const method *m) {
  layerops_network *whole = small_network(ctx, LAYEROPS_SILU, 0);
  layerops_network *first = small_network(ctx, LAYEROPS_SILU, 0), *second = NULL;
  layerops_network_train_args args = training(m, 0);
  layerops_network_info info = {0};
  const char *path = scratch_path("resume.safetensors");
  int good = !train(whole, &args, 4) && !train(first, &args, 2) &&
             !layerops_network_save(first, path) && !layerops_network_load(ctx, path, &second);
  if (!good) diag("%s", layerops_last_error());
  ok(good && same_parameters(ctx, first, second), "%s: %s: loaded as saved", device, m->name);
  ok(good && !layerops_network_get_info(second, &info) && info.epochs == 2 && info.steps == 10 &&
         info.seed == 7 && info.activation == LAYEROPS_SILU && info.position == 0,
     "%s: %s: with its counters", device, m->name);
  ok(good && !train(second, &args, 2) && same_parameters(ctx, whole, second),
     "%s: %s: resumed training equals an uninterrupted one", device, m->name);
  layerops_network_destroy(whole);
  layerops_network_destroy(first);
  layerops_network_destroy(second);
}

static int32_t stop_at(void *user, int64_t step, int64_t steps) {
  (void)steps;
  return step == *(int64_t *)user;
}

/* An epoch that progress ended after three steps. */
static void goes_on(layerops_context *ctx, const char *device) {
  layerops_network *whole = small_network(ctx, LAYEROPS_RELU, 0);
  layerops_network *part = small_network(ctx, LAYEROPS_RELU, 0), *rest = NULL;
  layerops_network_train_args args = training(&methods[1], 0), stopped = args;
  layerops_network_result result = {0}, last = {0};
  layerops_network_info info = {0};
  const char *path = scratch_path("part.safetensors");
  int64_t stop = 3;
  stopped.progress = stop_at;
  stopped.progress_user = &stop;
  int good = !train(whole, &args, 2) && !layerops_network_train(part, &stopped, &result) &&
             !layerops_network_save(part, path) && !layerops_network_load(ctx, path, &rest) &&
             !layerops_network_get_info(rest, &info);
  if (!good) diag("%s", layerops_last_error());
  ok(good && result.stopped && result.steps == 3 && result.samples == 3 * BATCH && !info.epochs &&
         info.position == 3 * BATCH && info.steps == 3,
     "%s: progress ends an epoch", device);
  good = good && !layerops_network_train(rest, &args, &last) && !train(rest, &args, 1);
  ok(good && last.samples == SAMPLES - 3 * BATCH && last.steps == 2 && !last.stopped,
     "%s: which goes on where it stood", device);
  ok(good && same_parameters(ctx, whole, rest), "%s: to the same bits", device);
  layerops_network_destroy(whole);
  layerops_network_destroy(part);
  layerops_network_destroy(rest);
}

static void saves_the_same(layerops_context *ctx, const char *device) {
  layerops_network *net = small_network(ctx, LAYEROPS_LEAKY_RELU, 1), *again = NULL;
  size_t m = 0, n = 0;
  int good = !layerops_network_save(net, scratch_path("a")) &&
             !layerops_network_load(ctx, scratch_path("a"), &again) &&
             !layerops_network_save(again, scratch_path("b"));
  unsigned char *a = scratch_read("a", &m), *b = scratch_read("b", &n);
  ok(good && a && b && m == n && !memcmp(a, b, n), "%s: saved, loaded, saved: the same file",
     device);
  free(a);
  free(b);
  layerops_network_destroy(net);
  layerops_network_destroy(again);
}

/* ---- Evaluation and prediction ---- */

static void predicts(layerops_context *ctx, const char *device) {
  layerops_network *net = small_network(ctx, LAYEROPS_TANH, 0);
  layerops_network_train_args args = training(&methods[0], 0);
  layerops_network_evaluate_args ask = {.x = args.x, .labels = args.labels, .batch = 10};
  layerops_network_result result = {0};
  float y[SAMPLES * OUTPUTS] = {0};
  layerops_matrix view = layerops_host_matrix(y, LAYEROPS_F32, SAMPLES, OUTPUTS);
  int good = !train(net, &args, 5) && !layerops_network_evaluate(net, &ask, &result) &&
             !layerops_network_predict(net, &args.x, &view);
  if (!good) diag("%s", layerops_last_error());
  double loss = 0, off = 0;
  int right = 0;
  for (int i = 0; i < SAMPLES; i++) {
    const float *row = y + i * OUTPUTS;
    int best = 0;
    for (int j = 1; j < OUTPUTS; j++)
      if (row[j] > row[best]) best = j;
    right += best == data.labels[i];
    loss -= log(row[data.labels[i]]) / SAMPLES;
    off = fmax(off, fabs((double)row[0] + row[1] + row[2] - 1));
  }
  /* Three roundings of a sum near 1, and of each term before it; the loss is the mean of logarithms
   * of such terms, each known to some 10 u. */
  ok(good && off <= 8 * 0x1p-24, "%s: probabilities add up to 1", device);
  ok(good && fabs(loss - result.loss) <= 32 * 0x1p-24, "%s: the loss is that of the probabilities",
     device);
  is_int((long long)round(result.accuracy * SAMPLES), right, "%s: the accuracy too", device);
  is_int(result.samples, SAMPLES, "%s: all samples are seen", device);
  is_int(result.steps, 4, "%s: in batches of 10", device);
  layerops_network_destroy(net);
}

/* With MSE: labels give the accuracy, targets the loss, both both. */
static void evaluates_mse(layerops_context *ctx, const char *device) {
  layerops_network *net = small_network(ctx, LAYEROPS_TANH, 1);
  layerops_network_train_args train_args = training(&methods[0], 1);
  layerops_network_evaluate_args labels = {.x = train_args.x, .labels = train_args.labels};
  layerops_network_evaluate_args targets = {.x = train_args.x, .targets = train_args.targets};
  layerops_network_result a = {0}, b = {0}, trained = {0};
  float y[SAMPLES * OUTPUTS] = {0};
  layerops_matrix view = layerops_host_matrix(y, LAYEROPS_F32, SAMPLES, OUTPUTS);
  int good = !layerops_network_evaluate(net, &labels, &a) &&
             !layerops_network_evaluate(net, &targets, &b) &&
             !layerops_network_predict(net, &train_args.x, &view);
  double loss = 0;
  for (int i = 0; i < SAMPLES * OUTPUTS; i++)
    loss += pow((double)y[i] - data.targets[i], 2) / (SAMPLES * OUTPUTS);
  ok(good && isnan(a.loss) && a.accuracy >= 0 && a.accuracy <= 1,
     "%s: mse: labels give the accuracy", device);
  ok(good && isnan(b.accuracy) && fabs(b.loss - loss) <= 200 * 0x1p-24 * loss,
     "%s: mse: targets give the loss", device);
  train_args.lr = layerops_value(0); /* so that each batch sees the same network */
  ok(!layerops_network_train(net, &train_args, &trained) && trained.accuracy == a.accuracy &&
         fabs(trained.loss - loss) <= 200 * 0x1p-24 * loss,
     "%s: mse: training tells both", device);
  layerops_network_destroy(net);
}

/* ---- Batches ---- */

static void batches(layerops_context *ctx, const char *device) {
  layerops_network *net = small_network(ctx, LAYEROPS_RELU, 0);
  layerops_network_train_args args = training(&methods[0], 0);
  layerops_network_result result = {0};
  float losses[6] = {-1, -1, -1, -1, -1, -1};
  args.losses = losses;
  args.losses_capacity = 5;
  fine(layerops_network_train(net, &args, &result), device);
  ok(result.steps == 5 && result.samples == SAMPLES, "%s: the incomplete last batch is trained",
     device);
  double mean = 0;
  for (int i = 0; i < 5; i++)
    mean += (double)losses[i] * (i < 4 ? BATCH : SAMPLES - 4 * BATCH) / SAMPLES;
  ok(fabs(mean - result.loss) < 1e-12 && losses[5] == -1, "%s: the loss is the mean of the losses",
     device);
  args.drop_last = 1;
  args.losses_capacity = 2;
  losses[2] = -1;
  fine(layerops_network_train(net, &args, &result), device);
  ok(result.steps == 4 && result.samples == 4 * BATCH && losses[2] == -1 && losses[1] != -1,
     "%s: or dropped; losses end at their capacity", device);
  args.batch = 1000;
  args.drop_last = 0;
  fine(layerops_network_train(net, &args, &result), device);
  ok(result.steps == 1 && result.samples == SAMPLES, "%s: a batch may exceed the samples", device);
  layerops_network_info info = {0};
  layerops_network_get_info(net, &info);
  ok(info.epochs == 3 && info.steps == 10, "%s: epochs and steps are counted", device);
  args.x.rows = args.labels.cols = 0;
  fine(layerops_network_train(net, &args, &result), device);
  ok(result.steps == 0 && isnan(result.loss) && isnan(result.accuracy), "%s: no samples, no steps",
     device);
  layerops_network_destroy(net);
}

/* Samples in their order equal samples of a view with stride and offset. */
static void strided(layerops_context *ctx, const char *device) {
  layerops_network *a = small_network(ctx, LAYEROPS_RELU, 0);
  layerops_network *b = small_network(ctx, LAYEROPS_RELU, 0);
  float wide[3 + SAMPLES * (INPUTS + 4)];
  for (size_t i = 0; i < sizeof wide / sizeof *wide; i++) wide[i] = NAN;
  for (int i = 0; i < SAMPLES; i++)
    memcpy(wide + 3 + i * (INPUTS + 4), data.x + i * INPUTS, INPUTS * sizeof(float));
  layerops_network_train_args tight = training(&methods[0], 0), loose;
  tight.keep_order = 1;
  loose = tight;
  loose.x = layerops_host_matrix(wide, LAYEROPS_F32, SAMPLES, INPUTS);
  loose.x.stride = INPUTS + 4;
  loose.x.offset = 3;
  ok(!train(a, &tight, 1) && !train(b, &loose, 1) && same_parameters(ctx, a, b),
     "%s: stride and offset of x, order kept", device);
  tight.keep_order = loose.keep_order = 0;
  ok(!train(a, &tight, 1) && !train(b, &loose, 1) && same_parameters(ctx, a, b),
     "%s: stride and offset of x, order changed", device);
  layerops_network_destroy(a);
  layerops_network_destroy(b);
}

/* A wrong label in a buffer: found before the first step where the device is the host, else at the
 * end. */
static void wrong_label(layerops_context *ctx, const char *device) {
  layerops_network *net = small_network(ctx, LAYEROPS_RELU, 0);
  layerops_network_train_args args = training(&methods[0], 0);
  layerops_network_info info = {0};
  layerops_network_result result = {0};
  layerops_buffer *labels = NULL;
  int32_t wrong[SAMPLES];
  memcpy(wrong, data.labels, sizeof wrong);
  wrong[20] = OUTPUTS;
  ok(!layerops_buffer_from(ctx, wrong, sizeof wrong, &labels), "%s: labels in a buffer", device);
  args.labels = layerops_vector_i32(labels, SAMPLES);
  is_int(layerops_network_train(net, &args, NULL), LAYEROPS_ERROR_LABEL, "%s: one is out of range",
         device);
  layerops_network_evaluate_args ask = {.x = args.x, .labels = args.labels};
  is_int(layerops_network_evaluate(net, &ask, &result), LAYEROPS_ERROR_LABEL,
         "%s: when evaluating too", device);
  ok(!layerops_network_get_info(net, &info) && info.epochs == 0 && info.position == 0,
     "%s: the epoch does not count", device);
  ok(!layerops_buffer_write(ctx, labels, data.labels, sizeof wrong) &&
         !layerops_network_train(net, &args, &result) && isfinite(result.loss) && result.steps == 5,
     "%s: training goes on with right labels", device);
  layerops_buffer_destroy(labels);
  layerops_network_destroy(net);
}

static void on_device(layerops_context *ctx, const char *device) {
  const layerops_activation smooth[] = {LAYEROPS_GELU,    LAYEROPS_GELU_TANH, LAYEROPS_SILU,
                                        LAYEROPS_SIGMOID, LAYEROPS_TANH,      LAYEROPS_IDENTITY};
  layerops_network *net = small_network(ctx, LAYEROPS_RELU, 0);
  layerops_network_destroy(net);
  if (!ok(net != NULL, "%s: a network can be made", device)) return;
  all_against_reference(ctx, device);
  for (size_t i = 0; i < sizeof smooth / sizeof *smooth; i++) gradients(ctx, device, smooth[i]);
  for (int i = 0; i < METHODS; i++) by_hand(ctx, device, &methods[i]);
  repeats(ctx, device);
  host_and_device(ctx, device);
  for (int i = 0; i < METHODS; i++) resumes(ctx, device, &methods[i]);
  goes_on(ctx, device);
  saves_the_same(ctx, device);
  predicts(ctx, device);
  evaluates_mse(ctx, device);
  batches(ctx, device);
  strided(ctx, device);
  wrong_label(ctx, device);
}

int main(void) {
  scratch_begin();
  make_small_data(&data);
  on_each_device(on_device);
  return done();
}
