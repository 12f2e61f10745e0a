# C tests are check_PROGRAMS, shell tests are executable check_SCRIPTS named .t; both print TAP.
# Each adds itself with += here and brings its sources along.
TEST_EXTENSIONS = .t
LOG_DRIVER = env AM_TAP_AWK='$(AWK)' $(SHELL) $(top_srcdir)/build-aux/tap-driver.sh
T_LOG_DRIVER = $(LOG_DRIVER)
LDADD = liblayerops.la
TESTS = $(check_PROGRAMS) $(check_SCRIPTS)

# What a test may ask of the build. It runs in the build folder. Several tests at once want more threads
# than there are cores: one that spins while it waits would take them from the others.
test_environment = top_srcdir='$(abs_top_srcdir)' top_builddir='$(abs_top_builddir)' \
	CC='$(CC)' CPPFLAGS='$(CPPFLAGS)' LDFLAGS='$(LDFLAGS)' MAKE='$(MAKE)' \
	PKG_CONFIG='$(PKG_CONFIG)' sanitizers='$(enable_sanitizers)' \
	bindir='$(bindir)' libdir='$(libdir)' includedir='$(includedir)' OMP_WAIT_POLICY=passive
AM_TESTS_ENVIRONMENT = export $(test_environment);

# Every operation on every device against the reference, in several programs that run in parallel.
check_PROGRAMS += %D%/ops_gemm %D%/ops_linear %D%/ops_backward %D%/ops_rows %D%/ops_move %D%/ops_update \
	%D%/ops_bsr
ops_sources = %D%/ops.c %D%/devices.h %D%/tap.h
ops_ldadd = %D%/conformance/libconformance.la $(LDADD) -lm
%C%_ops_gemm_SOURCES = $(ops_sources)
%C%_ops_gemm_CPPFLAGS = $(AM_CPPFLAGS) -DOPS='"gemm"'
%C%_ops_gemm_LDADD = $(ops_ldadd)
%C%_ops_linear_SOURCES = $(ops_sources)
%C%_ops_linear_CPPFLAGS = $(AM_CPPFLAGS) -DOPS='"linear_forward"'
%C%_ops_linear_LDADD = $(ops_ldadd)
%C%_ops_backward_SOURCES = $(ops_sources)
%C%_ops_backward_CPPFLAGS = $(AM_CPPFLAGS) -DOPS='"linear_backward"'
%C%_ops_backward_LDADD = $(ops_ldadd)
%C%_ops_rows_SOURCES = $(ops_sources)
%C%_ops_rows_CPPFLAGS = $(AM_CPPFLAGS) -DOPS='"activation,softmax,cross_entropy,mse"'
%C%_ops_rows_LDADD = $(ops_ldadd)
%C%_ops_move_SOURCES = $(ops_sources)
%C%_ops_move_CPPFLAGS = $(AM_CPPFLAGS) -DOPS='"fill,copy,transpose,gather"'
%C%_ops_move_LDADD = $(ops_ldadd)
%C%_ops_update_SOURCES = $(ops_sources)
%C%_ops_update_CPPFLAGS = $(AM_CPPFLAGS) -DOPS='"sgd,adam"'
%C%_ops_update_LDADD = $(ops_ldadd)
%C%_ops_bsr_SOURCES = $(ops_sources)
%C%_ops_bsr_CPPFLAGS = $(AM_CPPFLAGS) -DOPS='"bsr"'
%C%_ops_bsr_LDADD = $(ops_ldadd)

# Inputs that broke other libraries.
check_PROGRAMS += %D%/field_process %D%/field_values
%C%_field_process_SOURCES = %D%/field_process.c %D%/devices.h %D%/field.h %D%/tap.h
%C%_field_process_CFLAGS = $(AM_CFLAGS) $(OPENMP_CFLAGS)
%C%_field_process_LDADD = $(LDADD) -lm
%C%_field_values_SOURCES = %D%/field_values.c %D%/devices.h %D%/field.h %D%/tap.h
%C%_field_values_LDADD = $(LDADD) -lm

# Packed weights as objects: shared, outliving contexts, in a network.
check_PROGRAMS += %D%/weights
%C%_weights_SOURCES = %D%/weights.c %D%/devices.h %D%/tap.h
%C%_weights_CFLAGS = $(AM_CFLAGS) -pthread
%C%_weights_LDADD = $(LDADD) -lm

