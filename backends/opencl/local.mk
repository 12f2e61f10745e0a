# The kernels travel inside the library as strings: `#include "backends/opencl/name.cl.inc"`.
# opencl_kernels are this folder's .cl files, opencl_shared the headers that kernels use too.
# No -lOpenCL: it is opened at run time.
opencl_kernels = \
	%D%/bsr.cl \
	%D%/bsr_cpu.cl \
	%D%/bsr_gpu.cl \
	%D%/bsr_skinny.cl \
	%D%/bsr_values.cl \
	%D%/bsr_wgrad_cpu.cl \
	%D%/bsr_wgrad_gpu.cl \
	%D%/epilogue.cl \
	%D%/loop_cpu.cl \
	%D%/loop_gpu.cl \
	%D%/map.cl \
	%D%/move.cl \
	%D%/optimizer.cl \
	%D%/pack.cl \
	%D%/prelude.cl \
	%D%/product_cpu.cl \
	%D%/product_gpu.cl \
	%D%/product_plain.cl \
	%D%/product_skinny.cl \
	%D%/rows.cl \
	%D%/shape.cl \
	%D%/sum.cl \
	%D%/transpose.cl
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
	%D%/backward.c \
	%D%/bsr.c \
	%D%/bsr.h \
	%D%/bsr_lines.c \
	%D%/bsr_values.c \
	%D%/bsr_wgrad.c \
	%D%/buffer.c \
	%D%/cache.c \
	%D%/context.c \
	%D%/event.c \
	%D%/launch.c \
	%D%/map.c \
	%D%/map.h \
	%D%/move.c \
	%D%/opencl.h \
	%D%/optimizer.c \
	%D%/params.h \
	%D%/platform.c \
	%D%/product.c \
	%D%/product.h \
	%D%/product_cpu.c \
	%D%/program.c \
	%D%/rows.c \
	%D%/shape.c \
	%D%/sum.c \
	%D%/world.c
$(%C%_libopencl_la_OBJECTS): $(opencl_embedded)
endif
