/* What networks refuse, with which status and words, and what is left afterwards. On the CPU: what
 * is judged here is judged before any device. */
#include <config.h>

#include <sys/stat.h>

#include "t/is.h"
#include "t/network.h"
#include "t/scratch.h"

/* So that the address sanitizer too answers a request for too much memory with NULL. */
const char *__asan_default_options(void);
const char *__asan_default_options(void) {
  return "allocator_may_return_null=1";
}

static layerops_context *ctx;
static small_data data;

/* The call fails with this status, and its message has these words. */
static void fails(layerops_status got, layerops_status want, const char *words) {
  const char *text = layerops_last_error();
  if (!ok(got == want && strstr(text, words), "%s: %s", layerops_status_name(want), words))
    diag("got %s: %s", layerops_status_name(got), text);
}
#define INVALID(call, words) fails(call, LAYEROPS_ERROR_INVALID, words)

static void creating(void) {
  const layerops_network_args good = {.widths = small_widths, .count = 4};
  int64_t widths[1002] = {5, 0, 3};
  layerops_network *net = NULL;
  layerops_network_args args = good;
#define CREATE() layerops_network_create(ctx, &args, &net)
  INVALID(layerops_network_create(NULL, &args, &net), "network_create: context is NULL");
  INVALID(layerops_network_create(ctx, NULL, &net), "network_create: args is NULL");
  INVALID(layerops_network_create(ctx, &args, NULL), "network_create: network is NULL");
  args.widths = NULL;
  INVALID(CREATE(), "widths is NULL");
  args = good, args.count = 1;
  INVALID(CREATE(), "count is 1, but must lie in [2, 1001]");
  args.count = 1002;
  INVALID(CREATE(), "count is 1002");
  args = good, args.widths = widths, args.count = 3;
  INVALID(CREATE(), "widths[1] is 0, but must be positive");
  widths[1] = -1;
  INVALID(CREATE(), "widths[1] is -1");
  widths[1] = INT64_MAX;
  fails(CREATE(), LAYEROPS_ERROR_OVERFLOW, "9223372036854775807 x 5 elements are too many");
  widths[0] = widths[1] = (int64_t)1 << 23; /* 256 TiB, more than an address space */
  fails(CREATE(), LAYEROPS_ERROR_OUT_OF_MEMORY, "");
  args = good, args.activation = 8;
  INVALID(CREATE(), "activation is 8, but must be 0 to 7");
  args = good, args.loss = 2;
  INVALID(CREATE(), "loss is 2, but must be 0 to 1");
  args = good, args.slope = layerops_value(-0.5);
  INVALID(CREATE(), "slope is -0.5, but must lie in [0, 1e+30]");
  args = good;
  ok(net == NULL, "no network after a failure");
  struct {
    layerops_network_args known;
    char more[8];
  } newer = {.known = good, .more = {1}};
  fails(layerops_network_create_(ctx, &newer.known, sizeof newer, &net), LAYEROPS_ERROR_UNSUPPORTED,
        "which this version");
  newer.more[0] = 0;
  ok(!layerops_network_create_(ctx, &newer.known, sizeof newer, &net) && net,
     "a longer struct whose tail is zero is taken");
  layerops_network_destroy(net);
  layerops_network_destroy(NULL);
}

static void asking(layerops_network *net) {
  layerops_network_info info;
  layerops_matrix w, bias;
  INVALID(layerops_network_get_info(NULL, &info), "network_get_info: network is NULL");
  INVALID(layerops_network_get_info(net, NULL), "network_get_info: info is NULL");
  INVALID(layerops_network_layer(NULL, 0, &w, &bias), "network_layer: network is NULL");
  INVALID(layerops_network_layer(net, 3, &w, &bias), "i is 3, but must lie in [0, 3)");
  INVALID(layerops_network_layer(net, -1, &w, &bias), "i is -1");
  ok(!layerops_network_layer(net, 2, NULL, NULL), "a layer's views may be left out");
}

