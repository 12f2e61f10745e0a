#include <config.h>

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "backends/opencl/api.h"

lo_cl_api lo_cl;

#define LIBRARY "libOpenCL.so.1"

const char *lo_cl_load(void) {
#define NAME(name) {#name, offsetof(lo_cl_api, name)},
  static const struct {
    const char *name;
    size_t slot;
  } table[] = {LO_CL_FUNCTIONS(NAME)};
#undef NAME
  static char missing[128];
  void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
  if (!library)
    return "there is no " LIBRARY ": install an ICD loader (ocl-icd-libopencl1) and the OpenCL "
           "runtime of the device, its ICD (that of the GPU's vendor, or pocl-opencl-icd)";
  for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
    void *function = dlsym(library, table[i].name);
    if (!function) {
      snprintf(missing, sizeof missing, LIBRARY " has no %s: it is older than OpenCL 1.2",
               table[i].name);
      return missing;
    }
    memcpy((char *)&lo_cl + table[i].slot, &function, sizeof function);
  }
  return NULL;
}

const char *lo_cl_error_name(cl_int error) {
#define E(name)                                                                                    \
  { name, #name }
  static const struct {
    cl_int code;
    const char *name;
  } table[] = {
      E(CL_DEVICE_NOT_FOUND),
      E(CL_DEVICE_NOT_AVAILABLE),
      E(CL_COMPILER_NOT_AVAILABLE),
      E(CL_MEM_OBJECT_ALLOCATION_FAILURE),
      E(CL_OUT_OF_RESOURCES),
      E(CL_OUT_OF_HOST_MEMORY),
      E(CL_PROFILING_INFO_NOT_AVAILABLE),
      E(CL_MEM_COPY_OVERLAP),
      E(CL_BUILD_PROGRAM_FAILURE),
      E(CL_MAP_FAILURE),
      E(CL_MISALIGNED_SUB_BUFFER_OFFSET),
      E(CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST),
      E(CL_COMPILE_PROGRAM_FAILURE),
      E(CL_LINKER_NOT_AVAILABLE),
      E(CL_LINK_PROGRAM_FAILURE),
      E(CL_KERNEL_ARG_INFO_NOT_AVAILABLE),
      E(CL_INVALID_VALUE),
      E(CL_INVALID_DEVICE_TYPE),
      E(CL_INVALID_PLATFORM),
      E(CL_INVALID_DEVICE),
      E(CL_INVALID_CONTEXT),
      E(CL_INVALID_QUEUE_PROPERTIES),
      E(CL_INVALID_COMMAND_QUEUE),
      E(CL_INVALID_HOST_PTR),
      E(CL_INVALID_MEM_OBJECT),
      E(CL_INVALID_BINARY),
      E(CL_INVALID_BUILD_OPTIONS),
      E(CL_INVALID_PROGRAM),
      E(CL_INVALID_PROGRAM_EXECUTABLE),
      E(CL_INVALID_KERNEL_NAME),
      E(CL_INVALID_KERNEL_DEFINITION),
      E(CL_INVALID_KERNEL),
      E(CL_INVALID_ARG_INDEX),
      E(CL_INVALID_ARG_VALUE),
      E(CL_INVALID_ARG_SIZE),
      E(CL_INVALID_KERNEL_ARGS),
      E(CL_INVALID_WORK_DIMENSION),
      E(CL_INVALID_WORK_GROUP_SIZE),
      E(CL_INVALID_WORK_ITEM_SIZE),
      E(CL_INVALID_GLOBAL_OFFSET),
      E(CL_INVALID_EVENT_WAIT_LIST),
      E(CL_INVALID_EVENT),
      E(CL_INVALID_OPERATION),
      E(CL_INVALID_BUFFER_SIZE),
      E(CL_INVALID_GLOBAL_WORK_SIZE),
      E(CL_INVALID_PROPERTY),
      {-1001, "CL_PLATFORM_NOT_FOUND_KHR"},
  };
#undef E
  for (size_t i = 0; i < sizeof table / sizeof *table; i++)
    if (table[i].code == error) return table[i].name;
  return "?";
}
