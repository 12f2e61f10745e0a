# The kernels travel inside the library as strings: `#include "backends/opencl/name.cl.inc"`.
# opencl_kernels are this folder's .cl files, opencl_shared the headers that kernels use too.
# No -lOpenCL: it is opened at run time.
opencl_kernels = \
	%D%/epilogue.cl \
	%D%/prelude.cl \
	%D%/product_cpu.cl \
	%D%/product_gpu.cl \
	%D%/product_plain.cl
opencl_shared = \
	%D%/params.h \
	common/kernel/activation.h \
	common/kernel/codes.h
opencl_embedded = $(opencl_kernels:.cl=.cl.inc) $(opencl_shared:.h=.h.inc)
EXTRA_DIST += $(opencl_kernels)
CLEANFILES += $(opencl_embedded)

if HAVE_OPENCL
library_parts += %D%/libopencl.la
%C%_libopencl_la_CFLAGS = $(AM_CFLAGS) $(VISIBILITY_CFLAGS)
%C%_libopencl_la_SOURCES = \
	%D%/api.c \
	%D%/api.h \
	%D%/backend.c \
	%D%/buffer.c \
	%D%/cache.c \
	%D%/context.c \
	%D%/event.c \
	%D%/launch.c \
	%D%/opencl.h \
	%D%/params.h \
	%D%/platform.c \
	%D%/product.c \
	%D%/product.h \
	%D%/product_cpu.c \
	%D%/program.c \
	%D%/world.c
$(%C%_libopencl_la_OBJECTS): $(opencl_embedded)
endif
