/* A call that comes again gives what it gave, and one that differs in anything from a call before
 * gives what it gives in a context that knows no calls. */
#include <config.h>

#include <stdio.h>
#include <string.h>

#include <layerops/layerops.h>

#include "t/devices.h"

enum { M = 33, N = 40, K = 50, TIMES = 5 };

static layerops_context *fresh_context(const char *name) {
  layerops_context *ctx = NULL;
  if (layerops_open(name, &ctx)) diag("%s", layerops_last_error());
  return ctx;
}

static layerops_buffer *numbers(layerops_context *ctx, int count, int step) {
  float values[M * N + M * K + N * K];
  layerops_buffer *buffer = NULL;
  for (int i = 0; i < count; i++) values[i] = (float)(i * step % 997) / 997 - 0.5f;
  if (layerops_buffer_from(ctx, values, count * (int)sizeof(float), &buffer) || layerops_sync(ctx))
    diag("%s", layerops_last_error());
  return buffer;
}

typedef struct operands {
  layerops_buffer *x, *w, *bias, *y, *dx, *dw;
} operands;

static operands make(layerops_context *ctx) {
  return (operands){numbers(ctx, M * K + K, 31), numbers(ctx, N * K, 37), numbers(ctx, N, 41),
                    numbers(ctx, M * N, 43),     numbers(ctx, M * K, 47), numbers(ctx, N * K, 53)};
}

static void destroy(operands *o) {
  layerops_buffer *all[] = {o->x, o->w, o->bias, o->y, o->dx, o->dw};
  for (int i = 0; i < 6; i++) layerops_buffer_destroy(all[i]);
}

static layerops_linear_args layer(const operands *o) {
  return (layerops_linear_args){.x = layerops_matrix_f32(o->x, M, K),
                                .w = layerops_matrix_f32(o->w, N, K),
                                .bias = layerops_vector_f32(o->bias, N),
                                .y = layerops_matrix_f32(o->y, M, N),
                                .activation = LAYEROPS_RELU};
}

/* The outcome of a call: its status, and Y. */
typedef struct outcome {
  layerops_status status;
  float y[M * N];
} outcome;

static outcome call(layerops_context *ctx, const layerops_linear_args *args, layerops_buffer *y) {
  outcome o = {LAYEROPS_OK, {0}};
  layerops_status status = layerops_buffer_write(ctx, y, o.y, sizeof o.y);
  o.status = layerops_linear_forward(ctx, args);
  if (!status) status = layerops_buffer_read(ctx, y, o.y, sizeof o.y);
  if (status) o.status = status;
  return o;
}

static int same(outcome a, outcome b) {
  return a.status == b.status && !memcmp(a.y, b.y, sizeof a.y);
}

/* ---- Arguments that differ in one thing */
enum { AS_IT_IS, ACTIVATION, ALPHA, ROWS, STRIDE, OFFSET, NO_BIAS, WRONG_SHAPE, WRONG_FLAG, WAYS };
static const char *const ways[WAYS] = {"nothing", "activation",  "alpha",
                                       "rows",    "stride",      "offset",
                                       "no bias", "wrong shape", "wrong flag"};

static layerops_linear_args differing(const operands *o, int way) {
  layerops_linear_args a = layer(o);
  if (way == ACTIVATION) a.activation = LAYEROPS_TANH;
  if (way == ALPHA) a.alpha = layerops_value(2);
  if (way == ROWS) a.x.rows = a.y.rows = M - 1;
  if (way == STRIDE) a.x.stride = K + 1;
  if (way == OFFSET) a.x.offset = 3;
  if (way == NO_BIAS) a.bias = (layerops_matrix){0};
  if (way == WRONG_SHAPE) a.y.cols = N - 1;
  if (way == WRONG_FLAG) a.flags = 1u << 31;
  return a;
}

static void test_ways(layerops_context *ctx, const char *name) {
  operands o = make(ctx);
  layerops_linear_args first = layer(&o);
  for (int way = 0; way < WAYS; way++) {
    layerops_linear_args other = differing(&o, way);
    layerops_context *fresh = fresh_context(name);
    outcome wanted = call(fresh, &first, o.y), wanted_other = call(fresh, &other, o.y);
    int good = wanted.status == LAYEROPS_OK;
    for (int i = 0; i < TIMES; i++) /* both come again, in turns and at once */
      good &= same(call(ctx, &first, o.y), wanted) && same(call(ctx, &first, o.y), wanted) &&
              same(call(ctx, &other, o.y), wanted_other) &&
              same(call(ctx, &other, o.y), wanted_other);
    ok(good, "%s: calls that differ in %s", name, ways[way]);
    layerops_close(fresh);
  }
  destroy(&o);
}

