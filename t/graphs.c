/* Record and replay, and layerops_prepare, on every device. */
#include <config.h>

#include <stdlib.h>
#include <string.h>

#include "t/devices.h"
#include "t/is.h"

static int is_ok(layerops_status status, const char *name, const char *what) {
  return ok(status == LAYEROPS_OK, "%s: %s%s%s", name, what, status ? ": " : "",
            status ? layerops_last_error() : "");
}

static int refused(layerops_status status, layerops_status wanted, const char *text,
                   const char *name, const char *what) {
  return ok(status == wanted && strstr(layerops_last_error(), text), "%s: %s: %s", name, what,
            status ? layerops_last_error() : "not refused");
}

/* ---- A step of training: 5 calls, of which some need scratch memory. */
enum { BATCH = 75, IN = 70, HIDDEN = 65, CLASSES = 10 };
enum { X, W0, B0, H, Z, W1, LOGITS, DLOGITS, DH, DW0, DB0, DW1, LOSS, LABELS, RATE, BUFFERS };
static const int sizes[BUFFERS] = {[X] = BATCH * IN,
                                   [W0] = HIDDEN * IN,
                                   [B0] = HIDDEN,
                                   [H] = BATCH * HIDDEN,
                                   [Z] = BATCH * HIDDEN,
                                   [W1] = CLASSES * HIDDEN,
                                   [LOGITS] = BATCH * CLASSES,
                                   [DLOGITS] = BATCH * CLASSES,
                                   [DH] = BATCH * HIDDEN,
                                   [DW0] = HIDDEN * IN,
                                   [DB0] = HIDDEN,
                                   [DW1] = CLASSES * HIDDEN,
                                   [LOSS] = 1,
                                   [LABELS] = BATCH,
                                   [RATE] = 1};

typedef struct step {
  layerops_context *ctx;
  layerops_buffer *b[BUFFERS];
} step;

static layerops_matrix of(const step *s, int which, int64_t rows) {
  return layerops_matrix_f32(s->b[which], rows, sizes[which] / rows);
}

static void fill_numbers(float *f, int count, unsigned seed) {
  for (int i = 0; i < count; i++) {
    seed = seed * 1664525u + 1013904223u;
    f[i] = (float)(int)(seed >> 8 & 0xffff) / 65536.0f - 0.5f;
  }
}

static layerops_status start(step *s, layerops_context *ctx) {
  static float numbers[BATCH * IN];
  layerops_status status = LAYEROPS_OK;
  s->ctx = ctx;
  for (int i = 0; i < BUFFERS && status == LAYEROPS_OK; i++) {
    fill_numbers(numbers, sizes[i], (unsigned)i);
    if (i == RATE) numbers[0] = 0.125f;
    if (i == LABELS)
      for (int row = 0; row < BATCH; row++) ((int32_t *)numbers)[row] = row * 7 % CLASSES;
    status = layerops_buffer_from(ctx, numbers, 4 * sizes[i], &s->b[i]);
  }
  return status;
}

static void stop(step *s) {
  for (int i = 0; i < BUFFERS; i++) layerops_buffer_destroy(s->b[i]);
}

static layerops_status forward(const step *s) {
  layerops_linear_args first = {.x = of(s, X, BATCH),
                                .w = of(s, W0, HIDDEN),
                                .bias = of(s, B0, 1),
                                .preact = of(s, Z, BATCH),
                                .y = of(s, H, BATCH),
                                .activation = LAYEROPS_GELU};
  layerops_linear_args second = {
      .x = of(s, H, BATCH), .w = of(s, W1, CLASSES), .y = of(s, LOGITS, BATCH)};
  layerops_status status = layerops_linear_forward(s->ctx, &first);
  return status ? status : layerops_linear_forward(s->ctx, &second);
}

static layerops_cross_entropy_args loss_of(const step *s) {
  return (layerops_cross_entropy_args){.logits = of(s, LOGITS, BATCH),
                                       .labels = layerops_vector_i32(s->b[LABELS], BATCH),
                                       .dlogits = of(s, DLOGITS, BATCH),
                                       .loss = of(s, LOSS, 1)};
}

static layerops_linear_backward_args backward_of(const step *s) {
  return (layerops_linear_backward_args){.dy = of(s, H, BATCH), /* any numbers */
                                         .x = of(s, X, BATCH),
                                         .saved = of(s, Z, BATCH),
                                         .dw = of(s, DW0, HIDDEN),
                                         .dbias = of(s, DB0, 1),
                                         .activation = LAYEROPS_GELU};
}