static void training(layerops_network *net, layerops_network *mse) {
  const layerops_network_train_args good = small_training(&data, 0);
  layerops_network_train_args args = good;
#define TRAIN() layerops_network_train(net, &args, NULL)
  INVALID(layerops_network_train(NULL, &args, NULL), "network_train: network is NULL");
  INVALID(layerops_network_train(net, NULL, NULL), "network_train: args is NULL");
  args.batch = 0;
  INVALID(TRAIN(), "network_train: batch is 0, but must be positive");
  args = good, args.x.cols = args.x.stride = 4;
  INVALID(TRAIN(), "x is 37 x 4, but must be 37 x 5");
  args = good, args.x.type = LAYEROPS_F16;
  fails(TRAIN(), LAYEROPS_ERROR_UNSUPPORTED, "x is f16 here; supported: f32");
  args = good, args.x = (layerops_matrix){0};
  INVALID(TRAIN(), "x is needed, but is absent");
  args = good, args.x.stride = 3;
  INVALID(TRAIN(), "x has stride 3, less than its cols 5");
  args = good, args.labels.cols = 36;
  INVALID(TRAIN(), "labels is 1 x 36, but must be 1 x 37");
  args = good, args.labels = (layerops_matrix){0};
  INVALID(TRAIN(), "labels and targets are both absent: give one");
  args = good, args.targets = layerops_host_matrix(data.targets, LAYEROPS_F32, SAMPLES, OUTPUTS);
  INVALID(TRAIN(), "labels and targets are both set: give one");
  args.labels = (layerops_matrix){0}, args.targets.cols = 2;
  INVALID(TRAIN(), "targets is 37 x 2, but must be 37 x 3");
  INVALID(layerops_network_train(mse, &good, NULL), "targets is needed for the mean squared error");
  args = good, args.lr = (layerops_scalar){0};
  INVALID(TRAIN(), "lr is needed for SGD, but is unset");
  args = good, args.optimizer = 3;
  INVALID(TRAIN(), "optimizer is 3, but must be 0 to 2");
  args = good, args.optimizer = LAYEROPS_OPTIMIZER_ADAM, args.momentum = layerops_value(0.9);
  INVALID(TRAIN(), "momentum is set, but only SGD has one");
  args = good, args.beta2 = layerops_value(0.9);
  INVALID(TRAIN(), "beta2 is set, but SGD has none");
  args = good, args.drop_last = 2;
  INVALID(TRAIN(), "drop_last is 2, but must be 0 to 1");
  args = good, args.keep_order = -1;
  INVALID(TRAIN(), "keep_order is -1");
  args = good, args.losses_capacity = -1;
  INVALID(TRAIN(), "losses_capacity is -1");
  args = good, args.lr.kind = 7;
  INVALID(TRAIN(), "lr has the unknown kind 7");
}

/* A wrong label is found before the first step: the network is as it was. */
static void labels(layerops_network *net) {
  layerops_network_train_args args = small_training(&data, 0);
  layerops_network_info info;
  int64_t n;
  float *before = read_parameters(ctx, net, &n);
  data.labels[30] = 3;
  fails(layerops_network_train(net, &args, NULL), LAYEROPS_ERROR_LABEL,
        "network_train: labels[30] is 3, but must lie in [0, 3)");
  data.labels[30] = -1;
  fails(layerops_network_train(net, &args, NULL), LAYEROPS_ERROR_LABEL, "labels[30] is -1");
  layerops_network_evaluate_args ask = {.x = args.x, .labels = args.labels};
  layerops_network_result result;
  fails(layerops_network_evaluate(net, &ask, &result), LAYEROPS_ERROR_LABEL,
        "network_evaluate: labels[30] is -1");
  data.labels[30] = 0;
  float *after = read_parameters(ctx, net, &n);
  ok(before && after && !memcmp(before, after, (size_t)n * sizeof *before) &&
         !layerops_network_get_info(net, &info) && !info.steps && !info.epochs,
     "after an error the network is as it was");
  free(before);
  free(after);
}

