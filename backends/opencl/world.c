/* What the contexts of a device share: one cl_context, so that buffers can be used by all of them,
 * and its programs. A user's queue brings a cl_context of its own: another world, as long as
 * contexts use it. */
#include <config.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/opencl/opencl.h"

/* Tiles that fill the registers: 32 of 16 floats (AVX-512), 16 of 8 (AVX2), 16 or more of 4 (SSE,
 * NEON). Chosen by hand with PoCL 3.1 on two cores of a Sapphire Rapids: of 8x48, 14x32, 12x32,
 * 4x64 and 4x96 the first ran the main loop fastest, at 320 GFLOP/s. */
static const lo_cl_class classes[] = {
    {"cpu16", .vector = 16, .rows = 8, .vectors = 3, .group = 1, .item = 16384},
    {"cpu8", .vector = 8, .rows = 4, .vectors = 3, .group = 1, .item = 16384},
    {"cpu4", .vector = 4, .rows = 4, .vectors = 2, .group = 1, .item = 16384},
    {"gpu", .vector = 1, .rows = 1, .vectors = 1, .group = 128, .item = 1},
};
enum { CLASSES = sizeof classes / sizeof *classes };

/* The class by the device's type and vectors; LAYEROPS_OPENCL_CLASS overrides it ("cpu": by the
 * vectors), so that one device can test all. */
static const lo_cl_class *class_of(cl_device_id id) {
  cl_device_type type = 0;
  cl_uint width = 0;
  lo_cl.clGetDeviceInfo(id, CL_DEVICE_TYPE, sizeof type, &type, NULL);
  lo_cl.clGetDeviceInfo(id, CL_DEVICE_NATIVE_VECTOR_WIDTH_FLOAT, sizeof width, &width, NULL);
  const char *wish = getenv("LAYEROPS_OPENCL_CLASS");
  for (int i = 0; wish && i < CLASSES; i++)
    if (!strcmp(wish, classes[i].name)) return &classes[i];
  bool cpu = (type & CL_DEVICE_TYPE_CPU) || (wish && !strcmp(wish, "cpu"));
  if (!cpu) return &classes[CLASSES - 1];
  return &classes[width >= 16 ? 0 : width >= 8 ? 1 : 2];
}

static void describe(lo_cl_device *d, const lo_cl_found *f) {
  char name[128] = "", driver[128] = "", version[128] = "";
  cl_ulong bytes = 0;
  cl_uint units = 1;
  cl_device_fp_config config = 0;
  d->id = f->device;
  d->class = *class_of(d->id);
  lo_cl.clGetDeviceInfo(d->id, CL_DEVICE_LOCAL_MEM_SIZE, sizeof bytes, &bytes, NULL);
  d->local_memory = (int64_t)bytes;
  lo_cl.clGetDeviceInfo(d->id, CL_DEVICE_MAX_MEM_ALLOC_SIZE, sizeof bytes, &bytes, NULL);
  d->largest_buffer = (int64_t)bytes;
  size_t group = 0;
  lo_cl.clGetDeviceInfo(d->id, CL_DEVICE_MAX_WORK_GROUP_SIZE, sizeof group, &group, NULL);
  d->largest_group = (int64_t)group;
  lo_cl.clGetDeviceInfo(d->id, CL_DEVICE_MAX_COMPUTE_UNITS, sizeof units, &units, NULL);
  d->units = (int)units;
  lo_cl.clGetDeviceInfo(d->id, CL_DEVICE_SINGLE_FP_CONFIG, sizeof config, &config, NULL);
  d->rounds = (config & CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT) != 0;
  lo_cl.clGetDeviceInfo(d->id, CL_DEVICE_NAME, sizeof name - 1, name, NULL);
  lo_cl.clGetDeviceInfo(d->id, CL_DRIVER_VERSION, sizeof driver - 1, driver, NULL);
  lo_cl.clGetPlatformInfo(f->platform, CL_PLATFORM_VERSION, sizeof version - 1, version, NULL);
  snprintf(d->key, sizeof d->key, "%s\n%s\n%s\n", name, driver, version);
}

