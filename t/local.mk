# C tests are check_PROGRAMS, shell tests are executable check_SCRIPTS named .t; both print TAP.
# Add them with += here; sources shared by tests go to noinst_HEADERS or into each list.
TEST_EXTENSIONS = .t
LOG_DRIVER = env AM_TAP_AWK='$(AWK)' $(SHELL) $(top_srcdir)/build-aux/tap-driver.sh
T_LOG_DRIVER = $(LOG_DRIVER)
AM_TESTS_ENVIRONMENT = $(test_environment) export top_srcdir top_builddir CC MAKE;
test_environment = top_srcdir='$(abs_top_srcdir)'; top_builddir='$(abs_top_builddir)'; \
	CC='$(CC)'; MAKE='$(MAKE)';
LDADD = liblayerops.la
TESTS = $(check_PROGRAMS) $(check_SCRIPTS)
EXTRA_DIST += $(check_SCRIPTS)

# The same tests under prove, which runs each by itself (-e '').
prove: all $(check_PROGRAMS)
	@$(AM_TESTS_ENVIRONMENT) $(PROVE) -e '' $(PROVEFLAGS) $(check_PROGRAMS) \
	  $(check_SCRIPTS:%=$(srcdir)/%)
.PHONY: prove
