#include <config.h>

#include "bench/peaks.h"

#include <hwloc.h>
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef HAVE_CUDA
#include "bench/peaks_cuda.h"
#endif
#include "bench/timing.h"

#define REPEATS      5   /* at least, */
#define SECONDS      0.3 /* and at least so long */
#define MEMORY_BYTES (UINT64_C(1) << 29)

/* ---- measuring ---- */

enum { WAIT, GO, GIVE_UP };

/* Threads that begin together. Plain ones, so that a processor can be measured without OpenMP. */
struct crew {
  void (*work)(const void *state, int thread);
  const void *state;
  atomic_int arrived, signal;
};

struct member {
  struct crew *crew;
  int number;
  pthread_t thread;
  double start, end;
};

static void work_timed(struct member *m) {
  m->start = bench_now();
  m->crew->work(m->crew->state, m->number);
  m->end = bench_now();
}

static void *run_member(void *member) {
  struct member *m = member;
  atomic_fetch_add(&m->crew->arrived, 1);
  while (atomic_load(&m->crew->signal) == WAIT) sched_yield();
  if (atomic_load(&m->crew->signal) == GO) work_timed(m);
  return NULL;
}

/* work(state, thread) on so many threads, the calling one among them: the time from the first start
   to the last end; infinite where memory or threads are short. */
static double time_together(void (*work)(const void *state, int thread), const void *state,
                            int threads) {
  struct crew crew = {.work = work, .state = state};
  struct member *members = calloc((size_t)threads, sizeof *members);
  double start = INFINITY, end = INFINITY;
  int made = members ? 1 : 0;
  for (int i = 0; members && i < threads; i++) members[i] = (struct member){&crew, i, 0, 0, 0};
  while (made && made < threads &&
         !pthread_create(&members[made].thread, NULL, run_member, &members[made]))
    made++;
  while (atomic_load(&crew.arrived) < made - 1) sched_yield();
  atomic_store(&crew.signal, made == threads ? GO : GIVE_UP);
  if (made == threads) work_timed(&members[0]);
  for (int i = 1; i < made; i++) pthread_join(members[i].thread, NULL);
  for (int i = 0; made == threads && i < threads; i++) {
    start = fmin(start, members[i].start);
    end = i ? fmax(end, members[i].end) : members[i].end;
  }
  free(members);
  return made == threads ? end - start : INFINITY;
}

/* The least of several repetitions. */
static double least_time(void (*work)(const void *state, int thread), const void *state,
                         int threads) {
  double least = INFINITY, begin = bench_now();
  for (int r = 0; r < REPEATS || bench_now() - begin < SECONDS; r++)
    least = fmin(least, time_together(work, state, threads));
  return least;
}

struct rate {
  void (*run)(int64_t);
  int64_t count;
};

static void run_rate(const void *state, int thread) {
  const struct rate *r = state;
  (void)thread;
  r->run(r->count);
}

double bench_best_rate(void (*run)(int64_t), int64_t count, int threads) {
  struct rate rate = {run, count};
  return (double)count * threads / least_time(run_rate, &rate, threads);
}

struct traffic {
  const struct ceiling_stream *stream;
  char *data;
  size_t share; /* of a thread */
  size_t array; /* bytes of one of its arrays */
  int64_t count;
};

static void run_traffic(const void *state, int thread) {
  const struct traffic *t = state;
  char *a = t->data + t->share * (size_t)thread;
  char *b = a + t->array * (t->stream->arrays > 1), *c = b + t->array * (t->stream->arrays > 2);
  t->stream->run(a, b, c, t->array, t->count);
}

/* So that each thread has its pages near it. */
static void touch(const void *state, int thread) {
  const struct traffic *t = state;
  memset(t->data + t->share * (size_t)thread, 0, t->share);
}

/* Bytes a second that all threads move, each over its own BYTES again and again; what is written
   counts once, though a cache may read it first. */