layerops_status lo_cl_device_get(layerops_context *ctx, int index, lo_cl_device **device) {
  *device = atomic_load(&ctx->device->state);
  if (*device) return LAYEROPS_OK;
  lo_cl_device *d = calloc(1, sizeof *d);
  if (!d) return lo_fail(LAYEROPS_ERROR_OUT_OF_MEMORY, "open: no memory");
  pthread_mutex_init(&d->lock, NULL);
  describe(d, lo_cl_device_at(index));
  void *none = NULL;
  if (!atomic_compare_exchange_strong(&ctx->device->state, &none, (void *)d)) {
    pthread_mutex_destroy(&d->lock);
    free(d);
    d = none;
  }
  *device = d;
  return LAYEROPS_OK;
}

static void destroy(lo_cl_world *w) {
  lo_cl_programs_release(w);
  if (w->nothing) lo_cl.clReleaseMemObject(w->nothing);
  if (w->context) lo_cl.clReleaseContext(w->context);
  pthread_mutex_destroy(&w->lock);
  free(w);
}

static layerops_status fill(layerops_context *ctx, lo_cl_world *w, cl_context context) {
  cl_int error = CL_SUCCESS;
  if (context) {
    LO_CL_TRY(ctx, lo_cl.clRetainContext(context));
    w->context = context;
  } else {
    w->context = lo_cl.clCreateContext(NULL, 1, &w->device->id, NULL, NULL, &error);
    if (!w->context) return lo_cl_failed(ctx, "clCreateContext", error, false);
  }
  w->nothing = lo_cl.clCreateBuffer(w->context, CL_MEM_READ_WRITE, 64, NULL, &error);
  return w->nothing ? LAYEROPS_OK : lo_cl_failed(ctx, "clCreateBuffer", error, false);
}

static layerops_status make(layerops_context *ctx, lo_cl_device *device, cl_context context,
                            lo_cl_world **world) {
  lo_cl_world *w = calloc(1, sizeof *w);
  if (!w) return lo_fail(LAYEROPS_ERROR_OUT_OF_MEMORY, "open: no memory");
  w->device = device;
  pthread_mutex_init(&w->lock, NULL);
  layerops_status status = fill(ctx, w, context);
  if (status != LAYEROPS_OK) {
    destroy(w);
    return status;
  }
  /* One use more than it has contexts keeps the device's own world for ever: buffers may outlive
   * all contexts, and opening again must not compile again. */
  w->user = context != NULL;
  w->contexts = w->user ? 0 : 1;
  w->next = device->worlds;
  device->worlds = w;
  atomic_fetch_add(&device->world_count, 1);
  *world = w;
  return LAYEROPS_OK;
}

static lo_cl_world *find(const lo_cl_device *device, cl_context context) {
  for (lo_cl_world *w = device->worlds; w; w = w->next)
    if (context ? w->context == context : !w->user) return w;
  return NULL;
}

layerops_status lo_cl_world_enter(layerops_context *ctx, lo_cl_device *device, cl_context context,
                                  lo_cl_world **world) {
  pthread_mutex_lock(&device->lock);
  layerops_status status = LAYEROPS_OK;
  *world = find(device, context);
  if (!*world) status = make(ctx, device, context, world);
  if (status == LAYEROPS_OK) (*world)->contexts++;
  pthread_mutex_unlock(&device->lock);
  return status;
}

void lo_cl_world_leave(lo_cl_world *world) {
  lo_cl_device *device = world->device;
  pthread_mutex_lock(&device->lock);
  if (--world->contexts == 0) {
    lo_cl_world **link = &device->worlds;
    while (*link != world) link = &(*link)->next;
    *link = world->next;
    atomic_fetch_sub(&device->world_count, 1);
    destroy(world);
  }
  pthread_mutex_unlock(&device->lock);
}
