# What `layerops train` falls back on where the full set is not there.
subsetdir = $(pkgdatadir)/fashion-mnist-subset
dist_subset_DATA = %D%/fashion-mnist-subset/SUBSET %D%/fashion-mnist-subset/README.md \
	%D%/fashion-mnist-subset/train-images-idx3-ubyte.gz \
	%D%/fashion-mnist-subset/train-labels-idx1-ubyte.gz \
	%D%/fashion-mnist-subset/t10k-images-idx3-ubyte.gz \
	%D%/fashion-mnist-subset/t10k-labels-idx1-ubyte.gz
EXTRA_DIST += %D%/make_subset.py
