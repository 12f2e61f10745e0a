EXTRA_DIST += \
	%D%/align.cu \
	%D%/async_copy.cuh \
	%D%/bsr_boxes.cu \
	%D%/bsr_boxes.cuh \
	%D%/bsr_direct.cu \
	%D%/bsr_direct.cuh \
	%D%/bsr_features.cuh \
	%D%/bsr_features_bf16.cu \
	%D%/bsr_features_f16.cu \
	%D%/bsr_features_launch.cuh \
	%D%/bsr_features_wgrad.cu \
	%D%/bsr_features_wgrad.cuh \
	%D%/bsr_group.cu \
	%D%/bsr_group.cuh \
	%D%/bsr_make.cu \
	%D%/bsr_mma.cuh \
	%D%/bsr_panel.cuh \
	%D%/bsr_rings.cu \
	%D%/bsr_rings.cuh \
	%D%/bsr_simt.cu \
	%D%/bsr_simt.cuh \
	%D%/bsr_simt_values.cu \
	%D%/bsr_queue.cuh \
	%D%/bsr_slab.cu \
	%D%/bsr_slab.cuh \
	%D%/bsr_wgmma.cu \
	%D%/bsr_wgmma.cuh \
	%D%/bsr_wgrad_direct.cu \
	%D%/bsr_wgrad_direct.cuh \
	%D%/elementwise.cu \
	%D%/epilogue.cuh \
	%D%/gemm_16.cu \
	%D%/gemm_async.cuh \
	%D%/gemm_async_bf16.cu \
	%D%/gemm_async_f16.cu \
	%D%/gemm_async_int8.cu \
	%D%/gemm_async_launch.cuh \
	%D%/gemm_async_tf32.cu \
	%D%/gemm_direct.cuh \
	%D%/gemm_direct_fma.cu \
	%D%/gemm_direct_launch.cuh \
	%D%/gemm_direct_mma.cu \
	%D%/gemm_direct_w8.cu \
	%D%/gemm_f32.cu \
	%D%/gemm_launch.cuh \
	%D%/gemm_mma.cu \
	%D%/gemm_mma.cuh \
	%D%/gemm_simt.cuh \
	%D%/gemm_wgmma_bf16.cu \
	%D%/gemm_wgmma_f16.cu \
	%D%/gemm_wgmma_f8.cu \
	%D%/gemm_wgmma_f8.cuh \
	%D%/gemm_wgmma_f8_fast.cu \
	%D%/gemm_wgmma_int8.cu \
	%D%/gemm_wgmma_tf32.cu \
	%D%/gemm_wgmma.cuh \
	%D%/gemm_wgmma_end.cuh \
	%D%/gemm_wgmma_launch.cuh \
	%D%/loss.cu \
	%D%/gemm_triple.cu \
	%D%/gemm_triple_mma.cuh \
	%D%/gemm_triple_wgmma.cuh \
	%D%/gemm_sliced.cu \
	%D%/gemm_sliced.cuh \
	%D%/main_loop.cuh \
	%D%/move.cu \
	%D%/optimizer.cu \
	%D%/prelude.cuh \
	%D%/product.cu \
	%D%/rows.cuh \
	%D%/softmax.cu \
	%D%/tma.cuh \
	%D%/triple.cuh \
	%D%/wgmma.cuh \
	%D%/widen.cuh

if HAVE_CUDA
library_parts += %D%/libcuda.la
%C%_libcuda_la_CFLAGS = $(AM_CFLAGS) $(VISIBILITY_CFLAGS) $(CUDA_CPPFLAGS)
%C%_libcuda_la_CPPFLAGS = $(AM_CPPFLAGS) -DLO_CUDA_GENCODE='"$(NVCC_GENCODE)"'
%C%_libcuda_la_SOURCES = \
	%D%/again.c \
	%D%/align.cu \
	%D%/boxes.c \
	%D%/boxes.h \
	%D%/bsr_backward.c \
	%D%/bsr_boxes.cu \
	%D%/bsr_direct.cu \
	%D%/bsr_features_bf16.cu \
	%D%/bsr_features_f16.cu \
	%D%/bsr_features_wgrad.cu \
	%D%/bsr_form.c \
	%D%/bsr_group.cu \
	%D%/bsr_heads.c \
	%D%/bsr_heads.h \
	%D%/bsr_launch.h \
	%D%/bsr_make.c \
	%D%/bsr_make.cu \
	%D%/bsr_make.h \
	%D%/bsr_plan.c \
	%D%/bsr_plan.h \
	%D%/bsr_rings.cu \
	%D%/bsr_simt.cu \
	%D%/bsr_simt_values.cu \
	%D%/bsr_slab.cu \
	%D%/bsr_spans.c \
	%D%/bsr_wgmma.cu \
	%D%/bsr_wgrad_direct.cu \
	%D%/context.c \
	%D%/cost.c \
	%D%/cuda.c \
	%D%/cuda.h \
	%D%/driver.c \
	%D%/driver.h \
	%D%/elementwise.cu \
	%D%/gemm_16.cu \
	%D%/gemm_async_bf16.cu \
	%D%/gemm_async_f16.cu \
	%D%/gemm_async_int8.cu \
	%D%/gemm_async_tf32.cu \
	%D%/gemm_direct_fma.cu \
	%D%/gemm_direct_mma.cu \
	%D%/gemm_direct_w8.cu \
	%D%/gemm_f32.cu \
	%D%/gemm_mma.cu \
	%D%/gemm_triple.cu \
	%D%/gemm_sliced.cu \
	%D%/gemm_wgmma_bf16.cu \
	%D%/gemm_wgmma_f16.cu \
	%D%/gemm_wgmma_f8.cu \
	%D%/gemm_wgmma_f8_fast.cu \
	%D%/gemm_wgmma_int8.cu \
	%D%/gemm_wgmma_tf32.cu \
	%D%/kernels.c \
	%D%/graph.c \
	%D%/launch.h \
	%D%/loss.cu \
	%D%/memory.c \
	%D%/move.cu \
	%D%/ops_bsr.c \
	%D%/ops_bsr_wgmma.c \
	%D%/ops_bsr.h \
	%D%/ops_bsr_features.c \
	%D%/ops_bsr_simt.c \
	%D%/ops_product.c \
	%D%/ops_rows.c \
	%D%/ops_simple.c \
	%D%/optimizer.cu \
	%D%/params.h \
	%D%/plan.c \
	%D%/plan.h \
	%D%/product.cu \
	%D%/softmax.cu \
	%D%/times.c \
	%D%/tune.c \
	%D%/tuned.c \
	%D%/verify.c \
	%D%/views.c

# What kernels are made of, and how: what was tuned holds for it alone.
BUILT_SOURCES += %D%/code.inc
%D%/code.inc: FORCE
	@$(MKDIR_P) %D%; \
	(cd $(srcdir)/%D% && cat *.cu *.cuh kernels.c params.h; echo '$(AM_NVCCFLAGS) $(NVCCFLAGS)') | \
	  cksum | $(SED) 's/ .*/"/; s/^/#define LO_CUDA_CODE "/' >$@.tmp; \
	if cmp -s $@.tmp $@; then rm -f $@.tmp; else mv -f $@.tmp $@; fi
CLEANFILES += %D%/code.inc
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
