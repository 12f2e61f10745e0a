/* layerops tune: measures which kernels are the fastest for layers on this device. */
#include <config.h>

#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bench/operands.h"
#include "bench/suite.h"
#include "tools/interrupt.h"
#include "tools/progress.h"
#include "tools/tool.h"

#define COMMAND    "tune"
#define MAX_SHAPES 64
#define MAX_TYPES  16
#define POOL       1048573 /* random numbers, again and again: a prime, so that rows differ */

struct shape {
  int64_t m, n, k;
};

struct settings {
  const char *suite, *model, *device;
  struct shape shapes[MAX_SHAPES + 1];           /* m 0 ends them */
  const struct bench_type *types[MAX_TYPES + 1]; /* NULL ends them */
  int64_t batch;                                 /* 0: not given */
  double seconds;
  bool backward, again, list, clear, tsv, json;
};

static bool parse_shape(const char *text, void *field) {
  struct shape *shapes = field;
  int count = 0, end = 0;
  while (count < MAX_SHAPES && shapes[count].m) count++;
  struct shape s;
  if (count == MAX_SHAPES || strspn(text, "0123456789x") != strlen(text)) return false;
  if (sscanf(text, "%9" SCNd64 "x%9" SCNd64 "x%9" SCNd64 "%n", &s.m, &s.n, &s.k, &end) != 3 ||
      text[end] || s.m < 1 || s.n < 1 || s.k < 1)
    return false;
  shapes[count] = s;
  return true;
}

static bool parse_type(const char *text, void *field) {
  const struct bench_type **types = field, *type = bench_type_find(text);
  int count = 0;
  if (!type || type->truncation > 0 || type->fast) return false;
  while (types[count])
    if (types[count++] == type) return false;
  types[count] = type;
  return true;
}

/* An operand's bytes then fit 63 bits with widths below 2^32. */
static bool parse_batch(const char *text, void *field) {
  return parse_count(text, field) && *(int64_t *)field <= 1 << 29;
}

#define OPTION(name, argument, want, help, parse, field)                                           \
  { name, argument, want, help, parse, offsetof(struct settings, field) }
static const struct tool_option options[] = {
    OPTION("suite", "FILE", "a file", "the layers of a suite of 'layerops bench'", parse_text,
           suite),
    OPTION("shape", "MxNxK", "three sizes, as in 64x128x784, and there may be 64",
           "a layer Y[M,N] = X[M,K] W[N,K]^T; may be repeated", parse_shape, shapes),
    OPTION("model", "FILE", "a file", "the layers of a network that 'layerops train' saved",
           parse_text, model),
    OPTION("batch", "N", "a whole number from 1 to 536870912", "with --model: samples a step (64)",
           parse_batch, batch),
    OPTION("backward", NULL, NULL, "also the products of the backward pass", parse_switch,
           backward),
    OPTION("device", "D", "a device", "as 'layerops devices' lists them", parse_text, device),
    OPTION(
        "dtype", "T", "f32, f16, bf16, int8, f8e4m3, f8e5m2 or a pair as f16:i8, each once",
        "f32 (as without it), f16, bf16, int8, f8e4m3,\nf8e5m2, or X:W: f16 or bf16 by i8, f8e4m3 "
        "or f8e5m2;\nmay be repeated",
        parse_type, types),
    OPTION("seconds", "N", "a positive number", "what is not tuned within this time is left (60)",
           parse_positive, seconds),
    OPTION("again", NULL, NULL, "also what was tuned before", parse_switch, again),
    OPTION("list", NULL, NULL, "print what was tuned on the device, and end", parse_switch, list),
    OPTION("clear", NULL, NULL, "forget what was tuned on the device, and end", parse_switch,
           clear),
    OPTION("tsv", NULL, NULL, "print tab-separated values, a header line first", parse_switch, tsv),
    OPTION("json", NULL, NULL, "print one JSON object", parse_switch, json),
};
static const struct tool_usage usage = {
    .command = COMMAND,
    .synopsis = "--suite FILE | --shape MxNxK... | --model FILE | --list | --clear [OPTION]...",
    .text = "Measures which kernel is the fastest for the products of layers on this device, "
            "compares it\n"
            "with float64, and keeps it in $XDG_CACHE_HOME/layerops (or ~/.cache/layerops) for "
            "programs\n"
            "that open the device later. It is never needed: without it a rule chooses.",
    .after =
        "A line for each product C[m,n] = op(A) op(B) over k; order says which of the two is\n"
        "transposed (forward nt, dX nn, dW tn). rule and kernel: what the rule would choose and "
        "the\n"
        "fastest, :N in N parts of k; their times in microseconds, with operands that no cache\n"
        "holds; gain: the ratio of the two.",
    .options = options,
    .count = sizeof options / sizeof *options,
};

