# What `layerops bench` and its test stand on. Not in the library.
noinst_LTLIBRARIES += %D%/libbench.la
bench_defines = -DBENCH_PEERS_DIR='"$(pkglibdir)/peers"' \
	-DBENCH_DEVICES_DIR='"$(pkgdatadir)/devices"' -DBENCH_SOURCE_DIR='"$(abs_top_srcdir)"'
%C%_libbench_la_CPPFLAGS = $(AM_CPPFLAGS) $(bench_defines)
%C%_libbench_la_CFLAGS = $(AM_CFLAGS) $(OPENMP_CFLAGS) $(HWLOC_CFLAGS) $(JANSSON_CFLAGS)
%C%_libbench_la_SOURCES = \
	%D%/blas.h \
	%D%/bound.c \
	%D%/bound.h \
	%D%/call.c \
	%D%/call.h \
	%D%/clock.c \
	%D%/clock.h \
	%D%/ceilings_kernels.c \
	%D%/ceilings_kernels.h \
	%D%/folders.c \
	%D%/folders.h \
	%D%/gate.h \
	%D%/host.c \
	%D%/host.h \
	%D%/network_run.c \
	%D%/network_run.h \
	%D%/operands.c \
	%D%/ops.c \
	%D%/ops.h \
	%D%/operands.h \
	%D%/pattern.c \
	%D%/pattern.h \
	%D%/peaks.c \
	%D%/peaks.h \
	%D%/peaks_cuda.h \
	%D%/peer.h \
	%D%/peers.c \
	%D%/peers.h \
	%D%/race.c \
	%D%/race.h \
	%D%/replay.c \
	%D%/replay.h \
	%D%/report.c \
	%D%/report.h \
	%D%/session.c \
	%D%/session.h \
	%D%/steps.c \
	%D%/steps.h \
	%D%/suite.c \
	%D%/suite.h \
	%D%/timing.c \
	%D%/timing.h \
	%D%/training.c \
	%D%/training.h \
	%D%/vary.c \
	%D%/verdict.c \
	%D%/vary.h
if HAVE_CUDA
%C%_libbench_la_SOURCES += %D%/gate.cu %D%/peaks_cuda.cu
-include %D%/gate.d %D%/peaks_cuda.d %D%/peers/cublaslt_activation.d
CLEANFILES += %D%/*.d %D%/peers/*.d
endif
EXTRA_DIST += %D%/gate.cu %D%/peaks_cuda.cu
%C%_libbench_la_LIBADD = %D%/peers/libepilogue.la %D%/libtraining_loops.la
bench_libs = %D%/libbench.la liblayerops.la $(HWLOC_LIBS) $(JANSSON_LIBS) $(CUDA_LIBS)

# The commit and the flags that a run file names: written anew where they changed.
$(%C%_libbench_la_OBJECTS): %D%/commit.inc
%D%/commit.inc: FORCE
	@$(MKDIR_P) %D%; commit=unknown; \
	if test -e $(srcdir)/.git; then \
	  commit=`git -C $(srcdir) describe --always --dirty --abbrev=12 2>/dev/null || echo unknown`; \
	fi; \
	{ echo "#define BENCH_COMMIT \"$$commit\""; \
	  echo '$(CC) $(CFLAGS)' | $(SED) -e 's/["\\]/\\&/g' -e 's/.*/#define BENCH_BUILD "&"/'; \
	} >$@.tmp; \
	if cmp -s $@.tmp $@; then rm -f $@.tmp; else mv -f $@.tmp $@; fi
.PHONY: FORCE
CLEANFILES += %D%/commit.inc

# Measures a CPU for a file in data/devices.
noinst_PROGRAMS += %D%/ceilings
%C%_ceilings_CFLAGS = $(AM_CFLAGS) $(JANSSON_CFLAGS)
%C%_ceilings_SOURCES = %D%/ceilings.c
%C%_ceilings_LDADD = $(bench_libs)

# Measures what the library adds to a launch on the host.
if HAVE_CUDA
noinst_LTLIBRARIES += %D%/libhost_cost.la
%C%_libhost_cost_la_SOURCES = %D%/host_cost.h %D%/host_cost_empty.cu
-include %D%/host_cost_empty.d
noinst_PROGRAMS += %D%/host_cost
%C%_host_cost_SOURCES = %D%/host_cost.c
%C%_host_cost_LDADD = %D%/libhost_cost.la $(bench_libs) $(CUDA_LIBS)

