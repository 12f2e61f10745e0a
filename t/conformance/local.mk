# The conformance suite: a convenience library that the tests and `layerops selftest` link.
noinst_LTLIBRARIES += %D%/libconformance.la
%C%_libconformance_la_CFLAGS = $(AM_CFLAGS)
%C%_libconformance_la_SOURCES = \
	%D%/activation.c \
	%D%/backward.c \
	%D%/bsr.c \
	%D%/bsr_backward.c \
	%D%/compare.c \
	%D%/conformance.h \
	%D%/data.c \
	%D%/gemm.c \
	%D%/linear.c \
	%D%/loss.c \
	%D%/move.c \
	%D%/optimizer.c \
	%D%/packed.c \
	%D%/rows.c \
	%D%/rows.h \
	%D%/scales.c \
	%D%/session.c \
	%D%/session.h \
	%D%/softmax.c \
	%D%/sparse.c \
	%D%/sparse.h \
	%D%/tolerance.c