struct layer {
  char *name;
  struct shape shape;
  layerops_activation activation;
};

struct tuning {
  const struct settings *settings;
  layerops_context *ctx;
  layerops_device_info device;
  struct layer *layers;
  size_t layer_count;
  const char *layer; /* that is being tuned; "" for --list */
  struct progress progress;
  json_t *products;
  int64_t tuned, left, calls;
  double gain;                  /* sum of its logarithms */
  double end;                   /* of the time */
  bool short_of_memory, header; /* header: printed */
  layerops_buffer *x, *w, *y, *dx, *dw, *vector;
};

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- What is told of a product ---- */

static const char *order_of(const layerops_tuned *p) {
  return p->trans_a ? p->trans_b ? "tt" : "tn" : p->trans_b ? "nt" : "nn";
}

static double gain_of(const layerops_tuned *p) {
  return p->seconds > 0 ? p->rule_seconds / p->seconds : 1;
}

static void print_tsv(const struct tuning *t, const layerops_tuned *p) {
  printf("%s\t%s\t%" PRId64 "\t%" PRId64 "\t%" PRId64 "\t%" PRId64 "\t%s\t%u\t%d\t%d\t", t->layer,
         order_of(p), p->m, p->n, p->k, p->batch, layerops_type_name(p->type), (unsigned)p->flags,
         (int)p->row_sum, (int)p->align);
  printf("%s\t%d\t%.2f\t%s\t%d\t%.2f\t%.3f\t%s\n", p->rule_kernel, (int)p->rule_parts,
         1e6 * p->rule_seconds, p->kernel, (int)p->parts, 1e6 * p->seconds, gain_of(p),
         p->reason ? p->reason : "");
}

static void print_line(const struct tuning *t, const layerops_tuned *p) {
  char shape[64], rule[48], kernel[48];
  snprintf(shape, sizeof shape, "%" PRId64 "x%" PRId64 "x%" PRId64, p->m, p->n, p->k);
  if (p->batch != 1) snprintf(shape + strlen(shape), 24, " *%" PRId64, p->batch);
  printf("%-18s %-5s %s %-18s ", t->layer, layerops_type_name(p->type), order_of(p), shape);
  if (p->reason) {
    printf("left: %s\n", p->reason);
    return;
  }
  snprintf(rule, sizeof rule, "%s:%d", p->rule_kernel, (int)p->rule_parts);
  snprintf(kernel, sizeof kernel, "%s:%d", p->kernel, (int)p->parts);
  printf("%-22s %9.2f  %-22s %9.2f  %5.2f\n", rule, 1e6 * p->rule_seconds, kernel, 1e6 * p->seconds,
         gain_of(p));
}

static json_t *describe(const struct tuning *t, const layerops_tuned *p) {
  json_t *object =
      json_pack("{s:s, s:s, s:I, s:I, s:I, s:I, s:s, s:i, s:b, s:i}", "layer", t->layer, "order",
                order_of(p), "m", (json_int_t)p->m, "n", (json_int_t)p->n, "k", (json_int_t)p->k,
                "batch", (json_int_t)p->batch, "type", layerops_type_name(p->type), "flags",
                (int)p->flags, "row_sum", (int)p->row_sum, "align", (int)p->align);
  if (!object) return NULL;
  if (p->reason) {
    json_object_set_new(object, "left", json_string(p->reason));
    return object;
  }
  json_object_set_new(object, "rule", json_string(p->rule_kernel));
  json_object_set_new(object, "rule_parts", json_integer(p->rule_parts));
  json_object_set_new(object, "rule_us", json_real(1e6 * p->rule_seconds));
  json_object_set_new(object, "kernel", json_string(p->kernel));
  json_object_set_new(object, "parts", json_integer(p->parts));
  json_object_set_new(object, "us", json_real(1e6 * p->seconds));
  return object;
}

