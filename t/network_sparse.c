/* Block-sparse networks on every device found: against dense ones of which the same blocks are held
 * at 0, and against what the header promises. */
#include <config.h>

#include "t/devices.h"
#include "t/is.h"
#include "t/network.h"
#include "t/scratch.h"

enum { LAYERS = 3, LARGEST = 48 };

/* Sizes in whole blocks, and ragged ones, whose last layer is sparse too. */
typedef struct shape {
  const char *name;
  int64_t widths[LAYERS + 1];
  layerops_network_prune_args prune;
} shape;

static const shape shapes[] = {
    {"16 x 16", {32, 48, 32, 3}, {.block = 16, .density = 0.5}},
    {"ragged 8 x 16",
     {21, 19, 37, 3},
     {.count = LAYERS, .block = 8, .width = 16, .rule = LAYEROPS_BSR_ROW_DENSITY, .density = 0.5}},
};
enum { SHAPES = sizeof shapes / sizeof *shapes };

typedef struct method {
  const char *name;
  int32_t optimizer;
  double lr, momentum, weight_decay, epsilon; /* 0: unset */
} method;

static const method methods[] = {
    {"sgd", LAYEROPS_OPTIMIZER_SGD, 0.1, 0, 0, 0},
    {"sgd with momentum and decay", LAYEROPS_OPTIMIZER_SGD, 0.05, 0.9, 0.01, 0},
    {"adamw", LAYEROPS_OPTIMIZER_ADAMW, 0.01, 0, 0.01, 0.1},
};
enum { METHODS = sizeof methods / sizeof *methods };

static float x[SAMPLES * LARGEST];
static int32_t labels[SAMPLES];

static void make_data(void) {
  uint32_t state = 99;
  for (int i = 0; i < SAMPLES * LARGEST; i++) {
    state = state * 1664525u + 1013904223u;
    x[i] = (float)(int32_t)state * 0x1p-31f;
  }
  for (int i = 0; i < SAMPLES; i++) labels[i] = (x[i] > 0) + (x[i + SAMPLES] > 0.3f);
}

/* One step an epoch, over all samples, unless the caller changes it. */
static layerops_network_train_args training(const shape *s, const method *m) {
  layerops_network_train_args args = {
      .x = layerops_host_matrix(x, LAYEROPS_F32, SAMPLES, s->widths[0]),
      .labels = layerops_host_matrix(labels, LAYEROPS_I32, 1, SAMPLES),
      .batch = SAMPLES,
      .optimizer = m->optimizer,
      .keep_order = 1,
      .lr = layerops_value(m->lr)};
  if (m->momentum > 0) args.momentum = layerops_value(m->momentum);
  if (m->weight_decay > 0) args.weight_decay = layerops_value(m->weight_decay);
  if (m->epsilon > 0) args.epsilon = layerops_value(m->epsilon);
  return args;
}

static layerops_network *make_dense(layerops_context *ctx, const shape *s,
                                    layerops_activation activation) {
  layerops_network_args args = {
      .widths = s->widths, .count = LAYERS + 1, .activation = activation, .seed = 7};
  layerops_network *net = NULL;
  if (layerops_network_create(ctx, &args, &net)) diag("create: %s", layerops_last_error());
  return net;
}

static layerops_network *make_sparse(layerops_context *ctx, const shape *s,
                                     layerops_activation activation) {
  layerops_network *net = make_dense(ctx, s, activation);
  if (!net || !layerops_network_prune(net, &s->prune)) return net;
  diag("prune: %s", layerops_last_error());
  layerops_network_destroy(net);
  return NULL;
}

static const layerops_bsr *sparse_of(layerops_network *net, int64_t i) {
  const layerops_bsr *sparse = NULL;
  if (layerops_network_sparse(net, i, &sparse)) diag("%s", layerops_last_error());
  return sparse;
}

/* Layer i's W, dense, in memory for [LARGEST, LARGEST]. */
static int read_weights(layerops_context *ctx, layerops_network *net, const shape *s, int64_t i,
                        float *w) {
  const layerops_bsr *sparse = sparse_of(net, i);
  layerops_matrix own, to = layerops_host_matrix(w, LAYEROPS_F32, s->widths[i + 1], s->widths[i]);
  if (sparse) return !layerops_bsr_to_dense(ctx, sparse, to);
  return !layerops_network_layer(net, i, &own, NULL) &&
         !layerops_buffer_read_at(ctx, own.buffer, own.offset * 4, w, own.rows * own.cols * 4);
}

