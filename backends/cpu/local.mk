# One small library for each instruction set: its files, and only they, get its flags, and they run
# only where the processor has it. So they must not define anything that other files may call.
cpu_cflags = $(AM_CFLAGS) $(VISIBILITY_CFLAGS) $(OPENMP_CFLAGS) $(HWLOC_CFLAGS)

library_parts += %D%/libcpu.la
%C%_libcpu_la_CFLAGS = $(cpu_cflags)
%C%_libcpu_la_SOURCES = \
	%D%/cpu.c \
	%D%/host.c \
	%D%/host.h \
	%D%/reference.c \
	%D%/reference.h \
	%D%/reference_activation.c \
	%D%/reference_move.c \
	%D%/reference_mse.c \
	%D%/reference_optimizer.c \
	%D%/reference_product.c \
	%D%/reference_rows.c \
	%D%/reference_value.c

if CPU_AVX2
library_parts += %D%/libcpu_avx2.la
%C%_libcpu_avx2_la_CFLAGS = $(cpu_cflags) $(AVX2_CFLAGS)
%C%_libcpu_avx2_la_SOURCES =
endif

if CPU_AVX512
library_parts += %D%/libcpu_avx512.la
%C%_libcpu_avx512_la_CFLAGS = $(cpu_cflags) $(AVX512_CFLAGS)
%C%_libcpu_avx512_la_SOURCES =
endif

if CPU_NEON
library_parts += %D%/libcpu_neon.la
%C%_libcpu_neon_la_CFLAGS = $(cpu_cflags) $(NEON_CFLAGS)
%C%_libcpu_neon_la_SOURCES =
endif
