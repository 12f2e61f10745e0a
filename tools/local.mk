# The data-set readers, for the command and for their tests.
noinst_LTLIBRARIES += %D%/libdataset.la
%C%_libdataset_la_CPPFLAGS = $(AM_CPPFLAGS) -DPKGDATADIR='"$(pkgdatadir)"' \
	-DSOURCE_DATADIR='"$(abs_top_srcdir)/data"'
%C%_libdataset_la_CFLAGS = $(AM_CFLAGS) $(ZLIB_CFLAGS)
%C%_libdataset_la_LIBADD = $(ZLIB_LIBS)
%C%_libdataset_la_SOURCES = %D%/array.c %D%/csv.c %D%/dataset.c %D%/dataset.h %D%/format.h \
	%D%/idx.c %D%/npy.c %D%/source.c %D%/source.h
