# The kernels travel inside the library as strings: %D%/name.cl.inc. No -lOpenCL: opened at run time.
if HAVE_OPENCL
library_parts += %D%/libopencl.la
%C%_libopencl_la_CFLAGS = $(AM_CFLAGS) $(VISIBILITY_CFLAGS)
%C%_libopencl_la_SOURCES =
opencl_kernels =
opencl_shared =
EXTRA_DIST += $(opencl_kernels)
opencl_embedded = $(opencl_kernels:.cl=.cl.inc) $(opencl_shared:.h=.h.inc)
$(%C%_libopencl_la_OBJECTS): $(opencl_embedded)
CLEANFILES += $(opencl_embedded)
endif
