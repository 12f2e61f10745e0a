# The kernels travel inside the library as strings: `#include "backends/opencl/name.cl.inc"`.
# opencl_kernels are this folder's .cl files, opencl_shared the headers of others that they use.
# No -lOpenCL: it is opened at run time.
opencl_kernels =
opencl_shared =
opencl_embedded = $(opencl_kernels:.cl=.cl.inc) $(opencl_shared:.h=.h.inc)
EXTRA_DIST += $(opencl_kernels)
CLEANFILES += $(opencl_embedded)

if HAVE_OPENCL
library_parts += %D%/libopencl.la
%C%_libopencl_la_CFLAGS = $(AM_CFLAGS) $(VISIBILITY_CFLAGS)
%C%_libopencl_la_SOURCES =
$(%C%_libopencl_la_OBJECTS): $(opencl_embedded)
endif
