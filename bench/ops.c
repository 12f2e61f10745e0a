#include <config.h>

#include "bench/ops.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What is not said is as in a line of LAYEROPS_VERBOSE: f32 in and out. */
static const struct operation {
  const char *name;
  layerops_op op;
  layerops_activation activation;
  layerops_type in, out;
  const char *text; /* wants, or truth */
  bool momentum;
} operations[] = {
#define FORWARD(name, kind)                                                                        \
  { name, LAYEROPS_OP_activation_forward, kind, 0, 0, NULL, false }
#define BACKWARD(name, kind)                                                                       \
  { name, LAYEROPS_OP_activation_backward, kind, 0, 0, NULL, false }
#define PLAIN(name)                                                                                \
  { #name, LAYEROPS_OP_##name, LAYEROPS_IDENTITY, 0, 0, NULL, false }
    FORWARD("relu", LAYEROPS_RELU),
    FORWARD("leaky_relu", LAYEROPS_LEAKY_RELU),
    FORWARD("gelu", LAYEROPS_GELU),
    FORWARD("gelu_tanh", LAYEROPS_GELU_TANH),
    FORWARD("silu", LAYEROPS_SILU),
    FORWARD("sigmoid", LAYEROPS_SIGMOID),
    FORWARD("tanh", LAYEROPS_TANH),
    BACKWARD("relu_backward", LAYEROPS_RELU),
    BACKWARD("leaky_relu_backward", LAYEROPS_LEAKY_RELU),
    BACKWARD("gelu_backward", LAYEROPS_GELU),
    BACKWARD("gelu_tanh_backward", LAYEROPS_GELU_TANH),
    BACKWARD("silu_backward", LAYEROPS_SILU),
    BACKWARD("sigmoid_backward", LAYEROPS_SIGMOID),
    BACKWARD("tanh_backward", LAYEROPS_TANH),
    PLAIN(softmax),
    {"cross_entropy", LAYEROPS_OP_cross_entropy, LAYEROPS_IDENTITY, 0, 0, "labels", false},
    PLAIN(mse),
    {"column_sum", LAYEROPS_OP_linear_backward, LAYEROPS_IDENTITY, 0, 0, "b", false},
    PLAIN(sgd),
    {"momentum", LAYEROPS_OP_sgd, LAYEROPS_IDENTITY, 0, 0, NULL, true},
    PLAIN(adam),
    PLAIN(fill),
    PLAIN(copy),
    {"to_f16", LAYEROPS_OP_copy, LAYEROPS_IDENTITY, 0, LAYEROPS_F16, NULL, false},
    {"to_bf16", LAYEROPS_OP_copy, LAYEROPS_IDENTITY, 0, LAYEROPS_BF16, NULL, false},
    {"from_f16", LAYEROPS_OP_copy, LAYEROPS_IDENTITY, LAYEROPS_F16, 0, NULL, false},
    {"from_bf16", LAYEROPS_OP_copy, LAYEROPS_IDENTITY, LAYEROPS_BF16, 0, NULL, false},
    PLAIN(transpose),
    PLAIN(gather),
};
enum { OPERATIONS = sizeof operations / sizeof *operations };

/* As many rows of `n` as fill `bytes`, or `m` rows. */
static const struct shape {
  const char *name;
  double bytes;
  int64_t m, n;
} shapes[] = {
    {"L1", 0x1p14, 0, 256},     {"L2", 0x1p18, 0, 256}, {"L3", 0x1p22, 0, 512},
    {"DRAM", 0x1p28, 0, 1024},  {"64x10", 0, 64, 10},   {"64x128", 0, 64, 128},
    {"1024x128", 0, 1024, 128},
};
enum { SHAPES = sizeof shapes / sizeof *shapes };

/* ---- The list of names ---- */

static bool listed(const char *list, const char *name) {
  const size_t length = strlen(name);
  for (const char *at = list; at; at = strchr(at, ',')) {
    at += *at == ',';
    size_t word = strcspn(at, ",");
    if (word == 3 && !strncmp(at, "all", word)) return true;
    if (word == length && !strncmp(at, name, word)) return true;
  }
  return false;
}

static bool known(const char *word, size_t length) {
  if (length == 3 && !strncmp(word, "all", length)) return true;
  for (int i = 0; i < OPERATIONS; i++)
    if (strlen(operations[i].name) == length && !strncmp(word, operations[i].name, length))
      return true;
  return false;
}

bool bench_ops_known(const char *list, char *why, size_t why_size) {
  for (const char *at = list; at; at = strchr(at, ',')) {
    at += *at == ',';
    const size_t length = strcspn(at, ",");
    if (known(at, length)) continue;
    size_t used = (size_t)snprintf(why, why_size, "no operation '%.*s'; there are all",
                                   length < 40 ? (int)length : 40, at);
    for (int i = 0; i < OPERATIONS && used < why_size; i++)
      used += (size_t)snprintf(why + used, why_size - used, ", %s", operations[i].name);
    return false;
  }
  return true;
}

/* ---- The copy ---- */

struct copy {
  char *from, *to;
  size_t bytes; /* of each */
  int threads;
};

static void copy_share(const struct copy *c, int thread) {
  const size_t each = (c->bytes / (size_t)c->threads + 63) / 64 * 64;
  const size_t begin = (size_t)thread * each;
  if (begin >= c->bytes) return;
  memcpy(c->to + begin, c->from + begin, c->bytes - begin < each ? c->bytes - begin : each);
}

static bool run_copy(void *state, int64_t calls) {
  const struct copy *c = state;
  for (int64_t i = 0; i < calls; i++) {
    if (c->threads == 1) {
      copy_share(c, 0);
    } else {
#pragma omp parallel for num_threads(c->threads) schedule(static, 1)
      for (int t = 0; t < c->threads; t++) copy_share(c, t);
    }
    __asm__ volatile("" ::: "memory"); /* each copy is made */
  }
  return true;
}

/* Reads and writes `bytes` in all; first touched as it is used. */
static bool make_copy(struct copy *c, double bytes, int threads) {
  *c = (struct copy){.bytes = (size_t)(bytes / 2) + 1, .threads = threads};
  c->from = malloc(c->bytes);
  c->to = malloc(c->bytes);
  if (!c->from || !c->to) return false;
  memset(c->from, 1, c->bytes);
  return run_copy(c, 1);
}

/* ---- A row ---- */

static struct bench_line line_of(const struct operation *o, const struct shape *s) {
  struct bench_line line = {.op = o->op,
                            .m = 1,
                            .n = s->n,
                            .k = 1,
                            .batch = 1,
                            .type = o->in ? o->in : LAYEROPS_F32,
                            .out = o->out ? o->out : LAYEROPS_F32,
                            .activation = o->activation,
                            .momentum = o->momentum};
  double flops, bytes;
  snprintf(line.wants, sizeof line.wants, "%.7s", o->text ? o->text : "");
  snprintf(line.truth, sizeof line.truth, "%.15s", o->text ? o->text : "");
  bench_line_work(&line, &flops, &bytes);
  line.m = s->m ? s->m : (int64_t)fmax(1, s->bytes / bytes);
  return line;
}

static bool report(struct bench_session *s, const struct bench_target *target, const char *id,
                   const struct bench_line *line, const struct bench_stats *stats, int which) {
  struct bench_result r = {.id = id,
                           .op = layerops_op_name(line->op),
                           .device = target->info.name,
                           .dtype = layerops_type_name(line->type),
                           .contender = which ? "copy" : "layerops",
                           .kernel = which ? "copy" : layerops_last_kernel(target->ctx),
                           .activation = layerops_activation_name(line->activation),
                           .threads = target->threads,
                           .m = line->m,
                           .n = line->n,
                           .max_rel_err = NAN,
                           .repay = NAN,
                           .residency = bench_residencies[BENCH_WARM],
                           .way = bench_ways[BENCH_GRAPH],
                           .ratio = target->threads ? bench_ratio(&stats[0], &stats[1]) : NAN,
                           .elements = (double)line->m * (double)line->n,
                           .stats = &stats[which]};
  bench_line_work(line, &r.flops, &r.bytes);
  if (target->has_bound)
    r.bound = bench_bound(&target->bound, r.dtype, target->threads, r.flops, r.bytes);
  return bench_report_row(&s->report, &r);
}

/* False where memory or writing failed. */
static bool race(struct bench_session *s, int t, const char *id, const struct bench_line *line,
                 struct bench_call *call) {
  const struct bench_target *target = &s->targets[t];
  struct copy copy = {0};
  struct bench_stats stats[2];
  struct bench_repeated repeated;
  const struct bench_plan *plan;
  struct bench_contender contenders[] = {bench_session_repeat(s, t, call, &repeated, &plan),
                                         {.run = run_copy, .state = &copy}};
  const size_t count = target->threads ? 2 : 1;
  double flops, bytes;
  bench_line_work(line, &flops, &bytes);
  bool good = count == 1 || make_copy(&copy, bytes, target->threads);
  if (good && (good = bench_measure(contenders, count, plan, stats))) {
    if (stats[0].failed) {
      s->faults++;
      fprintf(stderr, "layerops bench: --ops: %s: %s\n", id, layerops_last_error());
    }
    for (size_t i = 0; good && !stats[0].failed && i < count; i++)
      good = report(s, target, id, line, stats, (int)i);
    bench_stats_free(stats, count);
  }
  free(copy.from);
  free(copy.to);
  return good;
}

static bool measure(struct bench_session *s, int t, const struct operation *o,
                    const struct shape *shape) {
  const struct bench_target *target = &s->targets[t];
  const struct bench_line line = line_of(o, shape);
  struct bench_call call;
  char id[64];
  snprintf(id, sizeof id, "%s/%s", o->name, shape->name);
  layerops_status status = bench_line_call(target->ctx, &line, &call);
  if (status == LAYEROPS_OK) status = bench_call_prepare(&call);
  bool good = true;
  if (status == LAYEROPS_OK) {
    good = race(s, t, id, &line, &call);
  } else {
    s->faults += status != LAYEROPS_ERROR_UNSUPPORTED;
    fprintf(stderr, "layerops bench: --ops: %s: %s\n", id, layerops_last_error());
    good = bench_report_skip(&s->report, id, target->info.name, "layerops", layerops_last_error());
  }
  bench_call_free(&call);
  return good;
}

bool bench_ops_measure(struct bench_session *s, const char *list, int t) {
  bool good = true;
  for (int i = 0; good && i < OPERATIONS; i++)
    for (int j = 0; good && listed(list, operations[i].name) && j < SHAPES; j++)
      good = measure(s, t, &operations[i], &shapes[j]);
  return good;
}
