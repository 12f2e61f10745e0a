/* The list of devices: what there is, what has been opened. */
#include <config.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/device.h"

static struct {
  pthread_mutex_t lock;
  struct node {
    lo_device device;
    struct node *next;
  } * first;
} opened = {PTHREAD_MUTEX_INITIALIZER, NULL};

static lo_device *find(const struct lo_backend *backend, int index) {
  for (struct node *n = opened.first; n; n = n->next)
    if (n->device.backend == backend && n->device.index == index) return &n->device;
  return NULL;
}

lo_device *lo_device_get(const struct lo_backend *backend, int index, const char *name) {
  pthread_mutex_lock(&opened.lock);
  lo_device *device = find(backend, index);
  if (!device) {
    struct node *n = calloc(1, sizeof *n);
    if (n) {
      n->device.backend = backend;
      n->device.index = index;
      snprintf(n->device.name, sizeof n->device.name, "%s", name);
      n->next = opened.first;
      opened.first = n;
      device = &n->device;
    }
  }
  pthread_mutex_unlock(&opened.lock);
  return device;
}

typedef struct writer {
  char *list;
  size_t element_size, capacity, count;
} writer;

static void put(writer *w, const layerops_device_info *info) {
  if (w->count < w->capacity) {
    char *slot = w->list + w->count * w->element_size;
    size_t known = w->element_size < sizeof *info ? w->element_size : sizeof *info;
    memset(slot, 0, w->element_size);
    memcpy(slot, info, known);
  }
  w->count++;
}

layerops_status lo_device_info(const struct lo_backend *backend, int index,
                               layerops_device_info *info) {
  memset(info, 0, sizeof *info);
  info->available = 1;
  layerops_status status = backend->info(index, info);
  if (status != LAYEROPS_OK) {
    info->available = 0;
    snprintf(info->reason, sizeof info->reason, "%s", layerops_last_error());
  }
  return status;
}

static void list_backend(const struct lo_backend *backend, writer *w) {
  layerops_device_info info = {0};
  int count = backend->count(info.reason, sizeof info.reason);
  if (count == 0) {
    snprintf(info.name, sizeof info.name, "%s", backend->name);
    put(w, &info);
  }
  for (int i = 0; i < count; i++) {
    lo_device_info(backend, i, &info); /* a broken device is listed with its reason */
    put(w, &info);
  }
}

/* Backends that this build leaves out are listed too: a user wants to know why there is no cuda. */
static const char *const optional[] = {"cuda", "opencl"};
#define OPTIONAL_COUNT (sizeof optional / sizeof *optional)

static bool is_left_out(const char *name) {
  for (const struct lo_backend *const *b = lo_backends; *b; b++)
    if (!strcmp((*b)->name, name)) return false;
  return true;
}

static void say_left_out(const char *name, char *reason, size_t size) {
  snprintf(reason, size, "this build was configured without %s", name);
}

static void list_left_out(writer *w) {
  for (size_t i = 0; i < OPTIONAL_COUNT; i++) {
    if (!is_left_out(optional[i])) continue;
    layerops_device_info info = {0};
    snprintf(info.name, sizeof info.name, "%s", optional[i]);
    say_left_out(optional[i], info.reason, sizeof info.reason);
    put(w, &info);
  }
}

layerops_status layerops_devices_(layerops_device_info *list, size_t element_size, size_t capacity,
                                  size_t *count) {
  if (!count) return lo_fail(LAYEROPS_ERROR_INVALID, "devices: count is NULL");
  if (!list && capacity)
    return lo_fail(LAYEROPS_ERROR_INVALID, "devices: list is NULL, but capacity is %zu", capacity);
  writer w = {(char *)list, element_size, capacity, 0};
  for (const struct lo_backend *const *b = lo_backends; *b; b++) list_backend(*b, &w);
  list_left_out(&w);
  *count = w.count;
  return LAYEROPS_OK;
}

/* ---- From a name to a backend and an index ---- */

static layerops_status no_device(const char *name, const char *why) {
  return lo_fail(LAYEROPS_ERROR_NO_DEVICE, "open: no device \"%s\": %s", name, why);
}

static layerops_status resolve_index(const struct lo_backend *backend, const char *name,
                                     const char *rest, int *index) {
  char reason[256] = "";
  int count = backend->count(reason, sizeof reason);
  if (count == 0) return no_device(name, reason);
  *index = *rest ? backend->index_of(rest) : 0;
  if (*index >= 0 && *index < count) return LAYEROPS_OK;
  snprintf(reason, sizeof reason, "%s has %d device%s; `layerops devices` lists them",
           backend->name, count, count == 1 ? "" : "s");
  return no_device(name, reason);
}

static layerops_status resolve_name(const char *name, const struct lo_backend **backend,
                                    int *index) {
  for (const struct lo_backend *const *b = lo_backends; *b; b++) {
    size_t length = strlen((*b)->name);
    if (strncmp(name, (*b)->name, length)) continue;
    *backend = *b;
    if (!name[length]) return resolve_index(*b, name, "", index);
    if (name[length] == ':' && name[length + 1] && !(*b)->single)
      return resolve_index(*b, name, name + length + 1, index);
  }
  for (size_t i = 0; i < OPTIONAL_COUNT; i++) {
    char reason[256];
    size_t length = strlen(optional[i]);
    if (strncmp(name, optional[i], length) || !is_left_out(optional[i])) continue;
    say_left_out(optional[i], reason, sizeof reason);
    return no_device(name, reason);
  }
  return no_device(name, "a device is called auto, cpu, reference, cuda[:N] or opencl[:P.D]");
}

/* The first GPU in the order of the registry (CUDA before OpenCL), else the CPU. */
static layerops_status resolve_auto(const struct lo_backend **backend, int *index) {
  for (const struct lo_backend *const *b = lo_backends; *b; b++) {
    char reason[256];
    int count = (*b)->single ? 0 : (*b)->count(reason, sizeof reason);
    for (int i = 0; i < count; i++) {
      layerops_device_info info;
      if (lo_device_info(*b, i, &info) != LAYEROPS_OK || !info.is_gpu) continue;
      *backend = *b;
      *index = i;
      return LAYEROPS_OK;
    }
  }
  return resolve_name("cpu", backend, index);
}

layerops_status lo_device_resolve(const char *name, const struct lo_backend **backend, int *index) {
  if (!name || !*name || !strcmp(name, "auto")) {
    const char *chosen = getenv("LAYEROPS_DEVICE");
    if (!chosen || !*chosen || !strcmp(chosen, "auto")) return resolve_auto(backend, index);
    name = chosen;
  }
  return resolve_name(name, backend, index);
}
