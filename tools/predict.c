/* layerops predict */
#include <config.h>

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/dataset.h"
#include "tools/log.h"
#include "tools/samples.h"
#include "tools/tool.h"

#define COMMAND "predict"
#define CHUNK   4096 /* samples at once: what is in memory does not grow with the data set */

struct settings {
  const char *model, *data, *device;
  int32_t label_column, threads;
  bool tsv, json;
};

static bool parse_label_column(const char *text, void *field) {
  static const char *const names[] = {"auto", "first", "last", "none"};
  for (int i = 0; i < 4; i++)
    if (!strcmp(text, names[i])) {
      *(int32_t *)field = i;
      return true;
    }
  return false;
}

#define OPTION(name, argument, want, help, parse, field)                                           \
  { name, argument, want, help, parse, offsetof(struct settings, field) }
static const struct tool_option options[] = {
    OPTION("model", "FILE", "a path", "the network, as 'layerops train --save' wrote it (needed)",
           parse_text, model),
    OPTION("data", "DIR|FILE", "a path",
           "samples: the test part of a data set as in 'layerops\n"
           "train', or one file (needed)",
           parse_text, data),
    OPTION("label-column", "WHICH", "auto, first, last or none",
           "where a CSV file has its labels: auto (default), first,\n"
           "last, none (each column is a feature)",
           parse_label_column, label_column),
    OPTION("device", "D", "a device", "as 'layerops devices' lists them", parse_text, device),
    OPTION("threads", "N", "a whole number from 1 to 4096", "of the CPU (default: its cores)",
           parse_threads, threads),
    OPTION("tsv", NULL, NULL, "print tab-separated values, a header line first", parse_switch, tsv),
    OPTION("json", NULL, NULL, "print one JSON object", parse_switch, json),
};
static const struct tool_usage usage = {
    .command = COMMAND,
    .synopsis = "--model FILE --data DIR|FILE [OPTION]...",
    .text =
        "Prints the class and its probability for each sample (of a network trained with --loss\n"
        "mse: its output), and the accuracy where the data has labels.",
    .options = options,
    .count = sizeof options / sizeof *options,
};

struct prediction {
  const struct settings *settings;
  struct dataset data;
  layerops_context *ctx;
  layerops_device_info device;
  layerops_network *network;
  layerops_network_info info;
  const char *value_name; /* of what stands beside the class */
  int64_t outputs, correct;
  float *y;        /* [CHUNK, outputs] */
  json_t *samples; /* with --json */
};

static int open_all(struct prediction *p) {
  const struct settings *s = p->settings;
  layerops_open_args args = {.device = s->device, .threads = s->threads};
  if (layerops_open_with(&args, &p->ctx) || layerops_context_info(p->ctx, &p->device) ||
      layerops_network_load(p->ctx, s->model, &p->network) ||
      layerops_network_get_info(p->network, &p->info))
    return tool_library_failed(COMMAND);
  p->outputs = p->info.widths[p->info.count - 1];
  p->value_name = p->info.loss == LAYEROPS_LOSS_MSE ? "output" : "probability";
  return -1;
}

static int load_data(struct prediction *p) {
  const struct settings *s = p->settings;
  struct dataset_options how = {.use = DATASET_PREDICT,
                                .label_column = (enum dataset_label_column)s->label_column};
  if (dataset_load(&p->data, s->data, &how)) return tool_fail(COMMAND, "%s", p->data.error);
  if (p->data.features != p->info.widths[0])
    return tool_fail(COMMAND, "%s takes %lld inputs, but the samples of %s have %lld features",
                     s->model, (long long)p->info.widths[0], s->data, (long long)p->data.features);
  if (p->data.classes > p->outputs)
    return tool_fail(COMMAND, "%s has %lld outputs, but %s has %d classes", s->model,
                     (long long)p->outputs, s->data, p->data.classes);
  p->y = malloc(CHUNK * (size_t)p->outputs * sizeof *p->y);
  return p->y ? -1 : tool_fail(COMMAND, "out of memory");
}

/* The first of the largest; NaN counts as largest. */
static int64_t largest(const float *y, int64_t n) {
  int64_t best = 0;
  for (int64_t i = 1; i < n && !isnan(y[best]); i++)
    if (isnan(y[i]) || y[i] > y[best]) best = i;
  return best;
}

