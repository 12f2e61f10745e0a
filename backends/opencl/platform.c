/* Which OpenCL devices there are. Found once; OpenCL runtimes do not follow changes either. */
#include <config.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/opencl/opencl.h"
#include "common/process.h"

enum { MOST_PLATFORMS = 64, MOST_DEVICES = 256, LEAST_GROUP = 128 };

static struct {
  pthread_once_t once;
  lo_cl_found list[MOST_DEVICES];
  int count;
  unsigned fork_generation;
  char reason[256];
} found = {.once = PTHREAD_ONCE_INIT};

static void find_devices(cl_platform_id platform, int platform_index) {
  cl_device_id ids[MOST_DEVICES];
  cl_uint count = 0;
  if (lo_cl.clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, MOST_DEVICES, ids, &count) != CL_SUCCESS)
    return;
  for (cl_uint i = 0; i < count && i < MOST_DEVICES && found.count < MOST_DEVICES; i++)
    found.list[found.count++] = (lo_cl_found){platform, ids[i], platform_index, (int)i};
}

static void find(void) {
  lo_watch_forks();
  found.fork_generation = lo_fork_generation();
  const char *why = lo_cl_load();
  if (why) {
    snprintf(found.reason, sizeof found.reason, "%s", why);
    return;
  }
  cl_platform_id platforms[MOST_PLATFORMS];
  cl_uint count = 0;
  cl_int error = lo_cl.clGetPlatformIDs(MOST_PLATFORMS, platforms, &count);
  if (error != CL_SUCCESS || !count) {
    snprintf(found.reason, sizeof found.reason,
             "the ICD loader libOpenCL.so.1 found no OpenCL runtime (%s): install the ICD of the "
             "GPU's vendor, or pocl-opencl-icd for the CPU",
             error == CL_SUCCESS ? "no platform" : lo_cl_error_name(error));
    return;
  }
  for (cl_uint i = 0; i < count && i < MOST_PLATFORMS; i++) find_devices(platforms[i], (int)i);
  if (!found.count)
    snprintf(found.reason, sizeof found.reason,
             "the %u OpenCL runtime%s (ICD) installed here found no device", count,
             count == 1 ? "" : "s");
}

/* A runtime's threads do not survive fork(): in a child the first wait would never end. */
static bool inherited(void) {
  return found.fork_generation != lo_fork_generation();
}

int lo_cl_count(char *reason, size_t reason_size) {
  pthread_once(&found.once, find);
  if (inherited()) {
    snprintf(reason, reason_size,
             "OpenCL was in use before fork(), and its runtime does not work in the child");
    return 0;
  }
  if (!found.count) snprintf(reason, reason_size, "%s", found.reason);
  return found.count;
}

const lo_cl_found *lo_cl_device_at(int index) {
  return &found.list[index];
}

int lo_cl_index_of(const char *rest) {
  char *end;
  long platform = strtol(rest, &end, 10), device = 0;
  if (*rest < '0' || *rest > '9') return -1;
  if (*end == '.' && end[1] >= '0' && end[1] <= '9') device = strtol(end + 1, &end, 10);
  if (*end) return -1;
  for (int i = 0; i < found.count; i++)
    if (found.list[i].platform_index == platform && found.list[i].device_index == device) return i;
  return -1;
}

/* ---- A device's description ---- */

static void get_text(cl_device_id id, cl_device_info what, char *to, size_t size) {
  char text[1024] = "";
  lo_cl.clGetDeviceInfo(id, what, sizeof text - 1, text, NULL);
  const char *start = text + strspn(text, " ");
  snprintf(to, size, "%.*s", (int)size - 1, start);
}

static cl_ulong get_number(cl_device_id id, cl_device_info what, size_t size) {
  cl_ulong number = 0;
  cl_uint word = 0;
  if (size == sizeof word) {
    lo_cl.clGetDeviceInfo(id, what, sizeof word, &word, NULL);
    return word;
  }
  lo_cl.clGetDeviceInfo(id, what, sizeof number, &number, NULL);
  return number;
}
#define WORD(id, what) get_number(id, what, sizeof(cl_uint))
#define LONG(id, what) get_number(id, what, sizeof(cl_ulong))

static layerops_status check_usable(const lo_cl_found *f, const char *name) {
  if (!WORD(f->device, CL_DEVICE_AVAILABLE))
    return lo_fail(LAYEROPS_ERROR_NO_DEVICE, "%s: its runtime says that it is not available", name);
  if (!WORD(f->device, CL_DEVICE_COMPILER_AVAILABLE))
    return lo_fail(LAYEROPS_ERROR_NO_DEVICE, "%s: its runtime has no compiler", name);
  if (!WORD(f->device, CL_DEVICE_ENDIAN_LITTLE))
    return lo_fail(LAYEROPS_ERROR_NO_DEVICE, "%s: it is big-endian", name);
  size_t group = 0;
  lo_cl.clGetDeviceInfo(f->device, CL_DEVICE_MAX_WORK_GROUP_SIZE, sizeof group, &group, NULL);
  if (group < LEAST_GROUP)
    return lo_fail(LAYEROPS_ERROR_NO_DEVICE,
                   "%s: its work-groups have at most %zu items, less than %d", name, group,
                   LEAST_GROUP);
  return LAYEROPS_OK;
}

layerops_status lo_cl_info(int index, layerops_device_info *info) {
  const lo_cl_found *f = lo_cl_device_at(index);
  cl_device_id id = f->device;
  char version[64] = "", driver[64];
  snprintf(info->name, sizeof info->name, "opencl:%d.%d", f->platform_index, f->device_index);
  get_text(id, CL_DEVICE_NAME, info->description, sizeof info->description);
  get_text(id, CL_DEVICE_VERSION, info->isa, sizeof info->isa);
  get_text(id, CL_DRIVER_VERSION, driver, sizeof driver);
  lo_cl.clGetPlatformInfo(f->platform, CL_PLATFORM_NAME, sizeof version - 1, version, NULL);
  snprintf(info->driver, sizeof info->driver, "%s %s", version, driver);
  info->units = (int32_t)WORD(id, CL_DEVICE_MAX_COMPUTE_UNITS);
  info->clock_mhz = (int32_t)WORD(id, CL_DEVICE_MAX_CLOCK_FREQUENCY);
  info->is_gpu = (LONG(id, CL_DEVICE_TYPE) & CL_DEVICE_TYPE_GPU) != 0;
  info->memory = (int64_t)LONG(id, CL_DEVICE_GLOBAL_MEM_SIZE);
  int64_t cache = (int64_t)LONG(id, CL_DEVICE_GLOBAL_MEM_CACHE_SIZE);
  *(info->is_gpu ? &info->l2 : &info->l3) = cache; /* the chip's, by its runtime */
  return check_usable(f, info->name);
}