# Block-sparse weights.
check_PROGRAMS += %D%/bsr %D%/bsr_batch %D%/bsr_fuzz %D%/bsr_masks %D%/bsr_whole %D%/errors_bsr
%C%_bsr_SOURCES = %D%/bsr.c %D%/devices.h %D%/is.h %D%/tap.h
%C%_bsr_LDADD = $(LDADD) -lm
%C%_bsr_batch_SOURCES = %D%/bsr_batch.c %D%/devices.h %D%/is.h %D%/tap.h
%C%_bsr_fuzz_SOURCES = %D%/bsr_fuzz.c %D%/tap.h
%C%_bsr_fuzz_LDADD = $(inside)
%C%_bsr_masks_SOURCES = %D%/bsr_masks.c %D%/devices.h %D%/is.h %D%/tap.h
%C%_bsr_masks_LDADD = $(LDADD) -lm
%C%_bsr_whole_SOURCES = %D%/bsr_whole.c %D%/devices.h %D%/is.h %D%/tap.h
%C%_errors_bsr_SOURCES = %D%/errors_bsr.c %D%/errors.h %D%/is.h %D%/tap.h
%C%_errors_bsr_LDADD = $(LDADD) -lm

# Calls that come again.
check_PROGRAMS += %D%/again
%C%_again_SOURCES = %D%/again.c %D%/devices.h %D%/tap.h

# Record, replay, and warming.
check_PROGRAMS += %D%/graphs
%C%_graphs_SOURCES = %D%/graphs.c %D%/devices.h %D%/is.h %D%/tap.h

# The rest of the interface, and what bad input gets.
check_PROGRAMS += %D%/api %D%/errors %D%/errors_context
%C%_api_SOURCES = %D%/api.c %D%/devices.h %D%/is.h %D%/tap.h
%C%_errors_SOURCES = %D%/errors.c %D%/errors.h %D%/is.h %D%/tap.h
%C%_errors_LDADD = $(LDADD) -lm
%C%_errors_context_SOURCES = %D%/errors_context.c %D%/errors.h %D%/is.h %D%/tap.h
%C%_errors_context_LDADD = $(inside) -lm

# The files that the library keeps.
check_PROGRAMS += %D%/cache_file
%C%_cache_file_SOURCES = %D%/cache_file.c %D%/scratch.h %D%/tap.h
%C%_cache_file_LDADD = $(inside) $(ZLIB_LIBS)
check_PROGRAMS += %D%/tuned
%C%_tuned_SOURCES = %D%/tuned.c %D%/is.h %D%/scratch.h %D%/tap.h
%C%_tuned_LDADD = $(inside) $(ZLIB_LIBS) -lm

# The reference itself.
check_PROGRAMS += %D%/gradients %D%/reference
%C%_gradients_SOURCES = %D%/gradients.c %D%/oracle.h %D%/tap.h
%C%_gradients_LDADD = $(LDADD) -lm
%C%_reference_SOURCES = %D%/reference.c %D%/oracle.h %D%/tap.h
%C%_reference_LDADD = $(LDADD) -lm

# The data sets, and what the network rests on.
check_PROGRAMS += %D%/csv %D%/dataset %D%/fuzz %D%/random %D%/safetensors
%C%_csv_SOURCES = %D%/csv.c %D%/is.h %D%/scratch.h %D%/tap.h
%C%_csv_LDADD = tools/libdataset.la $(ZLIB_LIBS)
%C%_dataset_SOURCES = %D%/dataset.c %D%/is.h %D%/scratch.h %D%/tap.h
%C%_dataset_LDADD = $(%C%_csv_LDADD)
%C%_fuzz_SOURCES = %D%/fuzz.c %D%/scratch.h %D%/tap.h
%C%_fuzz_LDADD = $(%C%_csv_LDADD) $(inside) -lm
%C%_random_SOURCES = %D%/random.c %D%/npy.h %D%/tap.h
%C%_random_LDADD = $(inside)
%C%_safetensors_SOURCES = %D%/safetensors.c %D%/is.h %D%/scratch.h %D%/tap.h
%C%_safetensors_LDADD = $(inside) $(ZLIB_LIBS)
check_SCRIPTS += %D%/safetensors.t
EXTRA_DIST += %D%/safetensors_other.py

# What PyTorch computed, and how.
check_PROGRAMS += %D%/oracle
%C%_oracle_SOURCES = %D%/oracle.c %D%/npy.h %D%/tap.h
%C%_oracle_LDADD = $(LDADD) -lm
EXTRA_DIST += %D%/data %D%/pytorch

