#!/bin/sh
# layerops tune: options and errors, and the cache it keeps. What it finds: t/cuda/tune.c.
. "$top_srcdir/t/tap.sh"

layerops=$top_builddir/layerops
layers=$top_srcdir/bench/suite/layers.tsv
unset LAYEROPS_VERBOSE LAYEROPS_CACHE LAYEROPS_DEVICE LAYEROPS_CUDA_KERNEL LAYEROPS_CUDA_ARCH
XDG_CACHE_HOME=$scratch/cache
export XDG_CACHE_HOME

# ends STATUS PATTERN ARGUMENT...: so it ends, with a line on standard error that matches, and
# nothing on standard output
ends() {
  tap_want=$1 tap_pattern=$2
  shift 2
  "$layerops" tune "$@" >"$scratch/stdout" 2>"$scratch/out" </dev/null
  tap_status=$?
  [ $tap_status -eq "$tap_want" ] && [ ! -s "$scratch/stdout" ] &&
    grep -Eq -e "$tap_pattern" "$scratch/out"
  result $? "tune $*: $tap_pattern" <<END
status $tap_status, wanted $tap_want and $tap_pattern
$(cat "$scratch/stdout" "$scratch/out")
END
}

# ---- options
check 'help' "$layerops" help tune
for option in suite shape model batch backward device dtype seconds again list clear tsv json; do
  like "help tells --$option" "^  --$option"
done
what='give one of --suite FILE, --shape MxNxK, --model FILE, --list, --clear'
ends 2 "$what"
ends 2 "$what" --suite "$layers" --shape 1x2x3
ends 2 "$what" --list --clear
ends 2 "$what" --model x --suite "$layers"
for shape in 1x2 1x2x3x4 0x2x3 -1x2x3 1x2x 1,2,3 ax2x3 '1x2x3 ' 1x2x99999999999999999999; do
  ends 2 "shape is '.*', but must be three sizes" --shape "$shape"
done
ends 2 "dtype is 'f64', but must be f32, f16, bf16, int8, f8e4m3, f8e5m2 or a pair as f16:i8, each once" --shape 1x2x3 --dtype f64
ends 2 "dtype is 'tf32', but must be f32, f16, bf16, int8, f8e4m3" --shape 1x2x3 --dtype tf32
ends 2 "dtype is 'f32', but must be f32, f16, bf16, int8, f8e4m3, f8e5m2 or a pair as f16:i8, each once" --shape 1x2x3 --dtype f32 \
  --dtype bf16 --dtype int8 --dtype f32
for seconds in 0 -1 nan inf x ''; do
  ends 2 "seconds is '$seconds', but must be a positive number" --shape 1x2x3 --seconds "$seconds"
done
ends 2 "batch is '0'" --model x --batch 0
ends 2 "batch is '536870913', but must be .* from 1 to 536870912" --model x --batch 536870913
ends 2 'batch goes with --model' --shape 1x2x3 --batch 8
ends 2 'either --tsv or --json' --shape 1x2x3 --tsv --json
ends 2 "unrecognized option '--fast'" --shape 1x2x3 --fast
ends 2 "unexpected argument 'now'" --shape 1x2x3 now

# ---- devices that have nothing to tune
for device in cpu reference; do
  ends 1 "tune_begin: $device has no kernels to choose from by measuring" --shape 1x2x3 \
    --device $device
  ends 1 "tune_list: $device has no kernels" --list --device $device
  ends 1 "tune_clear: $device has no kernels" --clear --device $device
done
ends 1 'gpu7' --shape 1x2x3 --device gpu7
ends 2 'suite: .*/none: No such file' --suite "$scratch/none" --device cpu
ends 2 'block-sparse layers' --suite "$top_srcdir/bench/suite/blocksparse.tsv" --device cpu
ends 1 'none' --model "$scratch/none" --device cpu
[ ! -e "$scratch/cache" ]
result $? 'no cache is made for nothing' </dev/null

# ---- a device that has
if ! "$layerops" devices | grep -Eq '^cuda:0 +[^a ]'; then
  for name in 'tunes' 'lists' 'uses' 'refuses'; do skip "$name" 'no CUDA device'; done
  done_testing
  exit
fi
check 'tunes a shape' "$layerops" tune --shape 64x128x784 --device cuda --tsv
cut -f 1-3,7 "$scratch/out" >"$scratch/cut" && cp "$scratch/cut" "$scratch/out"
like '  in a line' '^64x128x784	nt	64	f32$'
check 'again there is nothing to do' "$layerops" tune --shape 64x128x784 --device cuda
like '  and it is told' '^0 products tuned.* 0 left, 1 tuned before$'
check 'unless asked to' "$layerops" tune --shape 64x128x784 --device cuda --again
like '  ' '^1 products tuned'
check 'backward too, in f16' "$layerops" tune --shape 64x128x784 --device cuda --backward --dtype f16
like '  three products' '^3 products tuned'
check 'as JSON' "$layerops" tune --list --device cuda --json
if python3 -c pass 2>/dev/null; then
  check '  of four products' python3 -c 'import json, sys
p = json.load(open(sys.argv[1]))["products"]
assert len(p) == 4 and all(q["us"] > 0 and q["rule_us"] > 0 and q["parts"] > 0 for q in p), p' \
    "$scratch/out"
else
  skip '  of four products' 'no python3'
fi
check 'no time: nothing is tuned' "$layerops" tune --shape 65x128x784 --device cuda --seconds 1e-9
like '  and it is told' '1 of 1 layers left: the 1e-09 seconds are over'
chmod 777 "$scratch/cache/layerops"
fails 'a cache that others may write to' "$layerops" tune --shape 66x128x784 --device cuda
like '  is not used' 'what was found is not kept: .* can be written by others'
check '  nor listed' "$layerops" tune --list --device cuda
like '  ' '^0 products'
chmod 700 "$scratch/cache/layerops"
check 'and when it is safe again' "$layerops" tune --list --device cuda
like '  ' '^4 products'
check 'clears' "$layerops" tune --clear --device cuda
check '  and lists nothing' "$layerops" tune --list --device cuda
like '  ' '^0 products'
LAYEROPS_CUDA_KERNEL=simt_64x64
export LAYEROPS_CUDA_KERNEL
ends 1 'LAYEROPS_CUDA_KERNEL is "simt_64x64"' --shape 1x2x3 --device cuda

done_testing
