# C tests are check_PROGRAMS, shell tests are executable check_SCRIPTS named .t; both print TAP.
# Each adds itself with += here and brings its sources along.
TEST_EXTENSIONS = .t
LOG_DRIVER = env AM_TAP_AWK='$(AWK)' $(SHELL) $(top_srcdir)/build-aux/tap-driver.sh
T_LOG_DRIVER = $(LOG_DRIVER)
LDADD = liblayerops.la
TESTS = $(check_PROGRAMS) $(check_SCRIPTS)

# What a test may ask of the build. It runs in the build folder.
test_environment = top_srcdir='$(abs_top_srcdir)' top_builddir='$(abs_top_builddir)' \
	CC='$(CC)' CPPFLAGS='$(CPPFLAGS)' LDFLAGS='$(LDFLAGS)' MAKE='$(MAKE)' \
	PKG_CONFIG='$(PKG_CONFIG)' sanitizers='$(enable_sanitizers)' \
	bindir='$(bindir)' libdir='$(libdir)' includedir='$(includedir)'
AM_TESTS_ENVIRONMENT = export $(test_environment);

# The data sets, and what the network rests on.
check_PROGRAMS += %D%/csv %D%/dataset %D%/fuzz %D%/random %D%/safetensors
%C%_csv_SOURCES = %D%/csv.c %D%/is.h %D%/scratch.h %D%/tap.h
%C%_csv_LDADD = tools/libdataset.la $(ZLIB_LIBS)
%C%_dataset_SOURCES = %D%/dataset.c %D%/is.h %D%/scratch.h %D%/tap.h
%C%_dataset_LDADD = $(%C%_csv_LDADD)
%C%_fuzz_SOURCES = %D%/fuzz.c %D%/scratch.h %D%/tap.h
%C%_fuzz_LDADD = $(%C%_csv_LDADD) $(inside)
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
check_PROGRAMS += %D%/network %D%/network_errors %D%/training
%C%_network_SOURCES = %D%/network.c %D%/network.h %D%/devices.h %D%/is.h %D%/scratch.h %D%/tap.h
%C%_network_LDADD = $(LDADD) $(ZLIB_LIBS) -lm
%C%_network_errors_SOURCES = %D%/network_errors.c %D%/network.h %D%/is.h %D%/scratch.h %D%/tap.h
%C%_network_errors_LDADD = $(%C%_network_LDADD)
%C%_training_SOURCES = %D%/training.c %D%/network.h %D%/devices.h %D%/npy.h %D%/tap.h
%C%_training_LDADD = tools/libdataset.la $(LDADD) -lm

# The command.
check_SCRIPTS += %D%/tool.t

check_SCRIPTS += %D%/configure.t %D%/install.t
EXTRA_DIST += $(check_SCRIPTS) %D%/tap.sh %D%/install/CMakeLists.txt %D%/install/use.c \
	%D%/install/absent.c %D%/install/absent_devices.c

# The same tests under prove, which runs each by itself (-e '').
prove: all $(check_PROGRAMS)
	@$(AM_TESTS_ENVIRONMENT) $(PROVE) -e '' $(PROVEFLAGS) $(check_PROGRAMS) \
	  $(check_SCRIPTS:%=$(srcdir)/%)
.PHONY: prove coverage