/* ---- More calls than a context keeps, in turns */
static void test_many(layerops_context *ctx, const char *name) {
  enum { CALLS = 300 };
  static outcome wanted[CALLS];
  layerops_buffer *y[CALLS];
  operands o = make(ctx);
  layerops_linear_args args = layer(&o);
  layerops_context *fresh = fresh_context(name);
  int good = 1;
  for (int round = 0; round < TIMES; round++)
    for (int i = 0; i < CALLS; i++) {
      if (round == 0) y[i] = numbers(ctx, M * N, 71);
      args.y.buffer = y[i];
      args.x.offset = i % 13;
      args.alpha = layerops_value(1 + i);
      if (round == 0) wanted[i] = call(fresh, &args, y[i]);
      good &= !wanted[i].status && same(call(ctx, &args, y[i]), wanted[i]);
    }
  ok(good, "%s: %d calls in turns", name, CALLS);
  layerops_close(fresh);
  for (int i = 0; i < CALLS; i++) layerops_buffer_destroy(y[i]);
  destroy(&o);
}

/* ---- Objects that go, and others that come to lie where they lay */
static void test_buffers(layerops_context *ctx, const char *name) {
  operands o = make(ctx);
  layerops_linear_args args = layer(&o);
  outcome wanted = call(ctx, &args, o.y);
  for (int i = 0; i < TIMES; i++) call(ctx, &args, o.y);
  layerops_buffer_destroy(o.w);
  layerops_buffer *other = numbers(ctx, N * K, 59), *was = o.w;
  o.w = args.w.buffer = other;
  layerops_context *fresh = fresh_context(name);
  outcome wanted_other = call(fresh, &args, o.y);
  layerops_close(fresh);
  ok(same(call(ctx, &args, o.y), wanted_other) && !same(wanted, wanted_other), "%s: another W%s",
     name, other == was ? " at the same address" : "");
  for (int i = 0; i < TIMES; i++) call(ctx, &args, o.y);
  layerops_buffer_destroy(o.w);
  was = o.w;
  o.w = args.w.buffer = numbers(ctx, N * K - 1, 61);
  ok(call(ctx, &args, o.y).status == LAYEROPS_ERROR_INVALID, "%s: a W that is too small%s", name,
     o.w == was ? ", at the same address" : "");
  destroy(&o);
}

static layerops_weights *pack(layerops_context *ctx, layerops_buffer *w) {
  layerops_weights_args args = {.w = layerops_matrix_f32(w, N, K)};
  layerops_weights *weights = NULL;
  if (layerops_weights_pack(ctx, &args, &weights)) diag("%s", layerops_last_error());
  return weights;
}

static void test_weights(layerops_context *ctx, const char *name) {
  operands o = make(ctx);
  layerops_linear_args args = layer(&o);
  layerops_weights *weights = pack(ctx, o.w), *was = weights;
  args.w = (layerops_matrix){0};
  args.packed = weights;
  outcome wanted = call(ctx, &args, o.y);
  int good = wanted.status == LAYEROPS_OK;
  for (int i = 0; i < TIMES; i++) good &= same(call(ctx, &args, o.y), wanted);
  layerops_weights_destroy(weights);
  args.packed = weights = pack(ctx, o.dw);
  layerops_context *fresh = fresh_context(name);
  outcome other = call(fresh, &args, o.y);
  layerops_close(fresh);
  good &= !same(wanted, other);
  for (int i = 0; i < TIMES; i++) good &= same(call(ctx, &args, o.y), other);
  ok(good, "%s: packed weights, and others%s", name, weights == was ? " at the same address" : "");
  layerops_weights_destroy(weights);
  destroy(&o);
}

