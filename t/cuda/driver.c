/* A libcuda.so.1 for tests: drivers and devices that are not in this machine, described by
 * FAKE_VERSION (11040), FAKE_INIT (an error number), FAKE_COUNT and FAKE_ARCH (61). It can be asked
 * about its devices, not used. */
#include <stdio.h>
#include <stdlib.h>

#define EXPORT __attribute__((visibility("default")))

static int number(const char *name, int otherwise) {
  const char *text = getenv(name);
  return text ? atoi(text) : otherwise;
}

enum { NOT_SUPPORTED = 801, CAPABILITY_MAJOR = 75, CAPABILITY_MINOR = 76, UNITS = 16 };

EXPORT int cuInit(unsigned flags);
int cuInit(unsigned flags) {
  (void)flags;
  return number("FAKE_INIT", 0);
}

EXPORT int cuDriverGetVersion(int *version);
int cuDriverGetVersion(int *version) {
  *version = number("FAKE_VERSION", 13000);
  return 0;
}

EXPORT int cuDeviceGetCount(int *count);
int cuDeviceGetCount(int *count) {
  *count = number("FAKE_COUNT", 1);
  return 0;
}

EXPORT int cuDeviceGet(int *device, int index);
int cuDeviceGet(int *device, int index) {
  *device = index;
  return 0;
}

EXPORT int cuDeviceGetName(char *name, int size, int device);
int cuDeviceGetName(char *name, int size, int device) {
  snprintf(name, (size_t)size, "Fake %d", device);
  return 0;
}

EXPORT int cuDeviceGetAttribute(int *value, int attribute, int device);
int cuDeviceGetAttribute(int *value, int attribute, int device) {
  (void)device;
  int architecture = number("FAKE_ARCH", 75);
  *value = attribute == CAPABILITY_MAJOR   ? architecture / 10
           : attribute == CAPABILITY_MINOR ? architecture % 10
           : attribute == UNITS            ? 40
                                           : 0;
  return 0;
}

EXPORT int cuDeviceTotalMem_v2(size_t *bytes, int device);
int cuDeviceTotalMem_v2(size_t *bytes, int device) {
  (void)device;
  *bytes = (size_t)16 << 30;
  return 0;
}

EXPORT int cuGetErrorString(int error, const char **text);
int cuGetErrorString(int error, const char **text) {
  *text = error == NOT_SUPPORTED ? "operation not supported" : "some error";
  return 0;
}

#define REFUSES(name)                                                                              \
  EXPORT int name(void);                                                                           \
  int name(void) {                                                                                 \
    return NOT_SUPPORTED;                                                                          \
  }
REFUSES(cuDevicePrimaryCtxRetain)
REFUSES(cuCtxGetCurrent)
#ifndef FAKE_OLD
REFUSES(cuCtxPushCurrent_v2)
#endif
REFUSES(cuCtxPopCurrent_v2)
REFUSES(cuLaunchKernel)
REFUSES(cuLaunchKernelEx)
REFUSES(cuTensorMapEncodeTiled)
REFUSES(cuStreamGetCtx)
REFUSES(cuPointerGetAttribute)
