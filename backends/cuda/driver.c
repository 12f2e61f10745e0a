#include <config.h>

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cuda_runtime_api.h>

#include "backends/cuda/driver.h"
#include "common/process.h"

/* cuda.h maps some names to versions of theirs: the symbol to look up is what the macro makes. */
#define STRING_(name) #name
#define STRING(name)  STRING_(name)

static lo_cuda_driver driver, forked;
static unsigned generation; /* of the process that called cuInit */
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void *find_library(void) {
  void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!library)
    snprintf(driver.reason, sizeof driver.reason, "no CUDA driver (libcuda.so.1) on this machine");
  return library;
}

/* A runtime runs on drivers of its own major version, and on later ones. */
static int check_version(void *library) {
  CUresult (*get)(int *) = (CUresult(*)(int *))dlsym(library, "cuDriverGetVersion");
  if (get && get(&driver.version) == CUDA_SUCCESS && driver.version / 1000 >= CUDART_VERSION / 1000)
    return 1;
  snprintf(driver.reason, sizeof driver.reason,
           "driver too old: it has CUDA %d.%d, this build needs %d.0", driver.version / 1000,
           driver.version % 1000 / 10, CUDART_VERSION / 1000);
  return 0;
}

static int find_symbols(void *library) {
  static const struct {
    const char *name;
    size_t place;
  } symbols[] = {
#define X(name) {STRING(name), offsetof(lo_cuda_driver, name)},
      LO_CUDA_DRIVER_CALLS(X)
#undef X
  };
  for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++) {
    void *symbol = dlsym(library, symbols[i].name);
    if (!symbol) {
      snprintf(driver.reason, sizeof driver.reason,
               "driver too old: it has CUDA %d.%d without %s, this build needs %d.%d",
               driver.version / 1000, driver.version % 1000 / 10, symbols[i].name,
               CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10);
      return 0;
    }
    memcpy((char *)&driver + symbols[i].place, &symbol, sizeof symbol);
  }
  return 1;
}

/* The driver's own version comes from NVML, which may be absent. */
static void find_text(void) {
  char version[64] = "";
  void *nvml = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  if (nvml) {
    int (*init)(void) = (int (*)(void))dlsym(nvml, "nvmlInit_v2");
    int (*shutdown)(void) = (int (*)(void))dlsym(nvml, "nvmlShutdown");
    int (*get)(char *, unsigned) =
        (int (*)(char *, unsigned))dlsym(nvml, "nvmlSystemGetDriverVersion");
    if (init && shutdown && get && init() == 0) {
      if (get(version, sizeof version - 3) != 0) version[0] = 0;
      shutdown();
    }
    dlclose(nvml);
  }
  if (version[0]) strcat(version, ", ");
  snprintf(driver.text, sizeof driver.text, "%sCUDA %d.%d", version, driver.version / 1000,
           driver.version % 1000 / 10);
}

static void start(void) {
  lo_watch_forks();
  generation = lo_fork_generation();
  snprintf(
      forked.reason, sizeof forked.reason,
      "this process is a child of one that had initialised CUDA, which does not survive fork()");
  void *library = find_library();
  if (!library || !check_version(library) || !find_symbols(library)) return;
  CUresult error = driver.cuInit(0);
  if (error == CUDA_SUCCESS) error = driver.cuDeviceGetCount(&driver.count);
  if (error != CUDA_SUCCESS) driver.count = 0;
  if (error != CUDA_SUCCESS && error != CUDA_ERROR_NO_DEVICE)
    snprintf(driver.reason, sizeof driver.reason, "the CUDA driver does not start: %s",
             lo_cuda_driver_error(error));
  else if (driver.count == 0)
    snprintf(driver.reason, sizeof driver.reason, "the CUDA driver finds no device%s",
             getenv("CUDA_VISIBLE_DEVICES") ? " (CUDA_VISIBLE_DEVICES is set)" : "");
  find_text();
}

const lo_cuda_driver *lo_cuda_driver_get(void) {
  pthread_once(&once, start);
  return lo_fork_generation() == generation || driver.count == 0 ? &driver : &forked;
}

const char *lo_cuda_driver_error(CUresult error) {
  const char *text = NULL;
  if (!driver.cuGetErrorString || driver.cuGetErrorString(error, &text) != CUDA_SUCCESS)
    text = NULL;
  return text ? text : "unknown error";
}

int lo_cuda_architecture(CUdevice device) {
  int major = 0, minor = 0;
  driver.cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device);
  driver.cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device);
  return 10 * major + minor;
}

/* LO_CUDA_GENCODE is what nvcc was told: "-gencode=arch=compute_75,code=sm_75 ...". Machine code
 * serves its own major version from its minor on (an `a` target its very own); PTX serves all from
 * its own on. */
const char *lo_cuda_lacks_code(int architecture, char *text, size_t size) {
  int used = snprintf(text, size, "no kernel image for sm_%d: built for", architecture);
  for (const char *at = LO_CUDA_GENCODE; (at = strstr(at, "code=")); at++) {
    int built = 0, end = 0, ptx = !strncmp(at, "code=compute_", 13);
    if (sscanf(at, ptx ? "code=compute_%d%n" : "code=sm_%d%n", &built, &end) != 1) continue;
    int own = at[end] == 'a';
    if (own   ? built == architecture
        : ptx ? built <= architecture
              : built / 10 == architecture / 10 && built <= architecture)
      return NULL;
    if (used > 0 && (size_t)used < size)
      used += snprintf(text + used, size - (size_t)used, " %s%d%s", ptx ? "compute_" : "sm_", built,
                       own ? "a" : "");
  }
  return text;
}