/* ---- Scratch memory that moves, and numbers that lie in buffers */
static layerops_status backward(layerops_context *ctx, const operands *o, int rows) {
  layerops_linear_backward_args args = {.dy = layerops_matrix_f32(o->y, rows, N),
                                        .x = layerops_matrix_f32(o->x, rows, K),
                                        .w = layerops_matrix_f32(o->w, N, K),
                                        .saved = layerops_matrix_f32(o->y, rows, N),
                                        .dx = layerops_matrix_f32(o->dx, rows, K),
                                        .dw = layerops_matrix_f32(o->dw, N, K),
                                        .activation = LAYEROPS_SIGMOID};
  return layerops_linear_backward(ctx, &args);
}

static void test_scratch(layerops_context *ctx, const char *name) {
  static float wanted[N * K], got[N * K];
  operands o = make(ctx);
  int good = 1;
  for (int i = 0; i < 2 * TIMES; i++) {
    good &= !backward(ctx, &o, 1) && !layerops_buffer_read(ctx, o.dw, got, sizeof got);
    if (i == 0) memcpy(wanted, got, sizeof got);
    good &= !memcmp(wanted, got, sizeof got);
    if (i == TIMES) good &= !backward(ctx, &o, M); /* wants more */
  }
  ok(good, "%s: backward, while scratch memory grows", name);
  destroy(&o);
}

static void test_scalars(layerops_context *ctx, const char *name) {
  operands o = make(ctx);
  layerops_buffer *alpha = numbers(ctx, 1, 1);
  layerops_gemm_args args = {.a = layerops_matrix_f32(o.x, M, K),
                             .b = layerops_matrix_f32(o.w, N, K),
                             .c = layerops_matrix_f32(o.y, M, N),
                             .trans_b = 1,
                             .alpha = layerops_element(alpha, 0)};
  float c[M * N], one[M * N];
  int good = 1;
  for (int i = 1; i <= 2 * TIMES; i++) { /* powers of two: exact */
    float value = (float)(1 << i);
    good &= !layerops_buffer_write(ctx, alpha, &value, sizeof value) &&
            !layerops_gemm(ctx, &args) && !layerops_buffer_read(ctx, o.y, c, sizeof c);
    for (int j = 0; j < M * N; j++) {
      if (i == 1) one[j] = c[j] / value;
      good &= c[j] == one[j] * value;
    }
  }
  ok(good, "%s: an alpha that changes in its buffer", name);
  layerops_buffer_destroy(alpha);
  destroy(&o);
}

/* ---- Labels that are checked where they lie: every time */
static void test_labels(layerops_context *ctx, const char *name) {
  enum { SAMPLES = 20, CLASSES = 10, BAD = 7 };
  int32_t right[SAMPLES] = {0}, wrong[SAMPLES] = {[BAD] = CLASSES};
  layerops_buffer *logits = numbers(ctx, SAMPLES * CLASSES, 67), *loss = numbers(ctx, 1, 1);
  layerops_buffer *labels = NULL;
  int good = !layerops_buffer_from(ctx, right, sizeof right, &labels);
  layerops_cross_entropy_args args = {.logits = layerops_matrix_f32(logits, SAMPLES, CLASSES),
                                      .labels = layerops_vector_i32(labels, SAMPLES),
                                      .loss = layerops_vector_f32(loss, 1)};
  for (int i = 0; i < 2 * TIMES; i++) {
    const int32_t *now = i % 3 == 2 ? wrong : right;
    good &= !layerops_buffer_write(ctx, labels, now, sizeof right);
    layerops_status status = layerops_cross_entropy(ctx, &args);
    if (!status) status = layerops_sync(ctx);
    good &= status == (now == wrong ? LAYEROPS_ERROR_LABEL : LAYEROPS_OK);
  }
  ok(good, "%s: a label out of range is found each time", name);
  layerops_buffer_destroy(logits);
  layerops_buffer_destroy(labels);
  layerops_buffer_destroy(loss);
}

