library_parts += %D%/libcommon.la
%C%_libcommon_la_CFLAGS = $(AM_CFLAGS) $(VISIBILITY_CFLAGS)
%C%_libcommon_la_SOURCES = \
	%D%/activation.c \
	%D%/again.c \
	%D%/again.h \
	%D%/alias.c \
	%D%/backend.h \
	%D%/bsr.c \
	%D%/buffer.c \
	%D%/cache_file.c \
	%D%/cache_file.h \
	%D%/call.c \
	%D%/call.h \
	%D%/context.c \
	%D%/context.h \
	%D%/device.c \
	%D%/device.h \
	%D%/door.c \
	%D%/door.h \
	%D%/error.c \
	%D%/error.h \
	%D%/event.c \
	%D%/gemm.c \
	%D%/kernel/activation.h \
	%D%/kernel/codes.h \
	%D%/linear.c \
	%D%/loss.c \
	%D%/move.c \
	%D%/names.c \
	%D%/optimizer.c \
	%D%/process.c \
	%D%/process.h \
	%D%/product.c \
	%D%/product.h \
	%D%/product_types.c \
	%D%/record.c \
	%D%/registry.c \
	%D%/softmax.c \
	%D%/stage.c \
	%D%/tolerance.h \
	%D%/tune.c \
	%D%/tuned.c \
	%D%/tuned.h \
	%D%/weights.c