/* Before the first line, so that a failure has standard output for nothing. */
static void print_header(struct tuning *t) {
  if (t->settings->json || t->header) return;
  t->header = true;
  if (t->settings->tsv)
    puts("layer\torder\tm\tn\tk\tbatch\ttype\tflags\trow_sum\talign\trule\trule_parts\trule_us\t"
         "kernel\tparts\tus\tgain\tleft");
  else
    printf("%s: %s\n%-18s %-5s %s %-18s %-22s %9s  %-22s %9s  %5s\n", t->device.name,
           t->device.description, "layer", "type", "or", "shape", "rule", "us", "kernel", "us",
           "gain");
}

static void tell(void *user, const layerops_tuned *p) {
  struct tuning *t = user;
  progress_clear(&t->progress);
  print_header(t);
  if (p->reason)
    t->left++;
  else {
    t->tuned++;
    t->gain += log(gain_of(p));
  }
  if (t->settings->json)
    t->short_of_memory |= json_array_append_new(t->products, describe(t, p)) != 0;
  else if (t->settings->tsv)
    print_tsv(t, p);
  else
    print_line(t, p);
}

static int finish(struct tuning *t, bool counted) {
  if (t->short_of_memory) return tool_fail(COMMAND, "out of memory");
  if (t->settings->json) {
    json_t *root = json_pack("{s:s, s:s, s:s, s:s, s:O}", "version", layerops_version_string(),
                             "device", t->device.name, "description", t->device.description,
                             "driver", t->device.driver, "products", t->products);
    int failed = !root || json_dumpf(root, stdout, JSON_INDENT(2)) || putchar('\n') < 0;
    json_decref(root);
    return failed ? tool_fail(COMMAND, "out of memory, or writing failed") : TOOL_OK;
  }
  print_header(t);
  if (t->settings->tsv) return TOOL_OK;
  if (!counted)
    printf("%" PRId64 " products\n", t->tuned);
  else
    printf("%" PRId64 " products tuned, gain %.3f in the geometric mean, %" PRId64 " left, %" PRId64
           " tuned before\n",
           t->tuned, t->tuned ? exp(t->gain / (double)t->tuned) : 1.0, t->left,
           t->calls - t->tuned - t->left);
  return TOOL_OK;
}

/* ---- Layers ---- */

static bool add_layer(struct tuning *t, const char *name, struct shape shape,
                      layerops_activation activation) {
  struct layer *layers = realloc(t->layers, (t->layer_count + 1) * sizeof *layers);
  if (!layers) return false;
  t->layers = layers;
  layers[t->layer_count] = (struct layer){strdup(name), shape, activation};
  return layers[t->layer_count++].name != NULL;
}

static int add_suite(struct tuning *t) {
  struct bench_suite suite;
  char why[512];
  if (!bench_suite_read(t->settings->suite, &suite, why, sizeof why))
    return tool_misused(COMMAND, "--suite: %s", why);
  bool good = true, dense = suite.rows[0].block == 0;
  for (size_t i = 0; dense && good && i < suite.count; i++) {
    const struct bench_row *r = &suite.rows[i];
    good = add_layer(t, r->id, (struct shape){r->m, r->n, r->k}, r->activation);
  }
  bench_suite_free(&suite);
  if (!dense)
    return tool_misused(COMMAND, "--suite: %s has block-sparse layers, which have nothing to tune",
                        t->settings->suite);
  return good ? -1 : tool_fail(COMMAND, "out of memory");
}

static int add_shapes(struct tuning *t) {
  for (const struct shape *s = t->settings->shapes; s->m; s++) {
    char name[64];
    snprintf(name, sizeof name, "%" PRId64 "x%" PRId64 "x%" PRId64, s->m, s->n, s->k);
    if (!add_layer(t, name, *s, LAYEROPS_IDENTITY)) return tool_fail(COMMAND, "out of memory");
  }
  return -1;
}

static int add_model(struct tuning *t) {
  layerops_network *network;
  layerops_network_info info;
  if (layerops_network_load(t->ctx, t->settings->model, &network))
    return tool_library_failed(COMMAND);
  layerops_status status = layerops_network_get_info(network, &info);
  bool good = true;
  for (int64_t i = 0; !status && good && i + 1 < info.count; i++) {
    char name[32];
    const layerops_bsr *sparse;
    status = layerops_network_sparse(network, i, &sparse);
    if (status || sparse) continue;
    snprintf(name, sizeof name, "layers.%" PRId64, i);
    int64_t batch = t->settings->batch ? t->settings->batch : 64;
    good = add_layer(t, name, (struct shape){batch, info.widths[i + 1], info.widths[i]},
                     i + 2 < info.count ? info.activation : LAYEROPS_IDENTITY);
  }
  layerops_network_destroy(network);
  if (status) return tool_library_failed(COMMAND);
  return good ? -1 : tool_fail(COMMAND, "out of memory");
}