static bool add_json(struct prediction *p, int64_t i, int64_t class, double value,
                     const int32_t *label) {
  json_t *object = json_pack("{s:I, s:I, s:o}", "index", (json_int_t)i, "class", (json_int_t) class,
                             p->value_name, log_number(value));
  if (object && label) json_object_set_new(object, "label", json_integer(*label));
  return !json_array_append_new(p->samples, object);
}

static void print_row(const struct prediction *p, int64_t i, int64_t class, double value,
                      const int32_t *label) {
  const char *format = p->settings->tsv ? "%lld\t%lld\t%.9g" : "%9lld %8lld %12.6f";
  printf(format, (long long)i, (long long)class, value);
  if (label) printf(p->settings->tsv ? "\t%d" : " %8d%s", *label, *label == class ? "" : "  wrong");
  putchar('\n');
}

static int report(struct prediction *p, int64_t i, const float *y) {
  const int32_t *label = p->data.test.labels ? &p->data.test.labels[i] : NULL;
  int64_t class = largest(y, p->outputs);
  if (label) p->correct += *label == class;
  if (!p->settings->json)
    print_row(p, i, class, y[class], label);
  else if (!add_json(p, i, class, y[class], label))
    return tool_fail(COMMAND, "out of memory");
  return -1;
}

static int predict(struct prediction *p) {
  const struct dataset_part *part = &p->data.test;
  for (int64_t first = 0; first < part->count; first += CHUNK) {
    int64_t rows = part->count - first < CHUNK ? part->count - first : CHUNK;
    layerops_matrix x = layerops_host_matrix(part->x + first * p->data.features, LAYEROPS_F32, rows,
                                             p->data.features);
    layerops_matrix y = layerops_host_matrix(p->y, LAYEROPS_F32, rows, p->outputs);
    if (layerops_network_predict(p->network, &x, &y)) return tool_library_failed(COMMAND);
    for (int64_t i = 0; i < rows; i++) {
      int status = report(p, first + i, p->y + i * p->outputs);
      if (status >= 0) return status;
    }
  }
  return -1;
}

static double accuracy(const struct prediction *p) {
  return p->data.test.labels ? (double)p->correct / (double)p->data.test.count : NAN;
}

static int print_json(struct prediction *p) {
  json_t *root = json_pack("{s:s, s:s, s:b, s:s, s:I, s:o, s:O}", "model", p->settings->model,
                           "data", p->data.name, "subset", (int)p->data.subset, "device",
                           p->device.name, "samples", (json_int_t)p->data.test.count, "accuracy",
                           log_number(accuracy(p)), "predictions", p->samples);
  int failed = root ? json_dumpf(root, stdout, JSON_INDENT(1) | JSON_REAL_PRECISION(9)) : -1;
  json_decref(root);
  if (failed) return tool_fail(COMMAND, "writing JSON failed");
  putchar('\n');
  return TOOL_OK;
}

static int run(struct prediction *p) {
  const struct settings *s = p->settings;
  int status = open_all(p);
  if (status < 0) status = load_data(p);
  if (status >= 0) return status;
  bool labels = p->data.test.labels != NULL;
  if (s->json && !(p->samples = json_array())) return tool_fail(COMMAND, "out of memory");
  if (s->tsv) printf("index\tclass\t%s%s\n", p->value_name, labels ? "\tlabel" : "");
  if (!s->tsv && !s->json)
    printf("%9s %8s %12s%s\n", "index", "class", p->value_name, labels ? "    label" : "");
  status = predict(p);
  if (status >= 0) return status;
  if (s->json) return print_json(p);
  if (!s->tsv && labels)
    printf("%s on %s%s: accuracy %.4f (%lld of %lld)\n", p->device.name, p->data.name,
           samples_subset(&p->data), accuracy(p), (long long)p->correct,
           (long long)p->data.test.count);
  return TOOL_OK;
}

int tool_predict(int argc, char **argv) {
  struct settings settings = {0};
  struct prediction p = {.settings = &settings};
  int status = tool_parse(&usage, argc, argv, &settings);
  if (status >= 0) return status;
  if (!settings.model || !settings.data)
    return tool_misused(COMMAND, "--%s is missing", settings.model ? "data" : "model");
  if (settings.tsv && settings.json)
    return tool_misused(COMMAND, "--tsv and --json exclude each other");
  status = run(&p);
  json_decref(p.samples);
  free(p.y);
  layerops_network_destroy(p.network);
  layerops_close(p.ctx);
  dataset_free(&p.data);
  return status;
}
