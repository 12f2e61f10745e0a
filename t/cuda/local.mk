# The CUDA backend beyond what every device is tested for.
check_PROGRAMS += %D%/bsr_plan %D%/capture %D%/cuda %D%/kernels %D%/kernels_bsr %D%/large
check_PROGRAMS += %D%/repeat %D%/tune
%C%_bsr_plan_SOURCES = %D%/bsr_plan.c backends/cuda/bsr_heads.c backends/cuda/bsr_heads.h \
	backends/cuda/bsr_plan.c backends/cuda/bsr_plan.h t/tap.h
%C%_bsr_plan_LDADD = $(inside)
%C%_capture_SOURCES = %D%/capture.c t/any_call.h t/devices.h t/tap.h
%C%_capture_CFLAGS = $(AM_CFLAGS) $(CUDA_CPPFLAGS)
%C%_cuda_SOURCES = %D%/cuda.c
%C%_cuda_CFLAGS = $(AM_CFLAGS) $(CUDA_CPPFLAGS)
%C%_large_SOURCES = %D%/large.c t/devices.h t/tap.h
%C%_kernels_SOURCES = %D%/kernels.c
%C%_kernels_CFLAGS = $(AM_CFLAGS) $(CUDA_CPPFLAGS)
%C%_kernels_LDADD = $(inside)
%C%_kernels_bsr_SOURCES = %D%/kernels_bsr.c t/tap.h
%C%_repeat_SOURCES = %D%/repeat.c t/any_call.h t/devices.h t/tap.h
%C%_repeat_CFLAGS = $(AM_CFLAGS) $(CUDA_CPPFLAGS) -pthread
%C%_repeat_LDADD = $(inside)
%C%_tune_SOURCES = %D%/tune.c t/is.h t/scratch.h
%C%_tune_CFLAGS = $(AM_CFLAGS) $(CUDA_CPPFLAGS)
%C%_tune_LDADD = $(inside) $(ZLIB_LIBS) -lm
# Hopper's main loops compiled again, with delays in them.
if HAVE_CUDA
check_LTLIBRARIES = %D%/libdelays.la
%C%_libdelays_la_SOURCES = %D%/delays.cu %D%/delays.h
-include %D%/delays.d
CLEANFILES += %D%/*.d
check_PROGRAMS += %D%/delays
%C%_delays_SOURCES = %D%/delays.c t/tap.h
%C%_delays_CFLAGS = $(AM_CFLAGS) $(CUDA_CPPFLAGS)
%C%_delays_LDADD = %D%/libdelays.la $(inside) -lm
endif
EXTRA_DIST += %D%/delays.c %D%/delays.cu %D%/delays.h
check_SCRIPTS += %D%/driver.t %D%/headers.t
EXTRA_DIST += %D%/driver.c