static int read_bias(layerops_context *ctx, layerops_network *net, int64_t i, float *bias) {
  layerops_matrix own;
  return !layerops_network_layer(net, i, NULL, &own) &&
         !layerops_buffer_read_at(ctx, own.buffer, own.offset * 4, bias, own.cols * 4);
}

/* What of a dense W the pattern leaves out becomes 0. */
static void apply_mask(const layerops_bsr *sparse, float *w) {
  layerops_bsr_info info;
  uint8_t mask[LARGEST * LARGEST];
  if (layerops_bsr_describe(sparse, &info) || layerops_bsr_to_mask(sparse, mask)) return;
  for (int64_t r = 0; r < info.rows; r++)
    for (int64_t c = 0; c < info.cols; c++)
      if (!mask[r / info.height * info.block_cols + c / info.width]) w[r * info.cols + c] = 0;
}

/* The blocks that `sparse` lacks are 0 in `dense` too. */
static int mask_dense(layerops_context *ctx, layerops_network *dense, layerops_network *sparse,
                      const shape *s) {
  float w[LARGEST * LARGEST];
  for (int64_t i = 0; i < LAYERS; i++) {
    layerops_matrix own;
    const layerops_bsr *pattern = sparse_of(sparse, i);
    if (!pattern) continue;
    if (!read_weights(ctx, dense, s, i, w) || layerops_network_layer(dense, i, &own, NULL))
      return 0;
    apply_mask(pattern, w);
    if (layerops_buffer_write_at(ctx, own.buffer, own.offset * 4, w, own.rows * own.cols * 4))
      return 0;
  }
  return 1;
}

/* The largest difference of all weights and biases. */
static double apart(layerops_context *ctx_a, layerops_network *a, layerops_context *ctx_b,
                    layerops_network *b, const shape *s) {
  float p[LARGEST * LARGEST], q[LARGEST * LARGEST], bias_p[LARGEST], bias_q[LARGEST];
  double most = 0;
  for (int64_t i = 0; i < LAYERS; i++) {
    if (!read_weights(ctx_a, a, s, i, p) || !read_weights(ctx_b, b, s, i, q) ||
        !read_bias(ctx_a, a, i, bias_p) || !read_bias(ctx_b, b, i, bias_q))
      return INFINITY;
    for (int64_t j = 0; j < s->widths[i + 1] * s->widths[i]; j++)
      most = fmax(most, isfinite(p[j]) ? fabs((double)p[j] - q[j]) : INFINITY);
    for (int64_t j = 0; j < s->widths[i + 1]; j++)
      most = fmax(most, isfinite(bias_p[j]) ? fabs((double)bias_p[j] - bias_q[j]) : INFINITY);
  }
  return most;
}

/* ---- Pruning ---- */

static void prunes(layerops_context *ctx, const char *device, const shape *s) {
  layerops_network *net = make_sparse(ctx, s, LAYEROPS_RELU);
  layerops_network *dense = make_dense(ctx, s, LAYEROPS_RELU);
  uint8_t want[LARGEST * LARGEST], got[LARGEST * LARGEST];
  const int64_t sparse_layers = s->prune.count ? s->prune.count : LAYERS - 1;
  for (int64_t i = 0; net && i < sparse_layers; i++) {
    const layerops_bsr *sparse = sparse_of(net, i);
    layerops_bsr_info info = {0};
    layerops_bsr_prune_args prune = {.block = s->prune.block,
                                     .width = s->prune.width,
                                     .rule = s->prune.rule,
                                     .density = s->prune.density,
                                     .mask = want};
    int good = sparse && !layerops_network_layer(dense, i, &prune.w, NULL) &&
               !layerops_bsr_prune(ctx, &prune) && !layerops_bsr_to_mask(sparse, got) &&
               !layerops_bsr_describe(sparse, &info);
    ok(good && !memcmp(want, got, (size_t)(info.block_rows * info.block_cols)) && info.count > 0 &&
           info.count < info.block_rows * info.block_cols,
       "%s: %s: layer %d keeps what bsr_prune does", device, s->name, (int)i);
  }
  for (int64_t i = sparse_layers; net && i < LAYERS; i++)
    ok(!sparse_of(net, i), "%s: %s: layer %d stays dense", device, s->name, (int)i);
  ok(net && mask_dense(ctx, dense, net, s) && apart(ctx, net, ctx, dense, s) == 0,
     "%s: %s: kept weights and biases are as they were, the rest is 0", device, s->name);
  layerops_network_destroy(net);
  layerops_network_destroy(dense);
}

