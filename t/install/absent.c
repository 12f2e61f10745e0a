/* To be preloaded: a machine that has neither an OpenCL loader nor an NVIDIA driver. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <string.h>

void *dlopen(const char *name, int flags) {
  void *(*real)(const char *, int);
  *(void **)&real = dlsym(RTLD_NEXT, "dlopen");
  if (name && (strstr(name, "libOpenCL") || strstr(name, "libcuda") || strstr(name, "libnvidia")))
    name = "/nonexistent/library.so"; /* so that dlerror has something to say */
  return real(name, flags);
}
