/* libcuda and NVML, opened at run time by name: this library links neither, so it starts where
 * there is no driver. */
#ifndef LO_CUDA_DRIVER_H
#define LO_CUDA_DRIVER_H

#include <stddef.h>

#include <cuda.h>

#define LO_CUDA_DRIVER_CALLS(X)                                                                    \
  X(cuInit)                                                                                        \
  X(cuDeviceGetCount)                                                                              \
  X(cuDeviceGet)                                                                                   \
  X(cuDeviceGetName)                                                                               \
  X(cuDeviceGetAttribute)                                                                          \
  X(cuDeviceTotalMem)                                                                              \
  X(cuDevicePrimaryCtxRetain)                                                                      \
  X(cuCtxGetCurrent)                                                                               \
  X(cuCtxPushCurrent)                                                                              \
  X(cuCtxPopCurrent)                                                                               \
  X(cuLaunchKernelEx)                                                                              \
  X(cuStreamGetCtx)                                                                                \
  X(cuPointerGetAttribute)                                                                         \
  X(cuTensorMapEncodeTiled)                                                                        \
  X(cuGetErrorString)

typedef struct lo_cuda_driver {
#define X(name) __typeof__(name) *name;
  LO_CUDA_DRIVER_CALLS(X)
#undef X
  int version;      /* as cuDriverGetVersion gives it: 13000 */
  int count;        /* devices; 0 where there are none or no driver */
  char reason[256]; /* why count is 0 */
  char text[96];    /* "580.159.03, CUDA 13.0" */
} lo_cuda_driver;

/* Initialises the driver at the first call (cuInit: no context, no memory on any device).
 * Thread-safe. A child of a process that had called it gets a table without devices: CUDA does not
 * survive fork. */
const lo_cuda_driver *lo_cuda_driver_get(void);

/* What libcuda says of an error; never NULL. */
const char *lo_cuda_driver_error(CUresult error);

/* The architecture of a device, 75 for 7.5. */
int lo_cuda_architecture(CUdevice device);

/* NULL where this build has code for the architecture, else a sentence in `text`. */
const char *lo_cuda_lacks_code(int architecture, char *text, size_t size);

#endif