static layerops_status run(const step *s) {
  layerops_cross_entropy_args loss = loss_of(s);
  layerops_linear_backward_args backward = backward_of(s);
  layerops_sgd_args sgd = {
      .w = of(s, W0, HIDDEN), .g = of(s, DW0, HIDDEN), .lr = layerops_element(s->b[RATE], 0)};
  layerops_status status = forward(s);
  if (!status) status = layerops_cross_entropy(s->ctx, &loss);
  if (!status) status = layerops_linear_backward(s->ctx, &backward);
  return status ? status : layerops_sgd(s->ctx, &sgd);
}

/* How many buffers of two steps differ, or -1. */
static int count_different(const step *a, const step *b) {
  static float left[BATCH * IN], right[BATCH * IN];
  int different = 0;
  for (int i = 0; i < BUFFERS; i++) {
    if (layerops_buffer_read(a->ctx, a->b[i], left, 4 * sizes[i]) ||
        layerops_buffer_read(b->ctx, b->b[i], right, 4 * sizes[i]))
      return -1;
    different += memcmp(left, right, 4 * (size_t)sizes[i]) != 0;
  }
  return different;
}

static layerops_status record(const step *s, layerops_graph **graph) {
  layerops_status status = layerops_record_begin(s->ctx);
  if (!status) status = run(s);
  layerops_status ended = layerops_record_end(s->ctx, graph);
  return status ? status : ended;
}

/* ---- Replays give the bits of calls, also after what was learnt has changed. */
static void test_bits(layerops_context *ctx, const char *name) {
  step called = {0}, replayed = {0};
  layerops_graph *graph = NULL;
  if (!is_ok(start(&called, ctx), name, "operands") ||
      !is_ok(start(&replayed, ctx), name, "the same once more"))
    return;
  is_ok(record(&replayed, &graph), name, "a step is recorded");
  layerops_status status = LAYEROPS_OK;
  for (int i = 0; i < 5 && !status; i++) {
    float rate = 0.125f * (float)(i + 1); /* an element of a buffer: read by each replay */
    status = layerops_buffer_write(ctx, called.b[RATE], &rate, 4);
    if (!status) status = layerops_buffer_write(ctx, replayed.b[RATE], &rate, 4);
    if (!status) status = run(&called);
    if (!status) status = layerops_graph_replay(graph);
  }
  is_ok(status, name, "five steps as calls and as replays");
  is_int(count_different(&called, &replayed), 0, "%s: the same bits", name);
  layerops_graph_destroy(graph);
  stop(&called);
  stop(&replayed);
}

/* ---- A graph keeps its scratch memory when the context's grows. */
static void test_workspace(layerops_context *ctx, const char *name) {
  enum { LARGE = 900 };
  step called = {0}, replayed = {0};
  layerops_graph *graph = NULL;
  layerops_buffer *large[3] = {0}, *other[8] = {0};
  if (!is_ok(start(&called, ctx), name, "operands") ||
      !is_ok(start(&replayed, ctx), name, "the same once more"))
    return;
  is_ok(record(&replayed, &graph), name, "recorded while the workspace is small");
  layerops_status status = LAYEROPS_OK;
  for (int i = 0; i < 3 && !status; i++)
    status = layerops_buffer_create(ctx, 4 * LARGE * LARGE, &large[i]);
  layerops_linear_backward_args backward = {.dy = layerops_matrix_f32(large[0], LARGE, LARGE),
                                            .x = layerops_matrix_f32(large[1], LARGE, LARGE),
                                            .saved = layerops_matrix_f32(large[1], LARGE, LARGE),
                                            .dw = layerops_matrix_f32(large[2], LARGE, LARGE),
                                            .activation = LAYEROPS_SILU};
  if (!status) status = layerops_linear_backward(ctx, &backward);
  layerops_fill_args fill = {.value = layerops_value(1e30)};
  for (int i = 0; i < 8 && !status; i++) { /* where the small one has been */
    status = layerops_buffer_create(ctx, 4 * 4096, &other[i]);
    fill.y = layerops_matrix_f32(other[i], 1, 4096);
    if (!status) status = layerops_fill(ctx, &fill);
  }
  if (!status) status = run(&called);
  if (!status) status = layerops_graph_replay(graph);
  is_ok(status, name, "a larger call, then the replay");
  is_int(count_different(&called, &replayed), 0, "%s: the replay is right", name);
  float seen[4096];
  int wrong = 0;
  for (int i = 0; i < 8 && !status; i++) {
    status = layerops_buffer_read(ctx, other[i], seen, sizeof seen);
    for (int j = 0; j < 4096; j++) wrong += seen[j] != 1e30f;
  }
  is_int(wrong, 0, "%s: and has written into nobody's memory", name);
  for (int i = 0; i < 3; i++) layerops_buffer_destroy(large[i]);
  for (int i = 0; i < 8; i++) layerops_buffer_destroy(other[i]);
  layerops_graph_destroy(graph);
  stop(&called);
  stop(&replayed);
}

