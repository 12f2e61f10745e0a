/* Measures this processor and prints a device file for data/devices/: the clock from a chain of
   dependent additions, the rate of multiply-adds, the bandwidth of reading from each cache and
   from memory. Usage: ceilings NAME >data/devices/FILE.json */
#include <config.h>

#include <jansson.h>
#include <layerops/layerops.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "bench/host.h"
#include "bench/peaks.h"

#define SOURCE "measured by bench/ceilings"

static json_t *number(double value, const char *unit, const char *source) {
  char date[32];
  bench_date(date, sizeof date);
  date[10] = 0; /* the day */
  return json_pack("{s:f, s:s, s:s, s:s}", "value", value, "unit", unit, "source", source, "date",
                   date);
}

/* The product of what the processor is, and beside it what the loop reached. Lanes are those of
   one unit times the units a core that the measured rate asks for. */
static json_t *peak(const struct bench_measured *m, double clock) {
  double rate = m->value / 2;
  double units = fmax(1, round(rate / m->threads / clock / m->fma->lanes));
  double lanes = units * m->fma->lanes;
  char source[160];
  snprintf(source, sizeof source, "%s: %g lanes a unit, %g units a core, inferred from the rate",
           m->how, m->fma->lanes, units);
  return json_pack("{s:o, s:o, s:o, s:o, s:o}", "units", number(m->threads, "cores", "hwloc"),
                   "lanes", number(lanes, "multiply-adds a clock and core", source), "clock",
                   number(clock, "Hz", SOURCE ": dependent additions"), "flops",
                   number(m->threads * lanes * 2 * clock, m->unit, "units x lanes x 2 x clock"),
                   "measured_flops", number(m->value, m->unit, SOURCE));
}

static json_t *peaks_json(const struct bench_peaks *peaks, int threads) {
  json_t *all = json_object();
  double clock = bench_best_rate(ceiling_chain, 16000000, 1);
  for (int i = 0; i < peaks->count; i++)
    if (peaks->list[i].fma && peaks->list[i].threads == threads)
      json_object_set_new(all, peaks->list[i].what, peak(&peaks->list[i], clock));
  /* Stored in 16 bits, computed in f32, where the processor has nothing better. */
  static const char *const stored[] = {"f16", "bf16"};
  for (int i = 0; i < 2; i++)
    if (!json_object_get(all, stored[i]))
      json_object_set_new(all, stored[i], json_deep_copy(json_object_get(all, "f32")));
  return all;
}

static json_t *level(const struct bench_measured *m) {
  char source[96];
  snprintf(source, sizeof source, SOURCE ": %d threads reading %llu bytes each", m->threads,
           (unsigned long long)m->bytes);
  json_t *entry = json_pack("{s:s, s:o, s:o}", "level", m->what, "threads",
                            number(m->threads, "threads", "chosen"), "bandwidth",
                            number(m->value, "B/s", source));
  if (m->capacity)
    json_object_set_new(entry, "capacity", number((double)m->capacity, "B", "hwloc"));
  return entry;
}

static json_t *memory_json(const struct bench_peaks *peaks) {
  json_t *all = json_array();
  for (int i = 0; i < peaks->count; i++)
    if (peaks->list[i].stream && !strcmp(peaks->list[i].how, "read"))
      json_array_append_new(all, level(&peaks->list[i]));
  return all;
}

/* The cores that the library's CPU device runs on; 0: it does not say. */
static int cores(void) {
  layerops_context *ctx;
  layerops_device_info info = {0};
  if (layerops_open("cpu", &ctx)) return 0;
  layerops_context_info(ctx, &info);
  layerops_close(ctx);
  return (int)info.units;
}

int main(int argc, char **argv) {
  struct bench_peaks peaks;
  char cpu[160];
  int threads = cores();
  if (argc != 2) return fprintf(stderr, "usage: %s NAME >FILE.json\n", argv[0]), 2;
  if (!ceiling_chain) return fprintf(stderr, "%s: no clock chain for this processor\n", argv[0]), 1;
  if (threads < 1 || !bench_peaks_plan(&peaks, threads))
    return fprintf(stderr, "%s: no processor to measure, or no topology\n", argv[0]), 1;
  for (int i = 0; i < peaks.count; i++)
    if (!bench_peaks_measure(&peaks.list[i]))
      return fprintf(stderr, "%s: out of memory\n", argv[0]), 1;
  bench_cpu_name(cpu, sizeof cpu);
  json_t *device = json_pack("{s:s, s:s, s:[s,s], s:[s], s:o, s:o}", "schema", "layerops-device/1",
                             "name", argv[1], "kind", "cpu", "opencl", "match", cpu, "peaks",
                             peaks_json(&peaks, threads), "memory", memory_json(&peaks));
  int failed = !device || json_dumpf(device, stdout, JSON_INDENT(2)) || puts("") < 0;
  json_decref(device);
  return failed;
}
