/* The network that PyTorch trained too (t/pytorch/train_reference.py): 784-128-10, ReLU,
 * cross-entropy, SGD 0.1, batches of 64, seed 1, on the bundled subset. */
#include <config.h>

#include <math.h>

#include "t/devices.h"
#include "t/network.h"
#include "t/npy.h"
#include "tools/dataset.h"

enum { FEATURES = 784, HIDDEN = 128, CLASSES = 10, STEPS = 100, EPOCH_STEPS = 63, FULL_BATCH = 64 };

static struct dataset data;
static npy double_losses, single_losses, order;

static layerops_network *create(layerops_context *ctx, int64_t hidden) {
  const int64_t widths[] = {FEATURES, hidden, CLASSES};
  layerops_network_args args = {
      .widths = widths, .count = 3, .activation = LAYEROPS_RELU, .seed = 1};
  layerops_network *net = NULL;
  if (layerops_network_create(ctx, &args, &net)) diag("create: %s", layerops_last_error());
  return net;
}

/* First, middle and last row of the weights, and all of the bias. */
static int same_layer(layerops_context *ctx, layerops_network *net, int64_t layer) {
  layerops_matrix w, bias;
  char name[32];
  snprintf(name, sizeof name, "train_weight%d_rows", (int)layer);
  npy rows = npy_load(name);
  snprintf(name, sizeof name, "train_bias%d", (int)layer);
  npy want_bias = npy_load(name);
  int same = 0;
  if (rows.data && want_bias.data && !layerops_network_layer(net, layer, &w, &bias)) {
    const int64_t index[] = {0, w.rows / 2, w.rows - 1};
    size_t size = (size_t)w.cols * sizeof(float);
    float *got = malloc(size > 4096 ? size : 4096);
    same = rows.count == 3 * w.cols && want_bias.count == bias.cols;
    for (int i = 0; i < 3 && same; i++)
      same = !layerops_buffer_read_at(ctx, w.buffer, (w.offset + index[i] * w.stride) * 4, got,
                                      (int64_t)size) &&
             !memcmp(got, npy_f32(&rows) + i * w.cols, size);
    same = same &&
           !layerops_buffer_read_at(ctx, bias.buffer, bias.offset * 4, got, bias.cols * 4) &&
           !memcmp(got, want_bias.data, (size_t)bias.cols * 4);
    free(got);
  }
  npy_free(&rows);
  npy_free(&want_bias);
  return same;
}

static layerops_network_train_args training(void) {
  layerops_network_train_args args = {
      .x = layerops_host_matrix(data.train.x, LAYEROPS_F32, data.train.count, FEATURES),
      .labels = layerops_host_matrix(data.train.labels, LAYEROPS_I32, 1, data.train.count),
      .batch = FULL_BATCH,
      .lr = layerops_value(0.1)};
  return args;
}

static int32_t stop_at(void *user, int64_t step, int64_t steps) {
  (void)steps;
  return step == *(int64_t *)user;
}

/* How far an f32 implementation may be from the float64 losses, relatively. PyTorch's own f32 run
 * tells what rounding does in this training, where it sums 784 products in blocks (at best with the
 * error of one rounding); a plain sum in sequence has the error of a random walk of 784 roundings,
 * sqrt(784) = 28 times as much. The loss itself is stored with an error of 2^-24. */
static double loss_bound(void) {
  double most = 0;
  for (int i = 0; i < STEPS; i++)
    most = fmax(most, fabs(npy_f64(&single_losses)[i] / npy_f64(&double_losses)[i] - 1));
  return 28 * most + 0x1p-24;
}

static void hundred_losses(layerops_context *ctx, const char *device) {
  layerops_network *net = create(ctx, HIDDEN);
  layerops_network_train_args args = training();
  float losses[2 * EPOCH_STEPS];
  int64_t stop = STEPS - EPOCH_STEPS;
  args.losses = losses;
  args.losses_capacity = EPOCH_STEPS;
  ok(same_layer(ctx, net, 0) && same_layer(ctx, net, 1), "%s: initial weights, bit by bit", device);
  int good = !layerops_network_train(net, &args, NULL);
  args.losses += EPOCH_STEPS;
  args.progress = stop_at;
  args.progress_user = &stop;
  good = good && !layerops_network_train(net, &args, NULL);
  if (!good) diag("%s", layerops_last_error());
  double worst = good ? 0 : INFINITY, bound = loss_bound();
  int at = 0;
  for (int i = 0; i < STEPS && good; i++) {
    double error = fabs(losses[i] / npy_f64(&double_losses)[i] - 1);
    if (error <= worst) continue;
    worst = isnan(error) ? INFINITY : error;
    at = i;
  }
  if (!ok(worst <= bound, "%s: the losses of 100 steps are PyTorch's", device))
    diag("step %d: got %.9g, want %.9g", at, good ? losses[at] : NAN, npy_f64(&double_losses)[at]);
  diag("%s: largest relative error %.2g, bound %.2g", device, worst, bound);
  layerops_network_destroy(net);
}

/* Samples that were put in the epoch's order beforehand, and trained in their order. */
static void permuted(layerops_context *ctx, const char *device) {
  layerops_network *a = create(ctx, 4), *b = create(ctx, 4);
  layerops_network_train_args shuffled = training(), kept = shuffled;
  int64_t n = data.train.count;
  float *x = malloc((size_t)n * FEATURES * sizeof *x);
  int32_t *labels = malloc((size_t)n * sizeof *labels);
  for (int64_t i = 0; i < n; i++) {
    int64_t from = npy_i32(&order)[i];
    memcpy(x + i * FEATURES, data.train.x + from * FEATURES, FEATURES * sizeof *x);
    labels[i] = data.train.labels[from];
  }
  kept.keep_order = 1;
  kept.x.host = x;
  kept.labels.host = labels;
  ok(!layerops_network_train(a, &shuffled, NULL) && !layerops_network_train(b, &kept, NULL) &&
         same_parameters(ctx, a, b),
     "%s: the order of samples is that of train_order.npy", device);
  free(x);
  free(labels);
  layerops_network_destroy(a);
  layerops_network_destroy(b);
}

static void on_device(layerops_context *ctx, const char *device) {
  layerops_network *net = create(ctx, 4);
  layerops_network_destroy(net);
  if (!ok(net != NULL, "%s: a network can be made", device)) return;
  hundred_losses(ctx, device);
  permuted(ctx, device);
}

int main(void) {
  char path[4096];
  const char *source = getenv("top_srcdir");
  snprintf(path, sizeof path, "%s/data/fashion-mnist-subset", source ? source : ".");
  double_losses = npy_load("train_losses_f64");
  single_losses = npy_load("train_losses_f32");
  order = npy_load("train_order");
  if (!ok(!dataset_load(&data, path, NULL), "the bundled subset can be read"))
    diag("%s", data.error);
  else if (ok(npy_f64(&double_losses) && double_losses.count == STEPS && npy_f64(&single_losses) &&
                  single_losses.count == STEPS && npy_i32(&order) &&
                  order.shape[1] == data.train.count,
              "the reference values can be read"))
    on_each_device(on_device);
  npy_free(&double_losses);
  npy_free(&single_losses);
  npy_free(&order);
  dataset_free(&data);
  return done();
}
