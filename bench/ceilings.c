/* Measures this processor and prints a device file for data/devices/: the clock from a chain of
   dependent additions, the rate of multiply-adds, the bandwidth of reading from each cache and
   from memory. Usage: ceilings NAME >data/devices/FILE.json */
#include <config.h>

#include <hwloc.h>
#include <jansson.h>
#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/ceilings_kernels.h"
#include "bench/host.h"
#include "bench/timing.h"

#define REPEATS      25 /* the best counts: whatever else runs here only slows a ceiling down */
#define MEMORY_BYTES (UINT64_C(1) << 29)
#define SOURCE       "measured by bench/ceilings"

struct level {
  const char *name;
  hwloc_obj_type_t type;
  uint64_t capacity; /* of one core's, or of the one that all share */
  bool shared;
};

static json_t *number(double value, const char *unit, const char *source) {
  char date[32];
  bench_date(date, sizeof date);
  date[10] = 0; /* the day */
  return json_pack("{s:f, s:s, s:s, s:s}", "value", value, "unit", unit, "source", source, "date",
                   date);
}

/* Steps a second of all threads together. */
static double best_rate(void (*run)(int64_t), int64_t count, int threads) {
  double best = 0;
  for (int r = 0; r < REPEATS; r++) {
    double start = 0, took;
#pragma omp parallel num_threads(threads)
    {
#pragma omp barrier
#pragma omp master
      start = bench_now();
      run(count);
    }
    took = bench_now() - start;
    best = fmax(best, (double)count * threads / took);
  }
  return best;
}

/* Bytes a second that THREADS threads read, each over its own BYTES again and again. */
static double best_bandwidth(uint64_t bytes, int threads) {
  bytes = bytes / 512 * 512;
  int64_t count = (int64_t)(MEMORY_BYTES / 4 / bytes) + 1;
  char *data = aligned_alloc(512, bytes * (uint64_t)threads);
  double best = 0;
  if (!data) return 0;
#pragma omp parallel num_threads(threads)
  memset(data + bytes * (uint64_t)omp_get_thread_num(), 1, bytes);
  for (int r = 0; r < REPEATS; r++) {
    double start = 0, took;
#pragma omp parallel num_threads(threads)
    {
#pragma omp barrier
#pragma omp master
      start = bench_now();
      ceiling_read(data + bytes * (uint64_t)omp_get_thread_num(), bytes, count);
    }
    took = bench_now() - start;
    best = fmax(best, (double)bytes * (double)count * threads / took);
  }
  free(data);
  return best;
}

/* The product of what the processor is, and beside it what the loop reached. Lanes are those of
   one unit times the units a core that the measured rate asks for. */
static json_t *peak(const struct ceiling_fma *fma, double clock, int cores) {
  double rate = best_rate(fma->run, (int64_t)(4e6 / fma->macs) * 64, cores) * fma->macs;
  double units = fmax(1, round(rate / cores / clock / fma->lanes));
  double lanes = units * fma->lanes;
  char source[160];
  snprintf(source, sizeof source, "%s: %g lanes a unit, %g units a core, inferred from the rate",
           fma->name, fma->lanes, units);
  return json_pack("{s:o, s:o, s:o, s:o, s:o}", "units", number(cores, "cores", "hwloc"), "lanes",
                   number(lanes, "multiply-adds a clock and core", source), "clock",
                   number(clock, "Hz", SOURCE ": dependent additions"), "flops",
                   number(cores * lanes * 2 * clock, "FLOP/s", "units x lanes x 2 x clock"),
                   "measured_flops", number(2 * rate, "FLOP/s", SOURCE));
}

static json_t *peaks(int cores) {
  json_t *all = json_object();
  double clock = best_rate(ceiling_chain, 16000000, 1);
  for (const struct ceiling_fma *f = ceiling_fmas; f->dtype; f++)
    if (!json_object_get(all, f->dtype) && f->supported())
      json_object_set_new(all, f->dtype, peak(f, clock, cores));
  /* Stored in 16 bits, computed in f32, where the processor has nothing better. */
  static const char *const stored[] = {"f16", "bf16"};
  for (int i = 0; i < 2; i++)
    if (!json_object_get(all, stored[i]))
      json_object_set_new(all, stored[i], json_deep_copy(json_object_get(all, "f32")));
  return all;
}

static void add_level(json_t *all, const struct level *level, int threads, uint64_t bytes) {
  char source[96];
  snprintf(source, sizeof source, SOURCE ": %d threads reading %llu bytes each", threads,
           (unsigned long long)bytes);
  double bandwidth = best_bandwidth(bytes, threads);
  uint64_t capacity = level->capacity * (uint64_t)(level->shared ? 1 : threads);
  json_t *entry = json_pack("{s:s, s:o, s:o}", "level", level->name, "threads",
                            number(threads, "threads", "chosen"), "bandwidth",
                            number(bandwidth, "B/s", source));
  if (capacity) json_object_set_new(entry, "capacity", number((double)capacity, "B", "hwloc"));
  json_array_append_new(all, entry);
}

static json_t *memory(hwloc_topology_t topology, int cores) {
  struct level levels[] = {{"L1", HWLOC_OBJ_L1CACHE, 0, false},
                           {"L2", HWLOC_OBJ_L2CACHE, 0, false},
                           {"L3", HWLOC_OBJ_L3CACHE, 0, true},
                           {"memory", HWLOC_OBJ_MACHINE, 0, true}};
  json_t *all = json_array();
  uint64_t inner = 0;
  for (size_t i = 0; i < sizeof levels / sizeof *levels; i++) {
    hwloc_obj_t cache = hwloc_get_obj_by_type(topology, levels[i].type, 0);
    bool last = levels[i].type == HWLOC_OBJ_MACHINE;
    if (!last && !cache) continue;
    levels[i].capacity = last ? 0 : cache->attr->cache.size;
    /* Far enough above the level inside it, and small enough to stay in this one. */
    uint64_t bytes = last ? MEMORY_BYTES : inner ? 4 * inner : levels[i].capacity / 2;
    if (!last && inner && bytes > levels[i].capacity / 2) bytes = levels[i].capacity / 2;
    inner = levels[i].capacity;
    for (int threads = 1; threads <= cores; threads = threads < cores ? cores : cores + 1)
      add_level(all, &levels[i], threads, last ? bytes / (uint64_t)threads : bytes);
  }
  return all;
}

int main(int argc, char **argv) {
  hwloc_topology_t topology;
  char cpu[160];
  if (argc != 2) return fprintf(stderr, "usage: %s NAME >FILE.json\n", argv[0]), 2;
  if (!ceiling_chain) return fprintf(stderr, "%s: no clock chain for this processor\n", argv[0]), 1;
  if (hwloc_topology_init(&topology) || hwloc_topology_load(topology))
    return fprintf(stderr, "%s: hwloc finds no topology\n", argv[0]), 1;
  int cores = hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_CORE);
  if (cores < 1) cores = 1;
  bench_cpu_name(cpu, sizeof cpu);
  json_t *device = json_pack("{s:s, s:s, s:[s,s], s:[s], s:o, s:o}", "schema", "layerops-device/1",
                             "name", argv[1], "kind", "cpu", "opencl", "match", cpu, "peaks",
                             peaks(cores), "memory", memory(topology, cores));
  hwloc_topology_destroy(topology);
  int failed = !device || json_dumpf(device, stdout, JSON_INDENT(2)) || puts("") < 0;
  json_decref(device);
  return failed;
}
