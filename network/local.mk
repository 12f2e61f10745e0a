library_parts += %D%/libnetwork.la
%C%_libnetwork_la_CFLAGS = $(AM_CFLAGS) $(VISIBILITY_CFLAGS) $(JANSSON_CFLAGS) $(RANDOM123_CFLAGS)
%C%_libnetwork_la_SOURCES =
