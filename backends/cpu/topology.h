/* The machine as hwloc and the control groups describe it. */
#ifndef LO_CPU_TOPOLOGY_H
#define LO_CPU_TOPOLOGY_H

#include <pthread.h>

#include "common/context.h"

typedef struct lo_caches {
  int64_t l1, l2,
      l3; /* bytes: one core's, one core's (its part where cores share one), the chip's */
} lo_caches;

/* Sizes where the machine does not tell are those of a small core. Loaded once, thread-safe. */
lo_caches lo_topology_caches(void);

/* Cores that the calling thread may run on: cpuset and its own affinity. */
int lo_topology_cores(void);
/* The same, but no more than the control groups' bandwidth allows: threads that make sense. */
int lo_topology_threads(void);

/* Hardware threads of the machine. */
int lo_topology_hardware_threads(void);

/* Whether this system can bind threads. */
bool lo_topology_binds(void);
/* The core of place `place` of `places`, in [0, places), where place 0 is the core `first` of
 * `cores`. */
int lo_topology_place(layerops_bind how, int first, int place, int places, int cores);
/* Binds a thread to the core of a place, of those that the calling thread may run on; place 0 is
 * the one it is on. */
bool lo_topology_bind(pthread_t thread, layerops_bind how, int place, int places);

/* Fills description, units, clock_mhz, memory and caches. */
void lo_topology_describe(layerops_device_info *info);

/* CPUs' worth of time that the control groups of this process and their ancestors allow, 0 for no
 * limit. `root` stands before /proc and the mount points ("" but in tests). */
double lo_cgroup_quota(const char *root);

#endif
