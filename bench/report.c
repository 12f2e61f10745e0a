#include <config.h>

#include "bench/report.h"

#include <math.h>
#include <string.h>
#include <unistd.h>

#include "bench/commit.inc"
#include "bench/host.h"

static double gflops(const struct bench_result *r) {
  return r->flops / r->stats->median * 1e-9;
}

static double sol_pct(const struct bench_result *r) {
  return r->bound > 0 ? 100 * r->bound / r->stats->median : NAN;
}

static double gbytes(const struct bench_result *r) {
  return r->bytes / r->stats->median * 1e-9;
}

static double ns_an_element(const struct bench_result *r) {
  return r->stats->median / r->elements * 1e9;
}

static const char *weights_name(const struct bench_result *r) {
  return r->packed ? "packed" : "plain";
}

/* What each kind has beside the columns of all rows. */
static const struct {
  const char *names[2], *titles[2]; /* in --tsv, in the table */
  bool ratio;
} kinds[] = {[BENCH_LAYERS] = {{"weights", "repay"}, {"weights", "repay"}, false},
             [BENCH_BESIDE_PEERS] = {{"weights", "repay"}, {"weights", "repay"}, true},
             [BENCH_RATES] = {{"gbs", "ns_element"}, {"GB/s", "ns/elem"}, true}};

static bool begin_json(struct bench_report *report) {
  report->results = json_array();
  report->skipped = json_array();
  report->peer_list = json_array();
  report->summaries = json_array();
  return report->results && report->skipped && report->peer_list && report->summaries;
}

static bool begin_latencies(FILE *file, bool tsv) {
  if (tsv) return fputs("id\tdevice\tthreads\tcalls\tp50_s\tp90_s\tp99_s\tmax_s\n", file) >= 0;
  return fprintf(file, "%-28s %-10s %3s %10s %12s %12s %12s %12s %9s\n", "id", "device", "thr",
                 "calls", "p50", "p90", "p99", "max", "p99/p50") > 0;
}

static bool begin_rows(FILE *file, bool tsv, enum bench_kind kind) {
  const char *const *names = tsv ? kinds[kind].names : kinds[kind].titles;
  if (tsv)
    return fprintf(file,
                   "id\tdevice\tdtype\tthreads\tkernel\tmedian_s\tgflops\tmax_rel_err\tsol_pct\t"
                   "%s\t%s%s\tresidency\tway\n",
                   names[0], names[1], kinds[kind].ratio ? "\tratio" : "") > 0;
  return fprintf(file, "%-28s %-10s %-5s %3s %12s %10s %9s %6s %7s %7s%s  %-9s %-5s  %s\n", "id",
                 "device", "dtype", "thr", "median", "GFLOP/s", "error", "sol%", names[0], names[1],
                 kinds[kind].ratio ? "  ratio" : "", "residency", "way", "kernel") > 0;
}

bool bench_report_begin(struct bench_report *report, enum bench_format format, enum bench_kind kind,
                        FILE *file) {
  *report = (struct bench_report){.format = format, .kind = kind, .file = file};
  const bool tsv = format == BENCH_TSV;
  if (format == BENCH_JSON) return begin_json(report);
  return kind == BENCH_LATENCIES ? begin_latencies(file, tsv) : begin_rows(file, tsv, kind);
}

/* A peer's row says so in the column of the kernel. */
static void kernel_name(const struct bench_result *r, char *name, size_t size) {
  const bool ours = !strcmp(r->contender, "layerops"), dense = !strcmp(r->contender, "dense");
  snprintf(name, size, "%s%s", ours ? "" : dense ? "dense:" : "peer:", r->kernel);
}

