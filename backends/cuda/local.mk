if HAVE_CUDA
library_parts += %D%/libcuda.la
%C%_libcuda_la_CFLAGS = $(AM_CFLAGS) $(VISIBILITY_CFLAGS) $(CUDA_CPPFLAGS)
%C%_libcuda_la_SOURCES =
endif

# The -fno- flags keep the C++ run-time library out of a C library.
AM_NVCCFLAGS = -std=c++17 -forward-unknown-to-host-compiler $(NVCC_GENCODE) \
	$(VISIBILITY_CFLAGS) -fno-exceptions -fno-rtti -fno-threadsafe-statics
AM_V_NVCC = $(am__v_NVCC_@AM_V@)
am__v_NVCC_ = $(am__v_NVCC_@AM_DEFAULT_V@)
am__v_NVCC_0 = @echo "  NVCC    " $@;
SUFFIXES += .cu
# libtool compiles twice, for the shared and the static library, and nvcc takes minutes. So nvcc
# runs once, position-independent, and what libtool "compiles" is a relocatable link of its output.
.cu.lo:
	$(AM_V_NVCC)$(NVCC) $(DEFS) $(DEFAULT_INCLUDES) $(AM_CPPFLAGS) $(CPPFLAGS) \
	  $(AM_NVCCFLAGS) $(NVCCFLAGS) -fPIC -DPIC -MD -MP -MT $@ -MF $*.d -c -o $*.nv.o $<
	$(AM_V_at)$(LIBTOOL) --silent --tag=CC $(AM_LIBTOOLFLAGS) $(LIBTOOLFLAGS) \
	  --mode=compile $(CC) -r -nostdlib -o $@ $*.nv.o && rm -f $*.nv.o
if HAVE_CUDA
-include $(%C%_libcuda_la_OBJECTS:.lo=.d)
CLEANFILES += %D%/*.d
endif
