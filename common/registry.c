/* The backends of this build: the only place that names them all. */
#include <config.h>

#include "common/backend.h"

const struct lo_backend *const lo_backends[] = {
#ifdef HAVE_CUDA
    &lo_backend_cuda,
#endif
#ifdef HAVE_OPENCL
    &lo_backend_opencl,
#endif
    &lo_backend_cpu,    &lo_backend_reference, NULL,
};
