/* libOpenCL, opened at run time: the functions that this backend calls, and the names of its
 * errors. */
#ifndef LO_OPENCL_API_H
#define LO_OPENCL_API_H

#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <stddef.h>

#define LO_CL_FUNCTIONS(X)                                                                         \
  X(clBuildProgram)                                                                                \
  X(clCreateBuffer)                                                                                \
  X(clCreateCommandQueue)                                                                          \
  X(clCreateContext)                                                                               \
  X(clCreateKernel)                                                                                \
  X(clCreateProgramWithBinary)                                                                     \
  X(clCreateProgramWithSource)                                                                     \
  X(clEnqueueBarrierWithWaitList)                                                                  \
  X(clEnqueueMarkerWithWaitList)                                                                   \
  X(clEnqueueNDRangeKernel)                                                                        \
  X(clEnqueueReadBuffer)                                                                           \
  X(clEnqueueWriteBuffer)                                                                          \
  X(clFinish)                                                                                      \
  X(clFlush)                                                                                       \
  X(clGetCommandQueueInfo)                                                                         \
  X(clGetDeviceIDs)                                                                                \
  X(clGetDeviceInfo)                                                                               \
  X(clGetEventProfilingInfo)                                                                       \
  X(clGetMemObjectInfo)                                                                            \
  X(clGetPlatformIDs)                                                                              \
  X(clGetPlatformInfo)                                                                             \
  X(clGetProgramBuildInfo)                                                                         \
  X(clGetProgramInfo)                                                                              \
  X(clReleaseCommandQueue)                                                                         \
  X(clReleaseContext)                                                                              \
  X(clReleaseEvent)                                                                                \
  X(clReleaseKernel)                                                                               \
  X(clReleaseMemObject)                                                                            \
  X(clReleaseProgram)                                                                              \
  X(clRetainCommandQueue)                                                                          \
  X(clRetainContext)                                                                               \
  X(clSetKernelArg)                                                                                \
  X(clWaitForEvents)

typedef struct lo_cl_api {
#define LO_CL_SLOT(name) __typeof__(&name) name;
  LO_CL_FUNCTIONS(LO_CL_SLOT)
#undef LO_CL_SLOT
} lo_cl_api;

extern lo_cl_api lo_cl;

/* NULL once the library is loaded and complete; else why it is not. Not thread-safe. */
const char *lo_cl_load(void);

/* "CL_OUT_OF_RESOURCES"; "?" for an unknown code. */
const char *lo_cl_error_name(cl_int error);

#endif