static double best_bandwidth(const struct ceiling_stream *stream, uint64_t bytes, int threads) {
  struct traffic t = {.stream = stream};
  t.array = bytes / (uint64_t)stream->arrays / 512 * 512;
  /* Arrays a power of two apart would meet in the same sets of a cache. */
  t.share = t.array * (size_t)stream->arrays + 512;
  t.count = (int64_t)(MEMORY_BYTES / 8 / bytes) + 1;
  t.data = aligned_alloc(512, t.share * (size_t)threads);
  if (!t.data) return 0;
  time_together(touch, &t, threads);
  double moved = (double)t.array * stream->arrays * (double)t.count * threads;
  double rate = moved / least_time(run_traffic, &t, threads);
  free(t.data);
  return rate;
}

bool bench_peaks_measure(struct bench_measured *m) {
#ifdef HAVE_CUDA
  if (!m->threads) return cuda_peak_measure(m->cuda_device, m->cuda, &m->value, &m->bytes);
#endif
  if (m->fma) {
    int64_t steps =
        (int64_t)(1e6 / m->fma->macs) * 64; /* a millisecond: shorter than a time slice */
    m->value = 2 * m->fma->macs * bench_best_rate(m->fma->run, steps, m->threads);
  } else {
    m->value = best_bandwidth(m->stream, m->bytes, m->threads);
  }
  return m->value > 0;
}

/* ---- what there is ---- */

static const struct {
  const char *name;
  hwloc_obj_type_t type;
} levels[] = {{"L1", HWLOC_OBJ_L1CACHE},
              {"L2", HWLOC_OBJ_L2CACHE},
              {"L3", HWLOC_OBJ_L3CACHE},
              {"memory", HWLOC_OBJ_MACHINE}};
enum { LEVELS = sizeof levels / sizeof *levels, MEMORY = LEVELS - 1 };

/* The figure with one thread and with all. capacity and bytes are those of one cache and of one
   thread; cores: how many share a cache. */
static void add(struct bench_peaks *peaks, struct bench_measured measured, int threads, int cores) {
  for (int t = 1; t <= threads; t = t < threads ? threads : threads + 1) {
    if (peaks->count == BENCH_PEAKS) return;
    struct bench_measured *m = &peaks->list[peaks->count++];
    *m = measured;
    m->threads = t;
    m->capacity *= (uint64_t)((t + cores - 1) / cores);
    if (m->stream && !m->capacity) m->bytes /= (uint64_t)t; /* memory is one for all */
  }
}

static void plan_computing(struct bench_peaks *peaks, int threads) {
  const char *last = "";
  for (const struct ceiling_fma *f = ceiling_fmas; f->dtype; f++) {
    if (!strcmp(f->dtype, last) || !f->supported()) continue;
    last = f->dtype;
    const char *unit = strcmp(f->dtype, "int8") ? "FLOP/s" : "OP/s";
    add(peaks, (struct bench_measured){.what = f->dtype, .how = f->name, .unit = unit, .fma = f},
        threads, 1);
  }
}

/* Bytes that a thread works on: far enough above the level inside it, and small enough for all the
   cores of this one. */
static uint64_t working_set(uint64_t inner, uint64_t capacity, int cores) {
  uint64_t most = capacity / 2 / (uint64_t)cores;
  if (!capacity) return inner * 4 > MEMORY_BYTES ? inner * 4 : MEMORY_BYTES;
  return inner && 4 * inner < most ? 4 * inner : most;
}

static int cores_of(hwloc_topology_t topology, hwloc_obj_t cache) {
  int cores = hwloc_get_nbobjs_inside_cpuset_by_type(topology, cache->cpuset, HWLOC_OBJ_CORE);
  return cores > 0 ? cores : 1;
}

