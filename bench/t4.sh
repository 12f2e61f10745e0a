#!/bin/sh
# Measures a GPU: the run files that doc/performance.md lacks for a T4. See --help.
set -u
root=$(cd "$(dirname "$0")/.." && pwd) || exit 1
index=0 build=$root/build-t4 output=. dtypes='f32 f16 bf16 int8' peers=--peers
test=yes

usage() {
  cat <<END
Usage: bench/t4.sh [OPTION]...
Builds layerops for this machine's NVIDIA GPU, checks it against the reference, and measures the
layers of the suites: one run file (JSON) for each suite and data type, named by device and date.
Meant for a Tesla T4, which nobody has measured yet; any other GPU will do and is named as what it is.

  --gpu N          the GPU's number, as nvidia-smi counts (default 0)
  --build DIR      where to build (default $build);
                   a build that is there is brought up to date
  --output DIR     where the run files go (default the current directory)
  --dtypes LIST    of f32,f16,bf16,int8 (default all)
  --no-peers       without cuBLASLt beside the library
  --no-selftest    measures without checking first
  --help           this text

Needs a compiler, make, autoconf, automake, libtool and nvcc where nothing is built yet. Takes about
a quarter of an hour beyond the build. Exit status: 0 done; 1 the build, the check or a measurement
failed; 2 the command line is wrong; 3 there is no NVIDIA GPU.
END
}
fail() { # STATUS MESSAGE
  echo "t4.sh: $2" >&2
  exit "$1"
}

while [ $# -gt 0 ]; do
  case $1 in
  --help) usage && exit 0 ;;
  --no-peers) peers= ;;
  --no-selftest) test=no ;;
  --gpu | --build | --output | --dtypes)
    [ $# -ge 2 ] || fail 2 "$1 needs a value"
    case $1 in
    --gpu) index=$2 ;;
    --build) build=$2 ;;
    --output) output=$2 ;;
    --dtypes) dtypes=$(echo "$2" | tr ',' ' ') ;;
    esac
    shift
    ;;
  *) fail 2 "unknown argument '$1': see --help" ;;
  esac
  shift
done
case $index in '' | *[!0-9]*) fail 2 "--gpu wants a number, not '$index'" ;; esac
for dtype in $dtypes; do
  case $dtype in f32 | f16 | bf16 | int8) ;; *) fail 2 "no data type '$dtype'" ;; esac
done

query() { # FIELD
  nvidia-smi --id="$index" --query-gpu="$1" --format=csv,noheader,nounits 2>/dev/null
}
command -v nvidia-smi >/dev/null || fail 3 "no nvidia-smi: is NVIDIA's driver installed?"
name=$(query name)
[ -n "$name" ] || fail 3 "nvidia-smi knows no GPU $index"
capability=$(query compute_cap | tr -d .)
case $name in
*T4) echo "GPU $index is a $name" ;;
*) echo "GPU $index is a $name, not a T4: the run files say so" ;;
esac
case $capability in '' | *[!0-9]*) fail 3 "nvidia-smi does not tell the GPU's compute capability" ;; esac
[ "$capability" -ge 75 ] || fail 3 "$name is older than Turing: layerops has no kernels for it"
case $capability in 9?) arch=${capability}a ;; *) arch=$capability ;; esac
export CUDA_DEVICE_ORDER=PCI_BUS_ID # the numbers of nvidia-smi

echo "building in $build"
mkdir -p "$build" "$output" || fail 1 "cannot make $build and $output"
log=$build/t4-build.log
{
  { [ -x "$root/configure" ] || (cd "$root" && ./bootstrap); } &&
    cd "$build" &&
    { [ -f Makefile ] || "$root/configure" --with-cuda --with-cuda-arch="$arch"; } &&
    make -j"$(nproc 2>/dev/null || echo 1)"
} >"$log" 2>&1 || fail 1 "the build failed: $log"
tool=$build/layerops
device=cuda:$index
stem=$(echo "$name" | tr -c '[:alnum:]\n' '-' | tr '[:upper:]' '[:lower:]')-$(date -u +%Y-%m-%d)
stem=$(cd "$output" && pwd)/$stem

if [ $test = yes ]; then
  echo "checking: $stem-selftest.tap"
  "$tool" selftest --device "$device" >"$stem-selftest.tap" 2>&1 ||
    fail 1 "the check failed: $(grep -c '^not ok' "$stem-selftest.tap") lines of $stem-selftest.tap"
fi

# What the clocks did meanwhile: a T4 slows down when it is warm.
nvidia-smi --id="$index" --loop-ms=1000 --format=csv \
  --query-gpu=timestamp,clocks.sm,clocks.mem,temperature.gpu,power.draw,clocks_throttle_reasons.active \
  >"$stem-clocks.csv" 2>/dev/null &
watcher=$!
trap 'kill $watcher 2>/dev/null' EXIT
trap 'exit 1' HUP INT TERM

failed=0
measure() { # SUITE DTYPE
  file=$stem-$1-$2.json
  if "$tool" bench --suite "$root/bench/suite/$1.tsv" --device "$device" --dtype "$2" \
    ${peers:+"$peers"} --json >"$file.part" 2>"$file.log"; then
    mv "$file.part" "$file" && echo "measured: $file"
    [ -s "$file.log" ] || rm -f "$file.log"
  else
    echo "t4.sh: $1 in $2 was not measured: $(tail -n 1 "$file.log")" >&2
    rm -f "$file.part"
    failed=1
  fi
}
for dtype in $dtypes; do
  measure layers "$dtype"
  [ "$dtype" = int8 ] || measure blocksparse "$dtype" # there are no 8-bit blocks
done
echo "clocks: $stem-clocks.csv"
exit $failed