/* ---- Operands ---- */

static layerops_type library_type(const struct bench_type *type) {
  for (int i = 1; i < LAYEROPS_TYPE_COUNT; i++)
    if (!strcmp(layerops_type_name(i), type->element)) return i;
  return LAYEROPS_NONE_TYPE;
}

/* `pool`: POOL numbers; NULL: whatever the memory holds. */
static bool make_buffer(struct tuning *t, const struct bench_type *type, const void *pool,
                        int64_t count, layerops_buffer **buffer) {
  int64_t size = (int64_t)type->size, bytes = count * size, each = POOL * size;
  if (layerops_buffer_create(t->ctx, bytes, buffer)) return false;
  for (int64_t at = 0; pool && at < bytes; at += each)
    if (layerops_buffer_write_at(t->ctx, *buffer, at, pool, bytes - at < each ? bytes - at : each))
      return false;
  return true;
}

static void free_buffers(struct tuning *t) {
  layerops_buffer **all[] = {&t->x, &t->w, &t->y, &t->dx, &t->dw, &t->vector};
  for (int i = 0; i < 6; i++) {
    layerops_buffer_destroy(*all[i]);
    *all[i] = NULL;
  }
}

/* A type's random numbers: of X and Y's gradient, and of W. */
struct pools {
  void *x, *w;
};

static bool make_buffers(struct tuning *t, const struct bench_type *type, const struct pools *pools,
                         const struct shape *s) {
  const struct bench_type *y = bench_type_y(type);
  bool backward = t->settings->backward && y == type;
  return make_buffer(t, type, pools->x, s->m * s->k, &t->x) &&
         make_buffer(t, bench_type_w(type), pools->w, s->n * s->k, &t->w) &&
         make_buffer(t, y, y == type ? pools->x : NULL, s->m * s->n, &t->y) &&
         make_buffer(t, y, y == type ? pools->x : NULL, s->n, &t->vector) &&
         (!backward || (make_buffer(t, type, NULL, s->m * s->k, &t->dx) &&
                        make_buffer(t, type, NULL, s->n * s->k, &t->dw)));
}

static layerops_status call_forward(struct tuning *t, const struct bench_type *type,
                                    const struct layer *layer) {
  const struct shape *s = &layer->shape;
  layerops_type y = library_type(bench_type_y(type));
  layerops_linear_args a = {
      .x = layerops_matrix_of(t->x, library_type(type), s->m, s->k),
      .w = layerops_matrix_of(t->w, library_type(bench_type_w(type)), s->n, s->k),
      .y = layerops_matrix_of(t->y, y, s->m, s->n),
      .activation = layer->activation};
  if (bench_type_y(type) == type) a.bias = layerops_matrix_of(t->vector, y, 1, s->n);
  t->calls++;
  return layerops_linear_forward(t->ctx, &a);
}

static layerops_status call_backward(struct tuning *t, const struct bench_type *type,
                                     const struct shape *s) {
  layerops_type x = library_type(type);
  layerops_linear_backward_args a = {.dy = layerops_matrix_of(t->y, x, s->m, s->n),
                                     .x = layerops_matrix_of(t->x, x, s->m, s->k),
                                     .w = layerops_matrix_of(t->w, x, s->n, s->k),
                                     .dx = layerops_matrix_of(t->dx, x, s->m, s->k),
                                     .dw = layerops_matrix_of(t->dw, x, s->n, s->k),
                                     .dbias = layerops_matrix_of(t->vector, x, 1, s->n)};
  t->calls += 2;
  return layerops_linear_backward(t->ctx, &a);
}

/* ---- The run ---- */

/* Backward first: its dY is still random. */
static int tune_layer(struct tuning *t, const struct bench_type *type, const struct pools *pools,
                      const struct layer *layer) {
  t->layer = layer->name;
  bool good = make_buffers(t, type, pools, &layer->shape);
  if (good && t->dx) good = !call_backward(t, type, &layer->shape);
  good = good && !call_forward(t, type, layer) && !layerops_sync(t->ctx);
  free_buffers(t);
  if (good) return TOOL_OK;
  progress_clear(&t->progress);
  return tool_fail(COMMAND, "%s in %s: %s", layer->name, type->name, layerops_last_error());
}