static bool tsv_row(const struct bench_report *report, const struct bench_result *r) {
  char kernel[160];
  kernel_name(r, kernel, sizeof kernel);
  fprintf(report->file, "%s\t%s\t%s\t%d\t%s\t%.6g\t%.6g\t%.3g\t%.4g", r->id, r->device, r->dtype,
          r->threads, kernel, r->stats->median, gflops(r), r->max_rel_err, sol_pct(r));
  if (report->kind == BENCH_RATES)
    fprintf(report->file, "\t%.4g\t%.4g", gbytes(r), ns_an_element(r));
  else
    fprintf(report->file, "\t%s\t%.3g", weights_name(r), r->repay);
  if (kinds[report->kind].ratio) fprintf(report->file, "\t%.4g", r->ratio);
  fprintf(report->file, "\t%s\t%s\n", r->residency, r->way);
  return !ferror(report->file) && fflush(report->file) == 0;
}

static void format_time(double seconds, char *text, size_t size) {
  static const struct {
    double unit;
    const char *name;
  } units[] = {{1, "s"}, {1e-3, "ms"}, {1e-6, "us"}};
  int i = seconds >= 1 ? 0 : seconds >= 1e-3 ? 1 : 2;
  snprintf(text, size, "%.4g %s", seconds / units[i].unit, units[i].name);
}

static bool table_row(const struct bench_report *report, const struct bench_result *r) {
  char kernel[160], time[32];
  kernel_name(r, kernel, sizeof kernel);
  format_time(r->stats->median, time, sizeof time);
  fprintf(report->file, "%-28s %-10s %-5s %3d %12s %10.4g %9.2g %6.3g", r->id, r->device, r->dtype,
          r->threads, time, gflops(r), r->max_rel_err, sol_pct(r));
  if (report->kind == BENCH_RATES)
    fprintf(report->file, " %7.3g %7.3g", gbytes(r), ns_an_element(r));
  else
    fprintf(report->file, " %7s %7.3g", weights_name(r), r->repay);
  if (kinds[report->kind].ratio) fprintf(report->file, " %6.3g", r->ratio);
  fprintf(report->file, "  %-9s %-5s  %s\n", r->residency, r->way, kernel);
  return fflush(report->file) == 0;
}

bool bench_report_latency(struct bench_report *report, const struct bench_latency *l) {
  const double seconds[] = {l->p50, l->p90, l->p99, l->max};
  if (report->format == BENCH_JSON) {
    json_t *entry = json_pack("{s:s, s:s, s:s, s:i, s:I, s:f, s:f, s:f, s:f}", "id", l->id, "op",
                              "network_predict", "device", l->device, "threads", l->threads,
                              "calls", (json_int_t)l->calls, "p50_s", l->p50, "p90_s", l->p90,
                              "p99_s", l->p99, "max_s", l->max);
    return entry && !json_array_append_new(report->results, entry);
  }
  bool tsv = report->format == BENCH_TSV;
  fprintf(report->file, tsv ? "%s\t%s\t%d\t%lld" : "%-28s %-10s %3d %10lld", l->id, l->device,
          l->threads, (long long)l->calls);
  for (int i = 0; i < 4; i++) {
    char text[32];
    format_time(seconds[i], text, sizeof text);
    if (tsv)
      fprintf(report->file, "\t%.6g", seconds[i]);
    else
      fprintf(report->file, " %12s", text);
  }
  if (!tsv) fprintf(report->file, " %9.3g", l->p99 / l->p50);
  return fputc('\n', report->file) != EOF && fflush(report->file) == 0;
}

/* JSON has no NaN: what is not known is null. */
static json_t *known(double value) {
  return isfinite(value) ? json_real(value) : json_null();
}

static json_t *text_or_null(const char *text) {
  return text ? json_string(text) : json_null();
}

static json_t *round_medians(const struct bench_stats *stats) {
  json_t *array = json_array();
  for (int i = 0; i < stats->rounds; i++)
    json_array_append_new(array, json_real(stats->round_median[i]));
  return array;
}

