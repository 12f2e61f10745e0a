#include <config.h>

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <hwloc.h>

#include "backends/cpu/topology.h"

/* Loaded at the first question and kept: looking at it changes nothing, so threads may. NULL where
 * hwloc failed. */
static hwloc_topology_t topology;
static lo_caches caches;
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* A data cache as the first core has it, 0 where unknown; `cores` is how many share it. */
static int64_t cache_size(hwloc_obj_type_t type, int *cores) {
  hwloc_obj_t core = hwloc_get_obj_by_type(topology, HWLOC_OBJ_CORE, 0);
  if (!core) core = hwloc_get_obj_by_type(topology, HWLOC_OBJ_PU, 0);
  for (hwloc_obj_t o = core; o; o = o->parent)
    if (o->type == type) {
      *cores = hwloc_get_nbobjs_inside_cpuset_by_type(topology, o->cpuset, HWLOC_OBJ_CORE);
      if (*cores < 1) *cores = 1;
      return (int64_t)o->attr->cache.size;
    }
  *cores = 1;
  return 0;
}

static void load(void) {
  caches = (lo_caches){32 << 10, 256 << 10, 0};
  if (hwloc_topology_init(&topology)) {
    topology = NULL;
    return;
  }
  if (hwloc_topology_load(topology)) {
    hwloc_topology_destroy(topology);
    topology = NULL;
    return;
  }
  int sharing;
  int64_t l1 = cache_size(HWLOC_OBJ_L1CACHE, &sharing);
  if (l1 > 0) caches.l1 = l1 / sharing;
  int64_t l2 = cache_size(HWLOC_OBJ_L2CACHE, &sharing);
  if (l2 > 0) caches.l2 = l2 / sharing;
  caches.l3 = cache_size(HWLOC_OBJ_L3CACHE, &sharing);
}

static hwloc_topology_t loaded(void) {
  pthread_once(&once, load);
  return topology;
}

lo_caches lo_topology_caches(void) {
  loaded();
  return caches;
}

/* Hardware threads that the calling thread may run on; NULL where that is unknown. */
static hwloc_bitmap_t allowed(hwloc_topology_t t) {
  hwloc_bitmap_t set = t ? hwloc_bitmap_alloc() : NULL;
  if (!set) return NULL;
  if (hwloc_get_cpubind(t, set, HWLOC_CPUBIND_THREAD))
    hwloc_bitmap_copy(set, hwloc_topology_get_allowed_cpuset(t));
  else
    hwloc_bitmap_and(set, set, hwloc_topology_get_allowed_cpuset(t));
  return set;
}

int lo_topology_cores(void) {
  hwloc_topology_t t = loaded();
  hwloc_bitmap_t set = allowed(t);
  if (!set) return 1;
  /* A core counts if one of its hardware threads is allowed. */
  int cores = 0;
  for (hwloc_obj_t o = NULL; (o = hwloc_get_next_obj_by_type(t, HWLOC_OBJ_CORE, o));)
    cores += hwloc_bitmap_intersects(o->cpuset, set);
  if (!cores) cores = hwloc_bitmap_weight(set);
  hwloc_bitmap_free(set);
  return cores > 0 ? cores : 1;
}

int lo_topology_threads(void) {
  int cores = lo_topology_cores();
  double quota = lo_cgroup_quota("");
  return quota > 0 && ceil(quota) < cores ? (int)ceil(quota) : cores;
}

int lo_topology_hardware_threads(void) {
  hwloc_topology_t t = loaded();
  const int count = t ? hwloc_get_nbobjs_by_type(t, HWLOC_OBJ_PU) : 1;
  return count > 0 ? count : 1;
}

/* ---- Binding ---- */

bool lo_topology_binds(void) {
  hwloc_topology_t t = loaded();
  return t && hwloc_topology_get_support(t)->cpubind->set_thread_cpubind;
}

/* The cores, or else the hardware threads, of a set, in hwloc's order: neighbours share caches. */
static hwloc_obj_t next_core(hwloc_topology_t t, hwloc_const_bitmap_t set, hwloc_obj_t before) {
  const hwloc_obj_type_t type =
      hwloc_get_nbobjs_by_type(t, HWLOC_OBJ_CORE) > 0 ? HWLOC_OBJ_CORE : HWLOC_OBJ_PU;
  hwloc_obj_t o = before;
  while ((o = hwloc_get_next_obj_by_type(t, type, o)) && !hwloc_bitmap_intersects(o->cpuset, set)) {
  }
  return o;
}

int lo_topology_place(layerops_bind how, int first, int place, int places, int cores) {
  const bool spread = how == LAYEROPS_BIND_SPREAD && places < cores;
  const int64_t distance = spread ? (int64_t)place * cores / places : place;
  return (int)((first + distance) % cores);
}

bool lo_topology_bind(pthread_t thread, layerops_bind how, int place, int places) {
  hwloc_topology_t t = loaded();
  hwloc_bitmap_t set = allowed(t), here = set ? hwloc_bitmap_alloc() : NULL;
  int cores = 0, first = 0;
  if (here && hwloc_get_last_cpu_location(t, here, HWLOC_CPUBIND_THREAD)) hwloc_bitmap_zero(here);
  for (hwloc_obj_t o = NULL; here && (o = next_core(t, set, o)); cores++)
    if (hwloc_bitmap_intersects(o->cpuset, here)) first = cores;
  bool bound = false;
  if (cores) {
    hwloc_obj_t core = next_core(t, set, NULL);
    for (int i = lo_topology_place(how, first, place, places, cores); i > 0; i--)
      core = next_core(t, set, core);
    hwloc_bitmap_and(set, set, core->cpuset);
    bound = !hwloc_set_thread_cpubind(t, thread, set, 0);
  }
  hwloc_bitmap_free(here);
  hwloc_bitmap_free(set);
  return bound;
}

/* The largest clock that the kernel reports for the first CPU in kHz, else the present one in MHz.
 */
static int clock_mhz(void) {
  FILE *f = fopen("/sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq", "re");
  long khz = 0;
  if (f) {
    if (fscanf(f, "%ld", &khz) != 1) khz = 0;
    fclose(f);
  }
  if (khz > 0) return (int)(khz / 1000);
  f = fopen("/proc/cpuinfo", "re");
  if (!f) return 0;
  char line[256];
  double mhz = 0;
  while (!mhz && fgets(line, sizeof line, f))
    if (sscanf(line, "cpu MHz : %lf", &mhz) != 1) mhz = 0;
  fclose(f);
  return (int)mhz;
}

void lo_topology_describe(layerops_device_info *info) {
  hwloc_topology_t t = loaded();
  info->units = lo_topology_cores();
  info->clock_mhz = clock_mhz();
  if (!t) {
    snprintf(info->description, sizeof info->description, "CPU");
    return;
  }
  hwloc_obj_t root = hwloc_get_root_obj(t),
              package = hwloc_get_obj_by_type(t, HWLOC_OBJ_PACKAGE, 0);
  const char *model = package ? hwloc_obj_get_info_by_name(package, "CPUModel") : NULL;
  if (!model) model = hwloc_obj_get_info_by_name(root, "CPUModel");
  snprintf(info->description, sizeof info->description, "%s", model ? model : "CPU");
  info->memory = (int64_t)root->total_memory;
  int sharing;
  info->l1 = cache_size(HWLOC_OBJ_L1CACHE, &sharing);
  info->l2 = cache_size(HWLOC_OBJ_L2CACHE, &sharing);
  info->l3 = cache_size(HWLOC_OBJ_L3CACHE, &sharing);
}
