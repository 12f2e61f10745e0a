#!/bin/sh
# configure's options: what is wrong or missing is said, with what to do about it.
. "$top_srcdir/t/tap.sh"

[ -f "$top_srcdir/config.status" ] &&
  skip_all 'the source folder is configured itself, so no other folder can be'

cd "$scratch" || exit 1
unset PKG_CONFIG MAKE # set for tests, they would count as answers
# configure [CACHED ANSWER=VALUE...] [-- OPTION...]: the answers of the first whole run serve the
# others, but for those given here, by which a machine can lack what this one has.
configure() {
  answers=
  while [ $# -gt 0 ] && [ "$1" != -- ]; do
    answers="$answers $1"
    shift
  done
  [ $# -eq 0 ] || shift
  env $answers sh "$top_srcdir/configure" CC="$CC" --cache-file="$scratch/cache" --without-peers "$@"
}

fails '--with-cuda=DIR without nvcc there' configure -- --with-cuda=/nonexistent
like 'names the folder and what to install' \
  'no nvcc in /nonexistent/bin; install the CUDA toolkit .*--with-cuda=DIR'
fails '--with-cuda=perhaps' configure -- --with-cuda=perhaps
like 'tells the choices' '--with-cuda=perhaps: give yes, no, auto or'
fails '--with-opencl=perhaps' configure -- --with-opencl=perhaps
like 'tells the choices' '--with-opencl=perhaps: give yes, no or auto'

check 'nothing asked for, nothing there' \
  configure ac_cv_path_NVCC=/bin/false ac_cv_header_CL_cl_h=no -- --with-cuda=auto
like 'the summary says why there is no CUDA' '^  CUDA +no: nvcc fails'
like 'and no OpenCL' '^  OpenCL +no: no CL/cl\.h'
like 'and lists the CPU kernels' '^  CPU kernels +portable'
[ -f Makefile ]
result $? 'and a Makefile is made' </dev/null

fails '--with-cuda with an nvcc that fails' configure ac_cv_path_NVCC=/bin/false -- --with-cuda
like 'names CUDAHOSTCXX' '--with-cuda: nvcc fails: .*CUDAHOSTCXX=g\+\+'
fails '--with-opencl without headers' \
  configure ac_cv_header_CL_cl_h=no -- --without-cuda --with-opencl
like 'names the packages' 'opencl-headers or ocl-icd-opencl-dev'
for need in hwloc.h:libhwloc-dev jansson.h:libjansson-dev zlib.h:zlib1g-dev \
  Random123/philox.h:librandom123-dev; do
  header=${need%:*} package=${need#*:}
  fails "without $header" configure ac_cv_path_PKG_CONFIG=/bin/false \
    "ac_cv_header_$(echo "$header" | tr ./ __)=no" -- --without-cuda
  like "names $package" "is required: install $package"
done

nvcc=$(PATH=$PATH:/usr/local/cuda/bin:/opt/cuda/bin command -v nvcc)
if [ -n "$nvcc" ]; then
  fails '--with-cuda-arch that nvcc does not know' \
    configure "ac_cv_path_NVCC=$nvcc" -- --with-cuda --with-cuda-arch=12
  like "repeats nvcc's words" 'nvcc cannot compile for "12" \(--with-cuda-arch\): .+'
else
  skip '--with-cuda-arch that nvcc does not know' 'no nvcc'
fi
done_testing
