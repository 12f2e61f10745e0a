# The data-set readers, for the command and for their tests.
noinst_LTLIBRARIES += %D%/libdataset.la
%C%_libdataset_la_CPPFLAGS = $(AM_CPPFLAGS) -DPKGDATADIR='"$(pkgdatadir)"' \
	-DSOURCE_DATADIR='"$(abs_top_srcdir)/data"'
%C%_libdataset_la_CFLAGS = $(AM_CFLAGS) $(ZLIB_CFLAGS)
%C%_libdataset_la_LIBADD = $(ZLIB_LIBS)
%C%_libdataset_la_SOURCES = %D%/array.c %D%/csv.c %D%/dataset.c %D%/dataset.h %D%/format.h \
	%D%/idx.c %D%/npy.c %D%/source.c %D%/source.h

# The command.
bin_PROGRAMS += layerops
layerops_CFLAGS = $(AM_CFLAGS) $(JANSSON_CFLAGS)
layerops_LDADD = %D%/libdataset.la t/conformance/libconformance.la $(bench_libs)
layerops_SOURCES = \
	%D%/bench.c \
	%D%/command.h \
	%D%/devices.c \
	%D%/interrupt.c \
	%D%/interrupt.h \
	%D%/log.c \
	%D%/log.h \
	%D%/main.c \
	%D%/predict.c \
	%D%/progress.c \
	%D%/progress.h \
	%D%/prune.c \
	%D%/samples.c \
	%D%/samples.h \
	%D%/selftest.c \
	%D%/tool.c \
	%D%/tool.h \
	%D%/train.c \
	%D%/train.h \
	%D%/train_loop.c \
	%D%/tune.c \
	%D%/weights.c \
	%D%/weights.h