static void plan_memory(struct bench_peaks *peaks, hwloc_topology_t topology, int threads) {
  uint64_t inner = 0;
  for (int i = 0; i < LEVELS; i++) {
    hwloc_obj_t object = hwloc_get_obj_by_type(topology, levels[i].type, 0);
    if (!object || (i != MEMORY && !object->attr->cache.size)) continue;
    uint64_t capacity = i == MEMORY ? 0 : object->attr->cache.size;
    int cores = cores_of(topology, object);
    struct bench_measured m = {.what = levels[i].name,
                               .unit = "B/s",
                               .bytes = working_set(inner, capacity, cores),
                               .capacity = capacity};
    for (m.stream = ceiling_streams(); m.stream->name; m.stream++) {
      m.how = m.stream->name;
      add(peaks, m, threads, cores);
    }
    inner = capacity;
  }
}

bool bench_peaks_plan(struct bench_peaks *peaks, int threads) {
  hwloc_topology_t topology;
  *peaks = (struct bench_peaks){0};
  if (hwloc_topology_init(&topology)) return false;
  bool good = !hwloc_topology_load(topology);
  if (good) plan_computing(peaks, threads);
  if (good) plan_memory(peaks, topology, threads);
  hwloc_topology_destroy(topology);
  return good;
}

bool bench_peaks_plan_cuda(struct bench_peaks *peaks, int device) {
  *peaks = (struct bench_peaks){0};
#ifdef HAVE_CUDA
  uint64_t l2 = 0;
  const char *forced = getenv("LAYEROPS_CUDA_ARCH");
  int architecture = cuda_peak_architecture(device, &l2);
  int limit = forced && *forced ? atoi(forced) : architecture;
  if (!architecture) return false;
  if (architecture > limit) architecture = limit;
  for (int i = 0; cuda_peaks[i].what; i++) {
    const struct cuda_peak *p = &cuda_peaks[i];
    if (architecture < p->from || architecture > p->to) continue;
    peaks->list[peaks->count++] =
        (struct bench_measured){.what = p->what,
                                .how = p->how,
                                .unit = p->unit,
                                .cuda = i,
                                .cuda_device = device,
                                .capacity = strcmp(p->what, "L2") ? 0 : l2};
  }
  return true;
#else
  (void)device;
  return false;
#endif
}

/* ---- a device file ---- */

static struct bench_peak *find_peak(struct bench_device *device, const char *dtype) {
  for (int i = 0; i < device->peak_count; i++)
    if (!strcmp(device->peaks[i].dtype, dtype)) return &device->peaks[i];
  return NULL;
}

/* The best of the instructions for a data type. */
static void add_peak(struct bench_device *device, const char *dtype, double flops) {
  struct bench_peak *p = find_peak(device, dtype);
  if (!p) p = &device->peaks[device->peak_count++];
  snprintf(p->dtype, sizeof p->dtype, "%s", dtype);
  p->flops = fmax(p->flops, flops);
}

static void add_memory(struct bench_device *device, const struct bench_measured *m) {
  struct bench_memory *memory = &device->memory[device->memory_count++];
  snprintf(memory->level, sizeof memory->level, "%s", m->what);
  memory->threads = m->threads;
  memory->bandwidth = m->value;
  memory->capacity = (double)m->capacity;
}

/* A processor's memory counts by reading, a GPU's by copying. */
static bool counts(const struct bench_measured *m, int threads) {
  return !strcmp(m->how, "read") ? threads || strcmp(m->what, "memory")
                                 : !threads && !strcmp(m->how, "copy");
}

void bench_peaks_device(const struct bench_peaks *peaks, int threads, struct bench_device *device) {
  static const char *const stored[] = {"f16", "bf16", "tf32"}; /* else computed in f32 */
  *device = (struct bench_device){.threads = threads};
  snprintf(device->name, sizeof device->name, "this device, measured");
  for (int i = 0; i < peaks->count; i++) {
    const struct bench_measured *m = &peaks->list[i];
    if (strcmp(m->unit, "B/s")) {
      if (m->threads == threads) add_peak(device, m->what, m->value);
    } else if (counts(m, threads)) {
      add_memory(device, m);
    }
  }
  for (size_t i = 0; i < sizeof stored / sizeof *stored; i++)
    if (!find_peak(device, stored[i])) add_peak(device, stored[i], device->peaks[0].flops);
}
