# The CUDA backend beyond what every device is tested for.
check_PROGRAMS += %D%/cuda
%C%_cuda_SOURCES = %D%/cuda.c
%C%_cuda_CFLAGS = $(AM_CFLAGS) $(CUDA_CPPFLAGS)
check_SCRIPTS += %D%/driver.t
EXTRA_DIST += %D%/driver.c