# The network.
check_PROGRAMS += %D%/epoch %D%/network %D%/network_errors %D%/network_sparse \
	%D%/network_sparse_errors %D%/training
%C%_epoch_SOURCES = %D%/epoch.c %D%/network.h %D%/is.h %D%/tap.h
%C%_epoch_LDADD = $(LDADD) -lm
%C%_network_SOURCES = %D%/network.c %D%/network.h %D%/devices.h %D%/is.h %D%/scratch.h %D%/tap.h
%C%_network_LDADD = $(LDADD) $(ZLIB_LIBS) -lm
%C%_network_errors_SOURCES = %D%/network_errors.c %D%/network.h %D%/is.h %D%/scratch.h %D%/tap.h
%C%_network_errors_LDADD = $(%C%_network_LDADD)
%C%_network_sparse_SOURCES = %D%/network_sparse.c %D%/network.h %D%/devices.h %D%/is.h %D%/scratch.h \
	%D%/tap.h
%C%_network_sparse_LDADD = $(%C%_network_LDADD)
%C%_network_sparse_errors_SOURCES = %D%/network_sparse_errors.c %D%/network.h %D%/is.h %D%/scratch.h \
	%D%/tap.h
%C%_network_sparse_errors_LDADD = $(inside) $(ZLIB_LIBS) -lm
%C%_training_SOURCES = %D%/training.c %D%/network.h %D%/devices.h %D%/npy.h %D%/tap.h
%C%_training_LDADD = tools/libdataset.la $(LDADD) -lm

# The command.
check_SCRIPTS += %D%/accuracy.t %D%/accuracy_sparse.t %D%/man.t %D%/prune.t %D%/tool.t %D%/tune.t

check_SCRIPTS += %D%/configure.t %D%/install.t %D%/readme.t
EXTRA_DIST += $(check_SCRIPTS) %D%/tap.sh %D%/install/CMakeLists.txt %D%/install/use.c \
	%D%/install/absent.c %D%/install/absent_devices.c

# The same tests under prove, which runs each by itself (-e '').
prove: all $(check_PROGRAMS)
	@$(AM_TESTS_ENVIRONMENT) $(PROVE) -e '' $(PROVEFLAGS) $(check_PROGRAMS) \
	  $(check_SCRIPTS:%=$(srcdir)/%)
.PHONY: prove coverage

# The CPU backend.
check_PROGRAMS += %D%/cpu %D%/cpu_cgroup %D%/cpu_grouped %D%/cpu_math %D%/cpu_team
%C%_cpu_SOURCES = %D%/cpu.c %D%/cpu_work.h %D%/tap.h
%C%_cpu_CFLAGS = $(AM_CFLAGS) $(OPENMP_CFLAGS)
%C%_cpu_LDADD = $(inside)
%C%_cpu_cgroup_SOURCES = %D%/cpu_cgroup.c %D%/scratch.h %D%/tap.h
%C%_cpu_cgroup_LDADD = $(inside)
%C%_cpu_grouped_SOURCES = %D%/cpu_grouped.c %D%/cpu_work.h %D%/tap.h
%C%_cpu_grouped_LDADD = $(inside)
%C%_cpu_math_SOURCES = %D%/cpu_math.c %D%/tap.h
%C%_cpu_math_CFLAGS = $(AM_CFLAGS) $(OPENMP_CFLAGS)
%C%_cpu_math_LDADD = $(inside)
%C%_cpu_team_SOURCES = %D%/cpu_team.c %D%/cpu_work.h %D%/tap.h
%C%_cpu_team_CFLAGS = $(AM_CFLAGS) $(OPENMP_CFLAGS)
%C%_cpu_team_LDADD = $(inside)

check_SCRIPTS += %D%/isa.t

# The OpenCL backend: what is its own, and every operation once more as on the other class of devices.
if HAVE_OPENCL
check_PROGRAMS += %D%/opencl %D%/opencl_kernels
%C%_opencl_SOURCES = %D%/opencl.c %D%/devices.h %D%/is.h %D%/scratch.h %D%/tap.h
%C%_opencl_LDADD = $(inside)
%C%_opencl_kernels_SOURCES = %D%/opencl_kernels.c %D%/devices.h %D%/tap.h
%C%_opencl_kernels_LDADD = $(inside)
check_SCRIPTS += %D%/opencl_class.t
endif
EXTRA_DIST += %D%/opencl_class.t
