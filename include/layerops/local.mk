layeropsincludedir = $(includedir)/layerops
layeropsinclude_HEADERS = %D%/layerops.h %D%/base.h %D%/bsr.h %D%/device.h %D%/network.h %D%/ops.h \
	%D%/tune.h %D%/version.h