/* Fewer blocks of a sparse network; then other blocks of one layer, and the others stay. */
static void prunes_again(layerops_context *ctx, const char *device) {
  const shape *s = &shapes[0];
  layerops_network *net = make_sparse(ctx, s, LAYEROPS_RELU);
  float before[2][LARGEST * LARGEST], after[LARGEST * LARGEST];
  layerops_network_prune_args again = s->prune;
  layerops_bsr_info info = {0};
  again.density = 0.25;
  int good = net && read_weights(ctx, net, s, 0, before[0]) &&
             !layerops_network_prune(net, &again) && read_weights(ctx, net, s, 0, after);
  int kept = 0, changed = 0;
  for (int i = 0; i < 48 * 32; i++) {
    kept += after[i] != 0;
    changed += after[i] != 0 && after[i] != before[0][i];
  }
  ok(good && !changed && kept == 2 * 16 * 16, "%s: a sparse network is pruned further", device);
  again = (layerops_network_prune_args){.first = 1, .count = 1, .block = 32, .width = 16};
  again.rule = LAYEROPS_BSR_N_OF_M, again.n = 1, again.m = 3;
  good = good && read_weights(ctx, net, s, 1, before[1]) && !layerops_network_prune(net, &again) &&
         read_weights(ctx, net, s, 0, before[0]);
  ok(good && !memcmp(before[0], after, 48 * 32 * sizeof *after),
     "%s: and a layer by itself, which leaves the others", device);
  good = good && read_weights(ctx, net, s, 1, after) &&
         !layerops_bsr_describe(sparse_of(net, 1), &info);
  is_int(info.count, 1, "%s: in other blocks", device);
  apply_mask(sparse_of(net, 1), before[1]);
  ok(good && !memcmp(before[1], after, 32 * 48 * sizeof *after), "%s: with their values", device);
  layerops_network_destroy(net);
}

/* Pruning between two epochs: counters go on, the optimizer's state does not. */
static void counts_on(layerops_context *ctx, const char *device) {
  const shape *s = &shapes[0];
  layerops_network *net = make_dense(ctx, s, LAYEROPS_RELU), *dense = NULL;
  layerops_network_train_args args = training(s, &methods[1]);
  layerops_network_info before = {0}, info = {0};
  args.batch = BATCH;
  int good = !layerops_network_train(net, &args, NULL) &&
             !layerops_network_get_info(net, &before) && !layerops_network_prune(net, &s->prune) &&
             !layerops_network_get_info(net, &info);
  ok(good && info.epochs == 1 && info.steps == 5 && info.seed == 7 && info.widths == before.widths,
     "%s: counters, seed and the view of the widths outlive pruning", device);
  good = good && !layerops_network_save(net, scratch_path("net")) &&
         !layerops_network_load(ctx, scratch_path("net"), &dense);
  ok(good, "%s: a network is saved whose optimizer has no state yet", device);
  layerops_network_destroy(net);
  layerops_network_destroy(dense);
}

/* ---- Against a dense network whose other blocks are held at 0 ----
 * 4 steps on the reference. With u = 2^-24, |w| < 1, |g| < 1 a step adds at most lr |g| c u + u of
 * error, c the roundings on the longest path to a gradient: 3 layers forward and back with sums of
 * at most 48 terms, 10 for an activation, and a sum over 37 samples: 2 * 3 * (48 + 10) + 37 = 385;
 * with momentum 0.9 lr counts up to ten times: (0.05 * 10 * 385 + 1) u = 194 u. An error grows by
 * at most 1 + lr L a step, L the curvature, below 5: 194 u * (1.5^4 - 1) / 0.5 = 1576 u. A slip
 * moves a weight by lr times its gradient, 1e-3 and more. */
#define MASKED_BOUND (1576 * 0x1p-24)