static json_t *shape(const struct bench_result *r) {
  return json_pack("{s:I, s:I, s:I, s:I, s:I, s:o, s:o}", "m", (json_int_t)r->m, "n",
                   (json_int_t)r->n, "k", (json_int_t)r->k, "block", (json_int_t)r->block, "blocks",
                   (json_int_t)r->blocks, "pattern", text_or_null(r->pattern), "activation",
                   text_or_null(r->activation));
}

static json_t *json_row(const struct bench_result *r) {
  const struct bench_stats *s = r->stats;
  json_t *row = json_pack("{s:s, s:s, s:o, s:s, s:s, s:i, s:s, s:s, s:o}", "id", r->id, "op", r->op,
                          "product", text_or_null(r->product), "device", r->device, "dtype",
                          r->dtype, "threads", r->threads, "contender", r->contender, "kernel",
                          r->kernel, "shape", shape(r));
  json_t *figures =
      json_pack("{s:s, s:s, s:b, s:f, s:f, s:i, s:i, s:I, s:f, s:f, s:f, s:f, s:f, s:f, s:o, s:f}",
                "residency", r->residency, "way", r->way, "transfers", 0, "flops", r->flops,
                "bytes", r->bytes, "samples", s->samples, "samples_set_aside", s->set_aside,
                "calls_per_sample", (json_int_t)s->calls, "median_s", s->median, "p50_s", s->p50,
                "p95_s", s->p95, "p99_s", s->p99, "max_s", s->max, "min_s", s->min,
                "round_medians_s", round_medians(s), "gflops", gflops(r));
  json_t *judged =
      json_pack("{s:o, s:o, s:o, s:s, s:o, s:o, s:n, s:n}", "max_rel_err", known(r->max_rel_err),
                "bound_s", known(r->bound > 0 ? r->bound : NAN), "sol_pct", known(sol_pct(r)),
                "weights", weights_name(r), "repay_calls", known(r->repay), "ratio",
                known(r->ratio), "energy_j", "energy_source");
  bool good = row && figures && judged && !json_object_update(row, figures) &&
              !json_object_update(row, judged);
  json_decref(figures);
  json_decref(judged);
  if (good) return row;
  json_decref(row);
  return NULL;
}

bool bench_report_row(struct bench_report *report, const struct bench_result *result) {
  if (report->format == BENCH_TSV) return tsv_row(report, result);
  if (report->format == BENCH_TABLE) return table_row(report, result);
  json_t *row = json_row(result);
  return row && !json_array_append_new(report->results, row);
}

bool bench_report_skip(struct bench_report *report, const char *id, const char *device,
                       const char *contender, const char *reason) {
  if (report->format != BENCH_JSON) return true;
  json_t *entry = json_pack("{s:s, s:s, s:s, s:s}", "id", id, "device", device, "contender",
                            contender, "reason", reason);
  return entry && !json_array_append_new(report->skipped, entry);
}

bool bench_report_peer(struct bench_report *report, const char *name, const char *reason) {
  if (report->format != BENCH_JSON) return true;
  json_t *entry = json_pack("{s:s, s:b, s:o}", "name", name, "available", reason == NULL, "reason",
                            text_or_null(reason));
  return entry && !json_array_append_new(report->peer_list, entry);
}

void bench_summary_add(struct bench_summary *s, double ratio, const char *id, const char *peer) {
  s->log_sum += log(ratio);
  if (s->rows++ && ratio >= s->worst) return;
  s->worst = ratio;
  snprintf(s->worst_id, sizeof s->worst_id, "%s", id);
  snprintf(s->worst_peer, sizeof s->worst_peer, "%s", peer);
}