static void evaluating(layerops_network *net) {
  layerops_network_train_args t = small_training(&data, 0);
  const layerops_network_evaluate_args good = {.x = t.x, .labels = t.labels};
  layerops_network_evaluate_args args = good;
  layerops_network_result result;
#define EVALUATE() layerops_network_evaluate(net, &args, &result)
  INVALID(layerops_network_evaluate(NULL, &args, &result), "network_evaluate: network is NULL");
  INVALID(layerops_network_evaluate(net, NULL, &result), "network_evaluate: args is NULL");
  INVALID(layerops_network_evaluate(net, &args, NULL), "network_evaluate: result is NULL");
  args.batch = -1;
  INVALID(EVALUATE(), "batch is -1, but must not be negative");
  args = good, args.labels = (layerops_matrix){0};
  INVALID(EVALUATE(), "labels and targets are both absent: give one");
  args = good, args.targets = layerops_host_matrix(data.targets, LAYEROPS_F32, SAMPLES, OUTPUTS);
  INVALID(EVALUATE(), "labels and targets are both set: give one");
  args = good, args.x.batch = 2, args.x.batch_stride = SAMPLES * INPUTS;
  INVALID(EVALUATE(), "x has batch 2, but must have 1");
}

static void predicting(layerops_network *net) {
  float y[SAMPLES * OUTPUTS];
  layerops_matrix in = layerops_host_matrix(data.x, LAYEROPS_F32, SAMPLES, INPUTS);
  layerops_matrix out = layerops_host_matrix(y, LAYEROPS_F32, SAMPLES, OUTPUTS), bad = out;
  INVALID(layerops_network_predict(NULL, &in, &out), "network_predict: network is NULL");
  INVALID(layerops_network_predict(net, NULL, &out), "network_predict: x is NULL");
  INVALID(layerops_network_predict(net, &in, NULL), "network_predict: y is NULL");
  bad.rows = 36;
  INVALID(layerops_network_predict(net, &in, &bad), "y is 36 x 3, but must be 37 x 3");
  bad = out, bad.host = data.x;
  fails(layerops_network_predict(net, &in, &bad), LAYEROPS_ERROR_ALIAS, "y overlaps x");
}

static void recording(layerops_network *net) {
  layerops_network_train_args args = small_training(&data, 0);
  layerops_graph *graph = NULL;
  ok(!layerops_record_begin(ctx), "recording");
  fails(layerops_network_train(net, &args, NULL), LAYEROPS_ERROR_STATE,
        "network_train: not allowed while the context is recording");
  fails(layerops_network_save(net, scratch_path("x")), LAYEROPS_ERROR_STATE, "network_save");
  layerops_record_end(ctx, &graph);
  layerops_graph_destroy(graph);
}

/* ---- Files ---- */

static layerops_status load(const char *name) {
  layerops_network *net = NULL;
  layerops_status status = layerops_network_load(ctx, scratch_path(name), &net);
  layerops_network_destroy(net);
  return status;
}

/* A file like the one that was saved, with `from` in its header replaced by `to`, as long. */
static void refuses(const char *from, const char *to, const char *words) {
  size_t size, n = strlen(from);
  unsigned char *file = scratch_read("good", &size);
  unsigned char *at = file ? memmem(file, size, from, n) : NULL;
  if (!ok(at && n == strlen(to), "the file has %s", from)) {
    free(file);
    return;
  }
  memcpy(at, to, n);
  scratch_write("bad", file, size);
  free(file);
  fails(load("bad"), LAYEROPS_ERROR_FORMAT, words);
}

