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

check_SCRIPTS += %D%/configure.t %D%/install.t
EXTRA_DIST += $(check_SCRIPTS) %D%/tap.sh %D%/install/CMakeLists.txt %D%/install/use.c \
	%D%/install/absent.c %D%/install/absent_devices.c

# The same tests under prove, which runs each by itself (-e '').
prove: all $(check_PROGRAMS)
	@$(AM_TESTS_ENVIRONMENT) $(PROVE) -e '' $(PROVEFLAGS) $(check_PROGRAMS) \
	  $(check_SCRIPTS:%=$(srcdir)/%)
.PHONY: prove coverage