# Measures single kernels for products, to which bench/fit_cost.py fits the choice among them.
noinst_PROGRAMS += %D%/kernel_times
%C%_kernel_times_CFLAGS = $(AM_CFLAGS) $(CUDA_CPPFLAGS)
%C%_kernel_times_SOURCES = %D%/kernel_times.c
%C%_kernel_times_LDADD = %D%/libbench.la $(inside) $(HWLOC_LIBS) $(JANSSON_LIBS) $(CUDA_LIBS)
endif
EXTRA_DIST += %D%/host_cost.c %D%/host_cost.h %D%/host_cost_empty.cu %D%/kernel_times.c %D%/fit_cost.py

devicesdir = $(pkgdatadir)/devices
dist_devices_DATA = data/devices/README.md data/devices/h200.json data/devices/t4.json \
	data/devices/xeon-avx512-amx.json
suitedir = $(pkgdatadir)/suite
dist_suite_DATA = %D%/suite/blocksparse.tsv %D%/suite/layers.tsv %D%/suite/patterns.md

EXTRA_DIST += %D%/frameworks.py %D%/frameworks_bsr.py %D%/peers/README.md %D%/t4.sh %D%/t4_model.py

# The peers: a module each, which alone links its library. The tool loads what it finds.
peersdir = $(pkglibdir)/peers
peers_LTLIBRARIES =
peer_cflags = $(AM_CFLAGS) $(VISIBILITY_CFLAGS) $(OPENMP_CFLAGS)
peer_ldflags = $(AM_LDFLAGS) $(OPENMP_CFLAGS) -module -shared -avoid-version -no-undefined \
	-export-symbols-regex '^layerops_bench_peer$$'

# -ffast-math for these files alone: see there.
noinst_LTLIBRARIES += %D%/libtraining_loops.la
%C%_libtraining_loops_la_CFLAGS = $(peer_cflags) -O3 -ffast-math
%C%_libtraining_loops_la_SOURCES = %D%/training_loops.c %D%/training.h
noinst_LTLIBRARIES += %D%/peers/libblas.la %D%/peers/libdense.la %D%/peers/libepilogue.la \
	%D%/peers/libpick.la
%C%_peers_libdense_la_CFLAGS = $(peer_cflags)
%C%_peers_libdense_la_SOURCES = %D%/peers/dense.c %D%/peers/dense.h
%C%_peers_libepilogue_la_CFLAGS = $(peer_cflags) -O3 -ffast-math
%C%_peers_libepilogue_la_SOURCES = %D%/peers/epilogue.c %D%/peers/common.h
%C%_peers_libblas_la_CFLAGS = $(peer_cflags)
%C%_peers_libblas_la_SOURCES = %D%/peers/blas.c %D%/peers/blas.h %D%/blas.h
%C%_peers_libpick_la_CFLAGS = $(peer_cflags)
%C%_peers_libpick_la_SOURCES = %D%/peers/pick.c %D%/timing.c
peer_parts = %D%/peers/libdense.la %D%/peers/libepilogue.la %D%/peers/libpick.la
blas_parts = %D%/peers/libblas.la $(peer_parts)

if HAVE_PEER_OPENBLAS
peers_LTLIBRARIES += %D%/peers/openblas.la
endif
if HAVE_PEER_BLIS
peers_LTLIBRARIES += %D%/peers/blis.la
endif
if HAVE_PEER_MKL
peers_LTLIBRARIES += %D%/peers/mkl.la
endif
if HAVE_PEER_ONEDNN2
peers_LTLIBRARIES += %D%/peers/onednn2.la
endif
if HAVE_PEER_ONEDNN3
peers_LTLIBRARIES += %D%/peers/onednn3.la
endif
if HAVE_PEER_LIBXSMM
peers_LTLIBRARIES += %D%/peers/libxsmm.la
endif
if HAVE_PEER_CLBLAST
peers_LTLIBRARIES += %D%/peers/clblast.la
endif
if HAVE_PEER_CUBLASLT
if HAVE_CUDA
peers_LTLIBRARIES += %D%/peers/cublaslt.la
endif
endif
if HAVE_PEER_CUSPARSE
if HAVE_CUDA
peers_LTLIBRARIES += %D%/peers/cusparse.la
endif
endif

%C%_peers_openblas_la_SOURCES = %D%/peers/openblas.c
%C%_peers_openblas_la_CFLAGS = $(peer_cflags) $(OPENBLAS_CFLAGS)
%C%_peers_openblas_la_LDFLAGS = $(peer_ldflags)
%C%_peers_openblas_la_LIBADD = $(blas_parts) $(OPENBLAS_LIBS)

%C%_peers_blis_la_SOURCES = %D%/peers/blis.c %D%/peers/blis_quiet.h
%C%_peers_blis_la_CFLAGS = $(peer_cflags) $(BLIS_CFLAGS)
%C%_peers_blis_la_LDFLAGS = $(peer_ldflags)
%C%_peers_blis_la_LIBADD = $(blas_parts) $(BLIS_LIBS)