/* ---- Faults that a replay finds. */
static void test_faults(layerops_context *ctx, const char *name) {
  step s = {0};
  layerops_graph *graph = NULL;
  const int32_t wrong = CLASSES, right = 3;
  if (!is_ok(start(&s, ctx), name, "operands")) return;
  is_ok(record(&s, &graph), name, "recorded with labels in range");
  for (int i = 0; i < 2; i++) {
    is_ok(layerops_buffer_write_at(ctx, s.b[LABELS], 4 * 40, &wrong, 4), name, "a wrong label");
    layerops_status status = layerops_graph_replay(graph);
    refused(status ? status : layerops_sync(ctx), LAYEROPS_ERROR_LABEL,
            "labels[40] is 10, but must lie in [0, 10)", name, "is found by the replay");
    is_ok(layerops_buffer_write_at(ctx, s.b[LABELS], 4 * 40, &right, 4), name, "the right label");
    status = layerops_graph_replay(graph);
    is_ok(status ? status : layerops_sync(ctx), name, "is not found wrong");
  }
  layerops_graph_destroy(graph);
  stop(&s);
}

/* ---- What recording refuses, and several graphs. */
static layerops_status set(layerops_context *ctx, layerops_buffer *b, float value) {
  layerops_fill_args fill = {.y = layerops_matrix_f32(b, 1, 4), .value = layerops_value(value)};
  return layerops_fill(ctx, &fill);
}

static float first_of(layerops_context *ctx, layerops_buffer *b) {
  float seen[4] = {-1, -1, -1, -1};
  return layerops_buffer_read(ctx, b, seen, sizeof seen) ? -2 : seen[0];
}

static void test_refusals(layerops_context *ctx, const char *name) {
  layerops_buffer *b = NULL;
  layerops_graph *graph = NULL, *first = NULL;
  float host[4] = {5, 5, 5, 5};
  int in_place = !strcmp(name, "cpu") || !strcmp(name, "reference");
  is_ok(layerops_buffer_from(ctx, host, sizeof host, &b), name, "a buffer");
  is_ok(layerops_record_begin(ctx), name, "recording begins");
  refused(layerops_record_begin(ctx), LAYEROPS_ERROR_STATE, "recording already", name, "twice");
  is_ok(set(ctx, b, 1), name, "a call");
  layerops_fill_args bad = {.y = layerops_matrix_f32(b, 1, 5), .value = layerops_value(7)};
  refused(layerops_fill(ctx, &bad), LAYEROPS_ERROR_INVALID, "y ends at byte 20", name, "a bad one");
  layerops_fill_args on_host = {.y = layerops_host_matrix(host, LAYEROPS_F32, 1, 4),
                                .value = layerops_value(9)};
  if (!in_place)
    refused(layerops_fill(ctx, &on_host), LAYEROPS_ERROR_STATE, "host views cannot be recorded",
            name, "a host view");
  is_ok(layerops_record_end(ctx, &first), name, "the recording goes on, and ends");
  graph = first;
  refused(layerops_record_end(ctx, &graph), LAYEROPS_ERROR_STATE, "not recording", name,
          "ending it twice");
  ok(!graph, "%s: and gives no graph", name);
  ok(first_of(ctx, b) == 5, "%s: nothing has run", name);
  is_ok(layerops_record_begin(ctx), name, "a second graph of the context");
  refused(layerops_graph_replay(first), LAYEROPS_ERROR_STATE, "recording", name,
          "a replay while recording");
  is_ok(set(ctx, b, 2), name, "another call");
  is_ok(layerops_record_end(ctx, &graph), name, "and its end");
  int wrong = 0;
  for (int i = 0; i < 50; i++) {
    layerops_graph *g = i % 3 ? first : graph;
    wrong += layerops_graph_replay(g) != LAYEROPS_OK ||
             (i % 10 == 9 && first_of(ctx, b) != (i % 3 ? 1 : 2));
  }
  is_int(wrong, 0, "%s: both replay, in any order", name);
  is_ok(layerops_graph_replay(first), name, "one more");
  layerops_graph_destroy(first); /* while it may still run */
  is_ok(layerops_graph_replay(graph), name, "the other outlives it");
  ok(first_of(ctx, b) == 2, "%s: and came last", name);
  layerops_graph_destroy(graph);
  layerops_buffer_destroy(b);
}

static void test_order_of_ends(const char *name) {
  layerops_context *ctx = NULL;
  layerops_buffer *b = NULL;
  layerops_graph *graph = NULL;
  is_ok(layerops_open(name, &ctx), name, "a context of its own");
  layerops_status status = layerops_buffer_create(ctx, 16, &b);
  if (!status) status = layerops_record_begin(ctx);
  if (!status) status = set(ctx, b, 1);
  if (!status) status = layerops_record_end(ctx, &graph);
  if (!status) status = layerops_graph_replay(graph);
  if (!status) status = layerops_record_begin(ctx);
  if (!status) status = set(ctx, b, 1);
  is_ok(status, name, "a graph, and a recording that nobody ends");
  layerops_close(ctx);
  layerops_graph_destroy(graph);
  layerops_buffer_destroy(b);
  ok(1, "%s: the context may go before both", name);
}

