library_parts += %D%/libnetwork.la
%C%_libnetwork_la_CFLAGS = $(AM_CFLAGS) $(VISIBILITY_CFLAGS) $(JANSSON_CFLAGS)
%C%_libnetwork_la_SOURCES = \
	%D%/evaluate.c \
	%D%/forward.c \
	%D%/initialise.c \
	%D%/initialise.h \
	%D%/network.c \
	%D%/network.h \
	%D%/permutation.c \
	%D%/permutation.h \
	%D%/prune.c \
	%D%/replace_file.c \
	%D%/replace_file.h \
	%D%/result.c \
	%D%/safetensors.c \
	%D%/safetensors.h \
	%D%/safetensors_read.c \
	%D%/safetensors_write.c \
	%D%/samples.c \
	%D%/store.c \
	%D%/store.h \
	%D%/store_sparse.c \
	%D%/train.c