static void as_masked(layerops_context *ctx, layerops_context *reference, const char *device,
                      const shape *s, const method *m, layerops_activation activation) {
  layerops_network *net = make_sparse(ctx, s, activation);
  layerops_network *dense = make_dense(reference, s, activation);
  layerops_network *pattern = make_sparse(reference, s, activation);
  layerops_network_train_args args = training(s, m);
  layerops_network_evaluate_args ask = {.x = args.x, .labels = args.labels};
  layerops_network_result a = {0}, b = {0};
  int good = net && dense && pattern && mask_dense(reference, dense, pattern, s);
  double start = good ? apart(ctx, net, reference, dense, s) : INFINITY;
  for (int i = 0; i < 4 && good; i++)
    good = !layerops_network_train(net, &args, NULL) &&
           !layerops_network_train(dense, &args, NULL) && mask_dense(reference, dense, pattern, s);
  double distance = good ? apart(ctx, net, reference, dense, s) : INFINITY;
  if (!ok(start == 0 && distance <= MASKED_BOUND,
          "%s: %s: %s, %s: trains as a dense network whose other blocks are 0", device, s->name,
          m->name, layerops_activation_name(activation)))
    diag("distance %g, then %g, bound %g: %s", start, distance, MASKED_BOUND,
         layerops_last_error());
  good = good && !layerops_network_evaluate(net, &ask, &a) &&
         !layerops_network_evaluate(dense, &ask, &b);
  /* Outputs are sums of 48 such weights and more, through three layers. */
  ok(good && fabs(a.loss - b.loss) <= 3 * 48 * MASKED_BOUND, "%s: %s: and has its loss", device,
     s->name);
  layerops_network_destroy(net);
  layerops_network_destroy(dense);
  layerops_network_destroy(pattern);
}

static void all_as_masked(layerops_context *ctx, const char *device, const shape *s) {
  const layerops_activation activations[] = {LAYEROPS_RELU, LAYEROPS_GELU, LAYEROPS_TANH};
  layerops_context *reference = NULL;
  if (!fine(layerops_open("reference", &reference), "reference opens")) return;
  for (int i = 0; i < METHODS; i++)
    as_masked(ctx, reference, device, s, &methods[i], activations[i]);
  layerops_close(reference);
}

/* All the values, which are whole blocks. The caller frees them. */
static float *read_values(layerops_context *ctx, const layerops_bsr *sparse) {
  const layerops_matrix values = layerops_bsr_values(sparse);
  const size_t bytes = (size_t)(values.rows * values.cols) * sizeof(float);
  float *all = malloc(bytes + 1);
  if (all && !layerops_buffer_read(ctx, values.buffer, all, (int64_t)bytes)) return all;
  free(all);
  return NULL;
}

/* What of the blocks stands out of W and is not 0. */
static int64_t outside(layerops_context *ctx, const layerops_bsr *sparse) {
  layerops_bsr_info info;
  float *values = read_values(ctx, sparse);
  int64_t wrong = 0;
  if (!values || layerops_bsr_describe(sparse, &info)) return -1;
  for (int64_t r = 0; r < info.block_rows; r++)
    for (int64_t b = info.row_start[r]; b < info.row_start[r + 1]; b++)
      for (int64_t i = 0; i < info.height * info.width; i++)
        wrong += (r * info.height + i / info.width >= info.rows ||
                  info.column[b] * info.width + i % info.width >= info.cols) &&
                 values[b * info.height * info.width + i] != 0;
  free(values);
  return wrong;
}

static void stays_outside(layerops_context *ctx, const char *device, const shape *s,
                          const method *m) {
  layerops_network *net = make_sparse(ctx, s, LAYEROPS_SIGMOID);
  layerops_network_train_args args = training(s, m);
  int64_t wrong = 0;
  args.batch = BATCH;
  int good = net && !layerops_network_train(net, &args, NULL);
  for (int64_t i = 0; good && i < LAYERS; i++) wrong += outside(ctx, sparse_of(net, i));
  ok(good && !wrong, "%s: %s: what stands out of W stays 0", device, m->name);
  layerops_network_destroy(net);
}

/* Adam without epsilon makes 0 / 0 of elements whose gradient is always 0. */
static void adam_stays_outside(layerops_context *ctx, const char *device, const shape *s) {
  static const method without = {"adam without epsilon", LAYEROPS_OPTIMIZER_ADAM, 0.001, 0, 0, 0};
  layerops_network *net = make_dense(ctx, s, LAYEROPS_TANH); /* no unit without a gradient */
  layerops_network_prune_args prune = s->prune;
  layerops_network_train_args args = training(s, &without);
  layerops_network_result result = {0};
  int64_t wrong = 0;
  args.batch = 8;
  args.epsilon = layerops_value(0);
  prune.density = 1;
  int good =
      net && !layerops_network_prune(net, &prune) && !layerops_network_train(net, &args, &result);
  for (int64_t i = 0; good && i < LAYERS; i++) wrong += outside(ctx, sparse_of(net, i));
  ok(good && !wrong && isfinite(result.loss), "%s: %s: what stands out of W stays 0", device,
     without.name);
  layerops_network_destroy(net);
}