bool bench_report_summary(struct bench_report *report, const struct bench_summary *s) {
  double mean = exp(s->log_sum / s->rows);
  if (!s->rows) return true;
  if (report->format != BENCH_JSON)
    return fprintf(report->file,
                   "%s%s %s%s%s, threads %d, %s %s: %s peer's time over ours, geometric mean of %d "
                   "rows "
                   "%.3f; worst %.3f at %s (%s)\n",
                   report->format == BENCH_TSV ? "# " : "", s->device, s->dtype,
                   s->product ? " " : "", s->product ? s->product : "", s->threads, s->residency,
                   s->way, s->plain ? "plain weights, the best plain" : "the best", s->rows, mean,
                   s->worst, s->worst_id, s->worst_peer) > 0;
  json_t *entry =
      json_pack("{s:s, s:s, s:o, s:s, s:s, s:i, s:s, s:i, s:f, s:f, s:s, s:s}", "device", s->device,
                "dtype", s->dtype, "product", text_or_null(s->product), "residency", s->residency,
                "way", s->way, "threads", s->threads, "weights", s->plain ? "plain" : "any", "rows",
                s->rows, "geomean_ratio", mean, "worst_ratio", s->worst, "worst_id", s->worst_id,
                "worst_peer", s->worst_peer);
  return entry && !json_array_append_new(report->summaries, entry);
}

static json_t *device_list(const layerops_device_info *devices, size_t count) {
  json_t *array = json_array();
  for (size_t i = 0; i < count; i++) {
    const layerops_device_info *d = &devices[i];
    json_array_append_new(
        array,
        json_pack("{s:s, s:s, s:s, s:s, s:i, s:i, s:I, s:n, s:n, s:n, s:n}", "name", d->name,
                  "description", d->description, "driver", d->driver, "isa", d->isa, "units",
                  (int)d->units, "clock_mhz", (int)d->clock_mhz, "memory", (json_int_t)d->memory,
                  "clock_mhz_before", "clock_mhz_after", "power_w_before", "power_w_after"));
  }
  return array;
}

static json_t *run_file(const struct bench_report *report, const layerops_device_info *devices,
                        size_t device_count, const struct bench_plan *plan,
                        const struct bench_plan *timed_plan) {
  char cpu[160], date[32];
  bench_cpu_name(cpu, sizeof cpu);
  bench_date(date, sizeof date);
  json_t *host =
      json_pack("{s:s, s:i}", "cpu", cpu, "cores_online", (int)sysconf(_SC_NPROCESSORS_ONLN));
  json_t *settings = json_pack(
      "{s:i, s:i, s:f, s:f, s:f, s:{s:i, s:f}}", "rounds", plan->rounds, "samples_per_round",
      plan->samples, "round_seconds", plan->round_seconds, "sample_seconds", plan->sample_seconds,
      "clock_overhead_s", bench_clock_overhead(), "timed_by_device", "rounds", timed_plan->rounds,
      "round_seconds", timed_plan->round_seconds);
  return json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:o, s:o, s:o, s:O, s:O, s:O, s:O}", "schema",
                   "layerops-run/1", "tool", "layerops bench", "version", layerops_version_string(),
                   "commit", BENCH_COMMIT, "build", BENCH_BUILD, "date", date, "host", host,
                   "settings", settings, "devices", device_list(devices, device_count), "results",
                   report->results, "skipped", report->skipped, "peers", report->peer_list,
                   "summary", report->summaries);
}

bool bench_report_end(struct bench_report *report, const layerops_device_info *devices,
                      size_t device_count, const struct bench_plan *plan,
                      const struct bench_plan *timed_plan) {
  if (report->format != BENCH_JSON) return fflush(report->file) == 0;
  json_t *run = run_file(report, devices, device_count, plan, timed_plan);
  bool good = run && !json_dumpf(run, report->file, JSON_INDENT(1)) &&
              fputc('\n', report->file) != EOF && fflush(report->file) == 0;
  json_decref(run);
  return good;
}

void bench_report_free(struct bench_report *report) {
  json_decref(report->results);
  json_decref(report->skipped);
  json_decref(report->peer_list);
  json_decref(report->summaries);
  *report = (struct bench_report){0};
}
