# One small library for each instruction set: the files of isa/ are compiled for each, with its flags and
# its name in LO_ISA, and run only where the processor has it. So they must not define anything that other
# files may call. -ffp-contract=off: see isa/part.h; the other two flags let loops with comparisons, square
# roots and rounding become vectors, and change no result.
cpu_cflags = $(AM_CFLAGS) $(VISIBILITY_CFLAGS) $(OPENMP_CFLAGS) $(HWLOC_CFLAGS)
isa_cflags = $(AM_CFLAGS) $(VISIBILITY_CFLAGS) -ffp-contract=off -fno-math-errno -fno-trapping-math
isa_sources = \
	%D%/isa/activation.c \
	%D%/isa/convert.c \
	%D%/isa/element.h \
	%D%/isa/grouped.h \
	%D%/isa/grouped_integers.h \
	%D%/isa/grouped_kernel.h \
	%D%/isa/grouped_out_avx512.h \
	%D%/isa/grouped_dots_avx512.h \
	%D%/isa/grouped_scale_avx512.h \
	%D%/isa/grouped_short.h \
	%D%/isa/grouped_words.c \
	%D%/isa/finish.c \
	%D%/isa/integers.c \
	%D%/isa/isa.h \
	%D%/isa/mathematics.h \
	%D%/isa/microkernel.h \
	%D%/isa/optimizer.c \
	%D%/isa/part.h \
	%D%/isa/rows.c \
	%D%/isa/softmax_loss.c \
	%D%/isa/table.c \
	%D%/isa/transpose.c \
	%D%/isa/vector.h

library_parts += %D%/libcpu.la
%C%_libcpu_la_CFLAGS = $(cpu_cflags)
%C%_libcpu_la_SOURCES = \
	%D%/amx.c \
	%D%/bsr.c \
	%D%/bsr.h \
	%D%/bsr_dots.c \
	%D%/bsr_features.c \
	%D%/bsr_gradient.c \
	%D%/bsr_grouped.c \
	%D%/bsr_samples.c \
	%D%/cgroup.c \
	%D%/column_sum.c \
	%D%/cpu.c \
	%D%/cpu.h \
	%D%/cut.h \
	%D%/grouped_pack.c \
	%D%/grouped_plan.c \
	%D%/grouped_product.c \
	%D%/grouped_product.h \
	%D%/elementwise.c \
	%D%/grid.c \
	%D%/grid.h \
	%D%/host.c \
	%D%/host.h \
	%D%/isa.c \
	%D%/linear.c \
	%D%/loss.c \
	%D%/modes.h \
	%D%/move.c \
	%D%/optimizer.c \
	%D%/pack.c \
	%D%/parallel.c \
	%D%/parallel.h \
	%D%/plan.c \
	%D%/product.c \
	%D%/product.h \
	%D%/reference.c \
	%D%/reference.h \
	%D%/reference_activation.c \
	%D%/reference_bsr.c \
	%D%/reference_move.c \
	%D%/reference_mse.c \
	%D%/reference_optimizer.c \
	%D%/reference_product.c \
	%D%/reference_rows.c \
	%D%/reference_value.c \
	%D%/rows.c \
	%D%/rows.h \
	%D%/span.h \
	%D%/team.c \
	%D%/team.h \
	%D%/topology.c \
	%D%/topology.h \
	%D%/train.c \
	%D%/train.h \
	%D%/train_pass.c \
	%D%/train_weights.c \
	%D%/transpose.c \
	%D%/wait.c \
	%D%/wait.h \
	%D%/weights.c

library_parts += %D%/libcpu_portable.la
%C%_libcpu_portable_la_CFLAGS = $(isa_cflags) -DLO_ISA=portable
%C%_libcpu_portable_la_SOURCES = $(isa_sources) %D%/isa/grouped_integers_portable.c \
	%D%/isa/microkernel_portable.c

if CPU_AVX2
library_parts += %D%/libcpu_avx2.la
%C%_libcpu_avx2_la_CFLAGS = $(isa_cflags) $(AVX2_CFLAGS) -DLO_ISA=avx2
%C%_libcpu_avx2_la_SOURCES = $(isa_sources) %D%/isa/grouped_integers_avx2.c \
	%D%/isa/microkernel_avx2.c
endif

if CPU_AVX512
library_parts += %D%/libcpu_avx512.la
%C%_libcpu_avx512_la_CFLAGS = $(isa_cflags) $(AVX512_CFLAGS) -DLO_ISA=avx512
%C%_libcpu_avx512_la_SOURCES = $(isa_sources) %D%/isa/grouped_integers_avx512.c \
	%D%/isa/microkernel_avx512.c
endif

if CPU_NEON
library_parts += %D%/libcpu_neon.la
%C%_libcpu_neon_la_CFLAGS = $(isa_cflags) $(NEON_CFLAGS) -DLO_ISA=neon
%C%_libcpu_neon_la_SOURCES = $(isa_sources) %D%/isa/grouped_integers_neon.c \
	%D%/isa/microkernel_neon.c
endif

# Main loops of 16 and 8 bits for instructions beyond those of avx512.
if CPU_AVX512_BF16
library_parts += %D%/libcpu_avx512_bf16.la
%C%_libcpu_avx512_bf16_la_CFLAGS = $(isa_cflags) $(AVX512_BF16_CFLAGS)
%C%_libcpu_avx512_bf16_la_SOURCES = %D%/isa/grouped_avx512_bf16.c
endif

if CPU_AVX512_VNNI
library_parts += %D%/libcpu_avx512_vnni.la
%C%_libcpu_avx512_vnni_la_CFLAGS = $(isa_cflags) $(AVX512_VNNI_CFLAGS)
%C%_libcpu_avx512_vnni_la_SOURCES = %D%/isa/grouped_avx512_vnni.c
endif

if CPU_AMX
library_parts += %D%/libcpu_amx.la
%C%_libcpu_amx_la_CFLAGS = $(isa_cflags) $(AMX_CFLAGS)
%C%_libcpu_amx_la_SOURCES = %D%/isa/grouped_amx.h %D%/isa/grouped_amx_bf16.c %D%/isa/grouped_amx_int8.c
endif