static void files(layerops_network *net) {
  layerops_network *none = NULL;
  INVALID(layerops_network_save(NULL, "x"), "network_save: network is NULL");
  INVALID(layerops_network_save(net, NULL), "network_save: path is NULL");
  INVALID(layerops_network_load(ctx, NULL, &none), "network_load: path is NULL");
  INVALID(layerops_network_load(ctx, "x", NULL), "network_load: network is NULL");
  INVALID(layerops_network_load(NULL, "x", &none), "network_load: context is NULL");
  fails(layerops_network_save(net, scratch_path("nowhere/net")), LAYEROPS_ERROR_IO, "nowhere/net");
  fails(load("nothing"), LAYEROPS_ERROR_IO, "nothing: cannot be opened");
  scratch_text("text", "not a network at all");
  fails(load("text"), LAYEROPS_ERROR_FORMAT, "text");
  fine(layerops_network_save(net, scratch_path("good")), "a network is saved");
  fine(load("good"), "and loaded");
  refuses("\"relu\"", "\"ruel\"", "metadata activation is \"ruel\", which is unknown");
  refuses("\"activation\"", "\"activatiom\"", "metadata activation is missing");
  refuses("\"cross-entropy\"", "\"cross-entrapy\"", "metadata loss is \"cross-entrapy\"");
  refuses("\"epochs\":\"0\"", "\"epochs\":\"x\"", "metadata epochs is \"x\", but must be 0 to");
  refuses("\"position\":\"0\"", "\"position\":\"9\"", "metadata position is 9, but samples is 0");
  refuses("\"slope\":\"0.01\"", "\"slope\":\"-0.1\"", "metadata slope is \"-0.1\"");
  refuses("\"seed\":\"7\"", "\"seed\":\"-\"", "metadata seed is \"-\"");
  refuses("\"optimizer\":\"none\"", "\"optimizer\":\"nine\"", "metadata optimizer is \"nine\"");
  refuses("layers.0.weight", "layers.9.weight", "layers.0.weight is missing");
  refuses("layers.2.weight", "layers.9.weight", "6 tensors, but a network of 2 layers");
  refuses("layers.1.bias", "layers.9.bias", "layers.1.bias is missing");
  refuses("[7,5]", "[5,7]", "layers.1.weight takes 7 inputs, but the layer before has 5 outputs");
  refuses("\"F32\",\"shape\":[7,5]", "\"I32\",\"shape\":[7,5]",
          "layers.0.weight is I32, but must be F32");
}

/* Every cut of a file is refused, and none of them crashes. */
static void truncated(void) {
  size_t size, wrong = 0;
  unsigned char *file = scratch_read("good", &size);
  for (size_t n = 0; n < size; n += n < 16 ? 1 : 13) {
    scratch_write("cut", file, n);
    wrong += load("cut") != LAYEROPS_ERROR_FORMAT;
  }
  is_int(wrong, 0, "every truncated file is refused");
  free(file);
}

/* ---- Memory ---- */

static int allocations;

static void *count_alloc(void *user, size_t bytes, size_t alignment) {
  (void)user;
  allocations++;
  return aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
}

static void count_release(void *user, void *pointer) {
  (void)user;
  free(pointer);
}

/* The second epoch allocates nothing. */
static void allocates_once(const char *device) {
  layerops_open_args open = {.device = device, .alloc = count_alloc, .release = count_release};
  layerops_context *own = NULL;
  layerops_network_train_args args = small_training(&data, 0);
  if (!fine(layerops_open_with(&open, &own), "a context with its own allocator")) return;
  layerops_network *net = small_network(own, LAYEROPS_GELU, 0);
  args.optimizer = LAYEROPS_OPTIMIZER_ADAM;
  int good = !layerops_network_train(net, &args, NULL), first = allocations;
  ok(good && first > 0, "%s: the first epoch allocates", device);
  good = good && !layerops_network_train(net, &args, NULL);
  ok(good && allocations == first, "%s: the second epoch allocates nothing", device);
  layerops_network_destroy(net);
  layerops_close(own);
}

int main(void) {
  scratch_begin();
  make_small_data(&data);
  if (!fine(layerops_open("reference", &ctx), "reference opens")) return done();
  layerops_network *net = small_network(ctx, LAYEROPS_RELU, 0);
  layerops_network *mse = small_network(ctx, LAYEROPS_RELU, 1);
  creating();
  asking(net);
  training(net, mse);
  labels(net);
  evaluating(net);
  predicting(net);
  recording(net);
  files(net);
  truncated();
  allocates_once("reference");
  allocates_once("cpu");
  layerops_network_destroy(net);
  layerops_network_destroy(mse);
  layerops_close(ctx);
  return done();
}
