/* layerops devices */
#include <config.h>

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/peaks.h"
#include "tools/progress.h"
#include "tools/tool.h"

#define COMMAND "devices"

struct settings {
  bool json, tsv, measure;
  const char *device;
};

static const struct tool_option options[] = {
    {"measure", NULL, NULL, "what a device reaches, measured in some seconds", parse_switch,
     offsetof(struct settings, measure)},
    {"device", "D", "a device", "with --measure: cpu (as without it), or cuda:0, ...", parse_text,
     offsetof(struct settings, device)},
    {"json", NULL, NULL, "print JSON", parse_switch, offsetof(struct settings, json)},
    {"tsv", NULL, NULL, "with --measure: tab-separated columns below a header", parse_switch,
     offsetof(struct settings, tsv)},
};
static const struct tool_usage usage = {
    .command = COMMAND,
    .synopsis = "[--measure [--device D]] [--json | --tsv]",
    .text = "Lists the devices that --device takes, and the backends without any and why.",
    .after =
        "--measure prints, for a CPU with one thread and with all, the rate of multiply-adds in "
        "f32 and of\n"
        "the dot products in bf16 and int8 that the processor has (a multiply-add is two\n"
        "operations), and for each cache and for memory the bandwidth of reading, copying (a = b)\n"
        "and triad (a = b + 0.5 c), with every byte read or written counted once. For a CUDA\n"
        "device: multiply-adds of its cores and of the mma.sync instructions, out of registers,\n"
        "those of LAYEROPS_CUDA_ARCH at most; reading its L2, and copying and reading its\n"
        "memory. The best of several repetitions: still, measure on a machine that does nothing "
        "else.",
    .options = options,
    .count = sizeof options / sizeof *options,
};

static void print_size(char *text, size_t size, int64_t bytes) {
  static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  double value = (double)bytes;
  int unit = 0;
  for (; value >= 1024 && unit < 4; unit++) value /= 1024;
  snprintf(text, size, value < 10 && unit ? "%.1f %s" : "%.0f %s", value, units[unit]);
}

static void print_caches(const layerops_device_info *d) {
  const int64_t sizes[] = {d->l1, d->l2, d->l3};
  for (int i = 0; i < 3; i++) {
    char text[32];
    print_size(text, sizeof text, sizes[i]);
    if (sizes[i] > 0) printf(", L%d %s", i + 1, text);
  }
}

static void print_device(const layerops_device_info *d) {
  printf("%-12s ", d->name);
  if (!d->available) {
    printf("absent: %s\n", d->reason);
    return;
  }
  char memory[32];
  print_size(memory, sizeof memory, d->memory);
  printf("%s\n%-12s %d %s", d->description[0] ? d->description : "(no description)", "", d->units,
         d->units == 1 ? "unit" : "units");
  if (d->clock_mhz) printf(" at %d MHz", d->clock_mhz);
  if (d->memory) printf(", %s", memory);
  print_caches(d);
  printf("\n");
  if (d->isa[0]) printf("%-12s %s\n", "", d->isa);
  if (d->driver[0]) printf("%-12s driver %s\n", "", d->driver);
}

static json_t *describe(const layerops_device_info *d) {
  return json_pack("{s:s, s:b, s:s, s:s, s:s, s:s, s:i, s:i, s:b, s:I, s:I, s:I, s:I}", "name",
                   d->name, "available", d->available, "reason", d->reason, "description",
                   d->description, "driver", d->driver, "isa", d->isa, "units", (int)d->units,
                   "clock_mhz", (int)d->clock_mhz, "gpu", d->is_gpu, "memory",
                   (json_int_t)d->memory, "l1", (json_int_t)d->l1, "l2", (json_int_t)d->l2, "l3",
                   (json_int_t)d->l3);
}

static int print_json(const layerops_device_info *list, size_t count) {
  json_t *devices = json_array();
  bool good = true;
  for (size_t i = 0; i < count; i++)
    good = !json_array_append_new(devices, describe(&list[i])) && good;
  json_t *root = json_pack("{s:s, s:o}", "version", layerops_version_string(), "devices", devices);
  char *text = good && root ? json_dumps(root, JSON_INDENT(2)) : NULL;
  json_decref(root);
  if (!text) return tool_fail(COMMAND, "no memory, or a driver's text is not UTF-8");
  printf("%s\n", text);
  free(text);
  return TOOL_OK;
}

/* ---- --measure ---- */

