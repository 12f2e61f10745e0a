library_parts += %D%/libcommon.la
%C%_libcommon_la_CFLAGS = $(AM_CFLAGS) $(VISIBILITY_CFLAGS) $(OPENMP_CFLAGS) \
	$(HWLOC_CFLAGS) $(JANSSON_CFLAGS)
%C%_libcommon_la_SOURCES =