/* ---- Bits and files ---- */

static int same(layerops_context *ctx, layerops_network *a, layerops_network *b, const shape *s) {
  return a && b && apart(ctx, a, ctx, b, s) == 0;
}

static layerops_status train(layerops_network *net, const layerops_network_train_args *args,
                             int epochs) {
  layerops_status status = LAYEROPS_OK;
  for (int i = 0; i < epochs && !status; i++) status = layerops_network_train(net, args, NULL);
  if (status) diag("%s", layerops_last_error());
  return status;
}

static void resumes(layerops_context *ctx, const char *device, const shape *s, const method *m) {
  layerops_network *whole = make_sparse(ctx, s, LAYEROPS_SILU);
  layerops_network *first = make_sparse(ctx, s, LAYEROPS_SILU), *second = NULL;
  layerops_network_train_args args = training(s, m);
  args.batch = BATCH;
  args.keep_order = 0;
  size_t a_size = 0, b_size = 0;
  int good = !train(whole, &args, 4) && !train(first, &args, 2) &&
             !layerops_network_save(first, scratch_path("a")) &&
             !layerops_network_load(ctx, scratch_path("a"), &second) &&
             !layerops_network_save(second, scratch_path("b"));
  unsigned char *a = scratch_read("a", &a_size), *b = scratch_read("b", &b_size);
  ok(good && a && b && a_size == b_size && !memcmp(a, b, a_size),
     "%s: %s, %s: saved, loaded, saved: the same file", device, s->name, m->name);
  ok(good && !train(second, &args, 2) && same(ctx, whole, second, s),
     "%s: %s, %s: resumed training equals an uninterrupted one", device, s->name, m->name);
  free(a);
  free(b);
  layerops_network_destroy(whole);
  layerops_network_destroy(first);
  layerops_network_destroy(second);
}

/* ---- No block, and all of them ---- */

static void extremes(layerops_context *ctx, const char *device, const shape *s) {
  layerops_network *none = make_dense(ctx, s, LAYEROPS_RELU);
  layerops_network *all = make_dense(ctx, s, LAYEROPS_RELU);
  layerops_network *dense = make_dense(ctx, s, LAYEROPS_RELU), *loaded = NULL;
  layerops_network_train_args args = training(s, &methods[2]);
  layerops_network_prune_args prune = s->prune;
  prune.density = 0;
  int good = !layerops_network_prune(none, &prune);
  prune.density = 1;
  good = good && !layerops_network_prune(all, &prune);
  ok(good && apart(ctx, all, ctx, dense, s) == 0, "%s: %s: all blocks are the dense weights",
     device, s->name);
  good = good && !train(none, &args, 2) && !layerops_network_save(none, scratch_path("none")) &&
         !layerops_network_load(ctx, scratch_path("none"), &loaded);
  ok(good && same(ctx, none, loaded, s) && !outside(ctx, sparse_of(none, 0)),
     "%s: %s: a network without blocks trains, and is saved and loaded", device, s->name);
  layerops_network_destroy(none);
  layerops_network_destroy(all);
  layerops_network_destroy(dense);
  layerops_network_destroy(loaded);
}

static void on_device(layerops_context *ctx, const char *device) {
  for (const shape *s = shapes; s < shapes + SHAPES; s++) {
    prunes(ctx, device, s);
    all_as_masked(ctx, device, s);
    for (int i = 0; i < METHODS; i++) resumes(ctx, device, s, &methods[i]);
    extremes(ctx, device, s);
    if (s->prune.count == LAYERS) {
      for (int i = 0; i < METHODS; i++) stays_outside(ctx, device, s, &methods[i]);
      adam_stays_outside(ctx, device, s);
    } else
      counts_on(ctx, device);
  }
  prunes_again(ctx, device);
}

int main(void) {
  scratch_begin();
  make_data();
  on_each_device(on_device);
  return done();
}