%C%_peers_mkl_la_SOURCES = %D%/peers/mkl.c
%C%_peers_mkl_la_CFLAGS = $(peer_cflags) $(MKL_CFLAGS)
%C%_peers_mkl_la_LDFLAGS = $(peer_ldflags)
%C%_peers_mkl_la_LIBADD = $(blas_parts) $(MKL_LIBS)

onednn_sources = %D%/peers/onednn.c %D%/peers/onednn_version.h
%C%_peers_onednn2_la_SOURCES = $(onednn_sources)
%C%_peers_onednn2_la_CFLAGS = $(peer_cflags) $(ONEDNN2_CFLAGS)
%C%_peers_onednn2_la_LDFLAGS = $(peer_ldflags)
%C%_peers_onednn2_la_LIBADD = $(peer_parts) $(ONEDNN2_LIBS)

%C%_peers_onednn3_la_SOURCES = $(onednn_sources)
%C%_peers_onednn3_la_CFLAGS = $(peer_cflags) $(ONEDNN3_CFLAGS)
%C%_peers_onednn3_la_LDFLAGS = $(peer_ldflags)
%C%_peers_onednn3_la_LIBADD = $(peer_parts) $(ONEDNN3_LIBS)

%C%_peers_libxsmm_la_SOURCES = %D%/peers/libxsmm.c %D%/peers/libxsmm_sparse.c \
	%D%/peers/libxsmm_sparse.h
%C%_peers_libxsmm_la_CFLAGS = $(peer_cflags) $(LIBXSMM_CFLAGS)
%C%_peers_libxsmm_la_LDFLAGS = $(peer_ldflags)
%C%_peers_libxsmm_la_LIBADD = $(peer_parts) $(LIBXSMM_LIBS)

%C%_peers_clblast_la_SOURCES = %D%/peers/clblast.c
%C%_peers_clblast_la_CFLAGS = $(peer_cflags) $(CLBLAST_CFLAGS)
%C%_peers_clblast_la_LDFLAGS = $(peer_ldflags)
%C%_peers_clblast_la_LIBADD = $(peer_parts) $(CLBLAST_LIBS) -lOpenCL

%C%_peers_cublaslt_la_SOURCES = %D%/peers/cublaslt.c %D%/peers/cublaslt_activation.cu \
	%D%/peers/cublaslt_activation.h %D%/peers/copies.c %D%/peers/copies.h
%C%_peers_cublaslt_la_CFLAGS = $(peer_cflags) $(CUBLASLT_CFLAGS)
%C%_peers_cublaslt_la_LDFLAGS = $(peer_ldflags)
%C%_peers_cublaslt_la_LIBADD = $(peer_parts) $(CUBLASLT_LIBS) $(CUDA_LIBS)

%C%_peers_cusparse_la_SOURCES = %D%/peers/cusparse.c %D%/peers/copies.c %D%/peers/copies.h
%C%_peers_cusparse_la_CFLAGS = $(peer_cflags) $(CUSPARSE_CFLAGS)
%C%_peers_cusparse_la_LDFLAGS = $(peer_ldflags)
%C%_peers_cusparse_la_LIBADD = $(peer_parts) $(CUSPARSE_LIBS) $(CUDA_LIBS)

bench_tests_cflags = $(AM_CFLAGS) $(JANSSON_CFLAGS) $(ZLIB_CFLAGS)
bench_tests_ldadd = $(bench_libs) $(ZLIB_LIBS)
check_PROGRAMS += t/bench t/bench_replay t/bench_steps t/bench_suite
t_bench_CFLAGS = $(bench_tests_cflags)
t_bench_SOURCES = t/bench.c %D%/peers/pick.c t/scratch.h t/tap.h
t_bench_LDADD = $(bench_tests_ldadd)
t_bench_replay_CFLAGS = $(bench_tests_cflags)
t_bench_replay_SOURCES = t/bench_replay.c t/tap.h
t_bench_replay_LDADD = $(bench_tests_ldadd)
t_bench_steps_CFLAGS = $(bench_tests_cflags)
t_bench_steps_SOURCES = t/bench_steps.c t/tap.h
t_bench_steps_LDADD = $(bench_tests_ldadd)
t_bench_suite_CFLAGS = $(bench_tests_cflags)
t_bench_suite_SOURCES = t/bench_suite.c t/scratch.h t/tap.h
t_bench_suite_LDADD = $(bench_tests_ldadd)
check_SCRIPTS += t/bench_cli.t