/* Layers that the device cannot hold, or does not have, are told and passed over. */
static int tune_type(struct tuning *t, const struct bench_type *type, int64_t *done,
                     int64_t total) {
  struct pools pools = {malloc(POOL * type->size), malloc(POOL * bench_type_w(type)->size)};
  if (!pools.x || !pools.w) {
    free(pools.x);
    free(pools.w);
    return tool_fail(COMMAND, "out of memory");
  }
  bench_normal(type, pools.x, POOL, 1, 1, 1);
  bench_normal(bench_type_w(type), pools.w, POOL, 1, 1, 2);
  int status = TOOL_OK;
  for (size_t i = 0; i < t->layer_count && !interrupt_came() && now() < t->end; i++, ++*done) {
    progress_show(&t->progress, t->layers[i].name, *done, total);
    if (tune_layer(t, type, &pools, &t->layers[i])) status = TOOL_FAILED;
  }
  free(pools.x);
  free(pools.w);
  return status;
}

static int tune_all(struct tuning *t) {
  const struct settings *s = t->settings;
  int count = 0, status = TOOL_OK;
  while (s->types[count]) count++;
  int64_t done = 0, total = count * (int64_t)t->layer_count;
  for (int i = 0; i < count; i++)
    if (tune_type(t, s->types[i], &done, total)) status = TOOL_FAILED;
  progress_clear(&t->progress);
  if (done < total && !interrupt_came())
    fprintf(stderr,
            "layerops tune: %" PRId64 " of %" PRId64 " layers left: the %g seconds are over\n",
            total - done, total, s->seconds);
  return status;
}

static int run_tuning(struct tuning *t) {
  const struct settings *s = t->settings;
  int status = s->suite ? add_suite(t) : s->model ? add_model(t) : add_shapes(t);
  if (status >= 0) return status;
  layerops_tune_args args = {.seconds = s->seconds, .again = s->again, .told = tell, .user = t};
  if (layerops_tune_begin(t->ctx, &args)) return tool_library_failed(COMMAND);
  t->end = now() + s->seconds;
  interrupt_watch();
  progress_start(&t->progress);
  status = tune_all(t);
  if (layerops_tune_end(t->ctx)) status = tool_library_failed(COMMAND);
  int finished = finish(t, true);
  return interrupt_came() ? TOOL_SIGNAL + interrupt_came() : status ? status : finished;
}

static int run_list(struct tuning *t) {
  if (layerops_tune_list(t->ctx, tell, t)) return tool_library_failed(COMMAND);
  return finish(t, false);
}

static int run_clear(struct tuning *t) {
  return layerops_tune_clear(t->ctx) ? tool_library_failed(COMMAND) : TOOL_OK;
}

static int run(struct tuning *t) {
  const struct settings *s = t->settings;
  layerops_open_args args = {.device = s->device};
  t->products = json_array();
  if (!t->products) return tool_fail(COMMAND, "out of memory");
  if (layerops_open_with(&args, &t->ctx) || layerops_context_info(t->ctx, &t->device))
    return tool_library_failed(COMMAND);
  return s->clear ? run_clear(t) : s->list ? run_list(t) : run_tuning(t);
}

static int check(const struct settings *s) {
  int given = (s->suite != NULL) + (s->shapes[0].m > 0) + (s->model != NULL) + s->list + s->clear;
  if (given != 1)
    return tool_misused(COMMAND, "give one of --suite FILE, --shape MxNxK, --model FILE, --list, "
                                 "--clear");
  if (s->tsv && s->json) return tool_misused(COMMAND, "give either --tsv or --json");
  if (s->batch && !s->model) return tool_misused(COMMAND, "--batch goes with --model");
  return -1;
}

int tool_tune(int argc, char **argv) {
  struct settings s = {.seconds = 60};
  int status = tool_parse(&usage, argc, argv, &s);
  if (status < 0) status = check(&s);
  if (status >= 0) return status;
  if (!s.types[0]) s.types[0] = bench_type_find("f32");
  struct tuning t = {.settings = &s, .layer = ""};
  status = run(&t);
  layerops_close(t.ctx);
  json_decref(t.products);
  for (size_t i = 0; i < t.layer_count; i++) free(t.layers[i].name);
  free(t.layers);
  return status;
}