/* ---- A call that is recorded or prepared does not run */
static void test_states(layerops_context *ctx, const char *name) {
  operands o = make(ctx);
  layerops_linear_args args = layer(&o);
  layerops_graph *graph = NULL;
  outcome wanted = call(ctx, &args, o.y), got = {0}, zero = {0};
  for (int i = 0; i < TIMES; i++) call(ctx, &args, o.y);
  int good = !layerops_buffer_write(ctx, o.y, zero.y, sizeof zero.y) &&
             !layerops_prepare(ctx, LAYEROPS_OP_linear_forward, &args) &&
             !layerops_buffer_read(ctx, o.y, got.y, sizeof got.y) && same(got, zero);
  ok(good, "%s: prepared, a known call does not run", name);
  good = !layerops_record_begin(ctx) && !layerops_linear_forward(ctx, &args) &&
         !layerops_record_end(ctx, &graph) &&
         !layerops_buffer_read(ctx, o.y, got.y, sizeof got.y) && same(got, zero);
  ok(good, "%s: nor recorded", name);
  good = !layerops_graph_replay(graph) && !layerops_buffer_read(ctx, o.y, got.y, sizeof got.y);
  ok(good && same(got, wanted), "%s: replayed, it does", name);
  layerops_graph_destroy(graph);
  destroy(&o);
}

/* ---- A call whose output is the struct that it came in */
static layerops_matrix bytes_of(void *p, int64_t count) {
  return layerops_host_matrix(p, LAYEROPS_U8, 1, count);
}
static void test_overwritten(void) {
  layerops_context *ctx = fresh_context("cpu");
  static int32_t from[4] = {5, 6, 7, 8}, to[4];
  layerops_copy_args second = {.x = layerops_host_matrix(from, LAYEROPS_I32, 1, 4),
                               .y = layerops_host_matrix(to, LAYEROPS_I32, 1, 4)};
  layerops_copy_args area,
      first = {.x = bytes_of(&second, sizeof second), .y = bytes_of(&area, sizeof area)};
  int good = 1;
  for (int i = 0; i < TIMES; i++) {
    area = first;
    good &= !layerops_copy(ctx, &area);
  }
  good &= !layerops_copy(ctx, &second) && !memcmp(from, to, sizeof from);
  ok(good, "cpu: what a call writes over its own struct is another call");
  layerops_close(ctx);
}

/* ---- Calls out of the loop that the caller runs for us, while a known call runs */
enum { LINES = 400 };
static float many[LINES][4];
static layerops_context *outer;
static int depth, failed;
static void parallel(void *user, int64_t count, void (*body)(void *, int64_t), void *arg) {
  (void)user;
  const int again = depth == 1;
  depth++;
  for (int i = 0; again && i < 3 * LINES; i++) {
    layerops_copy_args copy = {.x = layerops_host_matrix(many[i % LINES], LAYEROPS_F32, 1, 4),
                               .y =
                                   layerops_host_matrix(many[(i + 1) % LINES], LAYEROPS_F32, 1, 4)};
    failed |= layerops_copy(outer, &copy) || layerops_copy(outer, &copy);
  }
  depth--;
  for (int64_t i = 0; i < count; i++) body(arg, i);
}
static void test_within(void) {
  enum { SIZE = 256 };
  static float a[SIZE * SIZE], b[SIZE * SIZE], c[SIZE * SIZE], dx[SIZE * SIZE], dw[SIZE * SIZE];
  layerops_open_args open = {.device = "cpu", .threads = 4, .parallel = parallel};
  int good = !layerops_open_with(&open, &outer);
  layerops_linear_backward_args args = {.dy = layerops_host_matrix(a, LAYEROPS_F32, SIZE, SIZE),
                                        .w = layerops_host_matrix(b, LAYEROPS_F32, SIZE, SIZE),
                                        .x = layerops_host_matrix(c, LAYEROPS_F32, SIZE, SIZE),
                                        .dx = layerops_host_matrix(dx, LAYEROPS_F32, SIZE, SIZE),
                                        .dw = layerops_host_matrix(dw, LAYEROPS_F32, SIZE, SIZE)};
  for (int i = 0; i < TIMES && good; i++) {
    depth = i > 2; /* known by now */
    good &= !layerops_linear_backward(outer, &args);
  }
  ok(good && !failed, "cpu: calls from within a known call");
  layerops_close(outer);
}

static void test_device(layerops_context *ctx, const char *name) {
  test_ways(ctx, name);
  test_many(ctx, name);
  test_buffers(ctx, name);
  test_weights(ctx, name);
  test_scratch(ctx, name);
  test_scalars(ctx, name);
  test_labels(ctx, name);
  test_states(ctx, name);
}

int main(void) {
  on_each_device(test_device);
  test_overwritten();
  test_within();
  return done();
}