/* ---- With a verbose line for each call, graphs are replayed call by call. */
static void count_line(void *user, int level, const char *line) {
  *(int *)user += level == 1 && strstr(line, "fill") != NULL;
}

static void test_verbose(const char *name) {
  int lines = 0;
  layerops_open_args args = {.device = name, .verbose = 1, .log = count_line, .log_user = &lines};
  layerops_context *ctx = NULL;
  layerops_buffer *b = NULL;
  layerops_graph *graph = NULL;
  layerops_status status = layerops_open_with(&args, &ctx);
  if (!status) status = layerops_buffer_create(ctx, 16, &b);
  if (!status) status = layerops_record_begin(ctx);
  if (!status) status = set(ctx, b, 1);
  if (!status) status = set(ctx, b, 2);
  if (!status) status = layerops_record_end(ctx, &graph);
  int before = lines;
  if (!status) status = layerops_graph_replay(graph);
  if (!status) status = layerops_graph_replay(graph);
  is_ok(status, name, "two replays of two calls by a verbose context");
  ok(before == 0 && lines == 4 && first_of(ctx, b) == 2, "%s: %d lines, %d of them early", name,
     lines, before);
  layerops_graph_destroy(graph);
  layerops_buffer_destroy(b);
  layerops_close(ctx);
}

/* ---- Warming: it judges, and does nothing else. */
static void test_prepare(layerops_context *ctx, const char *name) {
  step s = {0}, untouched = {0};
  float host[4] = {5, 5, 5, 5};
  if (!is_ok(start(&s, ctx), name, "operands") ||
      !is_ok(start(&untouched, ctx), name, "the same once more"))
    return;
  layerops_cross_entropy_args loss = loss_of(&s);
  layerops_linear_backward_args backward = backward_of(&s);
  is_ok(layerops_prepare(ctx, LAYEROPS_OP_cross_entropy, &loss), name, "a loss is prepared");
  is_ok(layerops_prepare(ctx, LAYEROPS_OP_linear_backward, &backward), name, "and gradients");
  is_int(count_different(&s, &untouched), 0, "%s: no operand has changed", name);
  loss.labels.cols--;
  refused(layerops_prepare(ctx, LAYEROPS_OP_cross_entropy, &loss), LAYEROPS_ERROR_INVALID,
          "cross_entropy: labels is 1 x 74", name, "a bad call");
  refused(layerops_prepare(ctx, (layerops_op)77, &loss), LAYEROPS_ERROR_INVALID,
          "unknown operation 77", name, "no operation");
  refused(layerops_prepare(ctx, LAYEROPS_OP_gemm, NULL), LAYEROPS_ERROR_INVALID, "args is NULL",
          name, "no arguments");
  refused(layerops_prepare(NULL, LAYEROPS_OP_gemm, &loss), LAYEROPS_ERROR_INVALID,
          "context is NULL", name, "no context");
  layerops_fill_args on_host = {.y = layerops_host_matrix(host, LAYEROPS_F32, 1, 4)};
  layerops_status status = layerops_prepare(ctx, LAYEROPS_OP_fill, &on_host);
  if (!strcmp(name, "cpu") || !strcmp(name, "reference"))
    is_ok(status, name, "a host view is used in place");
  else
    refused(status, LAYEROPS_ERROR_STATE, "host views cannot be prepared", name, "a host view");
  ok(host[0] == 5, "%s: which has not changed", name);
  layerops_graph *graph = NULL;
  layerops_fill_args fill = {.y = of(&s, LOSS, 1), .value = layerops_value(3)};
  is_ok(layerops_record_begin(ctx), name, "recording");
  is_ok(layerops_prepare(ctx, LAYEROPS_OP_fill, &fill), name, "prepared meanwhile");
  is_ok(layerops_record_end(ctx, &graph), name, "recorded");
  is_ok(layerops_graph_replay(graph), name, "replayed");
  is_int(count_different(&s, &untouched), 0, "%s: what was prepared is not in the graph", name);
  layerops_graph_destroy(graph);
  stop(&s);
  stop(&untouched);
}

static void test(layerops_context *ctx, const char *name) {
  test_bits(ctx, name);
  test_workspace(ctx, name);
  test_faults(ctx, name);
  test_refusals(ctx, name);
  test_prepare(ctx, name);
  test_order_of_ends(name);
  test_verbose(name);
}

int main(void) {
  on_each_device(test);
  return done();
}