static json_t *measured_json(const struct bench_peaks *peaks) {
  json_t *all = json_array();
  for (int i = 0; i < peaks->count; i++) {
    const struct bench_measured *m = &peaks->list[i];
    json_array_append_new(all, json_pack("{s:s, s:s, s:i, s:I, s:f, s:s}", "what", m->what, "how",
                                         m->how, "threads", m->threads, "bytes",
                                         (json_int_t)m->bytes, "value", m->value, "unit", m->unit));
  }
  return json_pack("{s:s, s:o}", "version", layerops_version_string(), "measured", all);
}

static int print_measured_json(const struct bench_peaks *peaks) {
  json_t *root = measured_json(peaks);
  int failed = !root || json_dumpf(root, stdout, JSON_INDENT(2)) || putchar('\n') < 0;
  json_decref(root);
  return failed ? tool_fail(COMMAND, "out of memory, or writing failed") : TOOL_OK;
}

static int print_measured_tsv(const struct bench_peaks *peaks) {
  puts("what\thow\tthreads\tbytes\tvalue\tunit");
  for (int i = 0; i < peaks->count; i++) {
    const struct bench_measured *m = &peaks->list[i];
    printf("%s\t%s\t%d\t%" PRIu64 "\t%.6g\t%s\n", m->what, m->how, m->threads, m->bytes, m->value,
           m->unit);
  }
  return TOOL_OK;
}

/* A line a figure: with one thread, and with all if there are more. */
static int print_measured(const struct bench_peaks *peaks) {
  for (int i = 0; i < peaks->count; i++) {
    const struct bench_measured *m = &peaks->list[i];
    char bytes[48] = "";
    if (m->bytes) print_size(bytes, sizeof bytes, (int64_t)m->bytes);
    if (m->threads <= 1) printf("%-7s %-16s %9s", m->what, m->how, bytes);
    if (m->threads) printf("  %d %s", m->threads, m->threads == 1 ? "thread " : "threads");
    printf(" %9.1f G%s", m->value / 1e9, m->unit);
    if (i + 1 == peaks->count || peaks->list[i + 1].threads <= 1) putchar('\n');
  }
  return TOOL_OK;
}

/* Lists what can be measured on the device. -1: go on; else the exit status. */
static int plan(const char *device, struct bench_peaks *peaks) {
  layerops_context *ctx;
  layerops_device_info info;
  int index;
  if (layerops_open(device ? device : "cpu", &ctx)) return tool_library_failed(COMMAND);
  layerops_status status = layerops_context_info(ctx, &info);
  layerops_close(ctx);
  if (status) return tool_library_failed(COMMAND);
  if (sscanf(info.name, "cuda:%d", &index) == 1)
    return bench_peaks_plan_cuda(peaks, index) ? -1 : tool_fail(COMMAND, "%s fails", info.name);
  if (strcmp(info.name, "cpu"))
    return tool_fail(COMMAND, "%s: only processors and CUDA devices can be measured", info.name);
  if (bench_peaks_plan(peaks, info.units)) return -1;
  return tool_fail(COMMAND, "hwloc finds no topology of this machine");
}

static int measure(const struct settings *settings) {
  struct bench_peaks peaks;
  struct progress progress;
  int status = plan(settings->device, &peaks);
  if (status >= 0) return status;
  progress_start(&progress);
  bool good = true;
  for (int i = 0; good && i < peaks.count; i++) {
    progress_show(&progress, peaks.list[i].what, i, peaks.count);
    good = bench_peaks_measure(&peaks.list[i]);
  }
  progress_clear(&progress);
  if (!good) return tool_fail(COMMAND, "out of memory, or the device failed");
  return settings->json  ? print_measured_json(&peaks)
         : settings->tsv ? print_measured_tsv(&peaks)
                         : print_measured(&peaks);
}

int tool_devices(int argc, char **argv) {
  struct settings settings = {0};
  int status = tool_parse(&usage, argc, argv, &settings);
  if (status >= 0) return status;
  if (settings.json && settings.tsv) return tool_misused(COMMAND, "give either --tsv or --json");
  if (settings.tsv && !settings.measure) return tool_misused(COMMAND, "--tsv goes with --measure");
  if (settings.device && !settings.measure)
    return tool_misused(COMMAND, "--device goes with --measure");
  if (settings.measure) return measure(&settings);
  size_t count = 0;
  if (layerops_devices(NULL, 0, &count)) return tool_library_failed(COMMAND);
  layerops_device_info *list = calloc(count ? count : 1, sizeof *list);
  if (!list) return tool_fail(COMMAND, "out of memory");
  size_t capacity = count;
  if (layerops_devices(list, capacity, &count)) {
    free(list);
    return tool_library_failed(COMMAND);
  }
  if (count > capacity) count = capacity; /* one came in between */
  status = TOOL_OK;
  if (settings.json)
    status = print_json(list, count);
  else
    for (size_t i = 0; i < count; i++) print_device(&list[i]);
  free(list);
  return status;
}
