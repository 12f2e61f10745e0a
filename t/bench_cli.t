#!/bin/sh
# The command `layerops bench`, from its options to its output.
: "${top_srcdir:=.}" "${top_builddir:=.}" "${CC:=cc}"
. "$top_srcdir/t/tap.sh"

tool=$top_builddir/layerops
layers=$top_srcdir/bench/suite/layers.tsv
blocks=$top_srcdir/bench/suite/blocksparse.tsv
quick='--rounds 1 --seconds 0.001'
tab=$(printf '\t')
unset LAYEROPS_VERBOSE LAYEROPS_PEERS LAYEROPS_DEVICE_FILES

# misused NAME PATTERN ARGUMENT...: status 2, and one line that matches
misused() {
  tap_name=$1 tap_pattern=$2
  shift 2
  "$tool" bench "$@" >"$scratch/out" 2>&1 </dev/null
  tap_status=$?
  [ $tap_status -eq 2 ] && grep -Eq -e "$tap_pattern" "$scratch/out"
  result $? "$tap_name" <<END
status $tap_status, wanted 2 and $tap_pattern: bench $*
$(cat "$scratch/out")
END
}

# table NAME: splits the last output into rows.tsv, and checks that each row has the header's columns
# and numbers where numbers stand
table() {
  grep "$tab" "$scratch/out" >"$scratch/rows.tsv"
  awk -F '\t' 'NR == 1 { n = NF; next }
    NF != n || $6 !~ /^[0-9.e+-]+$/ || $7 !~ /^[0-9.e+-]+$/ || $8 !~ /^([0-9.e+-]+|nan)$/ || $6 <= 0 {
      print "line " NR ": " $0; bad = 1 }
    END { exit bad || NR < 2 }' "$scratch/rows.tsv" >"$scratch/why" 2>&1
  result $? "$1" <"$scratch/why"
}

# column N PATTERN NAME: each row of rows.tsv has there what matches
column() {
  cut -f "$1" "$scratch/rows.tsv" | sed 1d | grep -Evx -e "$2" >"$scratch/why"
  [ $? -eq 1 ]
  result $? "$3" <"$scratch/why"
}

# exact LIMIT: no row's error is larger
exact() {
  awk -F '\t' -v limit="$1" 'NR > 1 && !($8 + 0 <= limit && $8 != "nan") { print; bad = 1 }
    END { exit bad }' "$scratch/rows.tsv" >"$scratch/why"
  result $? "$2" <"$scratch/why"
}

# ---- options
check 'help' "$tool" bench --help
for option in suite device tier rows dtype threads weights residency way product peers replay ops train latency tsv json bound rounds seconds seed vary density pattern; do
  like "help tells --$option" "^  --$option"
done
misused 'no suite' 'one of --suite FILE, --replay LINE, --ops LIST, --train N, --latency N'
misused 'suite and replay' 'one of --suite' --suite "$layers" --replay x
misused 'tsv and json' 'either --tsv or --json' --suite "$layers" --tsv --json
misused 'a batch larger than the samples' "train is '60001', but must be a batch" --train 60001
misused 'weights' "weights is 'squeezed', but must be plain, packed or both" --suite "$layers" \
  --weights squeezed
misused 'residency' "residency is 'hot', but must be warm, cold or both" --suite "$layers" --residency hot
misused 'way' "way is 'ring', but must be graph, chain or alone" --suite "$layers" --way ring
misused 'product' "product is 'backward', but must be forward, dgrad, wgrad or all" --suite "$blocks" \
  --product backward
misused 'density' "density is '1.5', but must be a number from 0 to 1" --suite "$blocks" --density 1.5
misused 'pattern' "pattern is '0', but must be a whole number of 1 or more" --suite "$blocks" --pattern 0
for option in 'product all' 'density 0.5' 'pattern 2'; do
  misused "a ${option% *} of dense layers" "${option% *} is for block-sparse layers: .* has dense ones" \
    --suite "$layers" --$option
done
misused 'no calls' "latency is '0'" --latency 0
misused 'unknown option' "unrecognized option '--colour'" --suite "$layers" --colour
misused 'tier' "tier is 'M', but must be S or L" --suite "$layers" --tier M
misused 'dtype' "dtype is 'f64', but must be f32, f16, bf16, int8, tf32, f8e4m3, f8e5m2 or a pair as f16:i8" --suite "$layers" --dtype f64
misused 'a type of training' 'dtype is for --suite' --train 64 --dtype bf16
misused 'a type of latencies' 'dtype is for --suite' --latency 10 --dtype f16
for option in 'tier S' 'rows odd2' 'vary 1' 'way chain' 'weights plain' 'residency warm' 'product dgrad' 'density 1' 'pattern 1'; do
  misused "a ${option% *} without a suite" "${option% *} is for --suite" --ops copy --$option
done
misused 'threads' "threads is '0'" --suite "$layers" --threads 0
misused 'rounds' "rounds is '-1'" --suite "$layers" --rounds -1
misused 'seconds' "seconds is 'nan'" --suite "$layers" --seconds nan
misused 'row' "has no row 'sq3'" --suite "$layers" --rows odd2,sq3 --device reference
misused 'no such file' "$scratch/none: No such file" --suite "$scratch/none"
misused 'suite and ops' 'one of --suite' --suite "$layers" --ops all
misused 'train and latency' 'one of --suite' --train 64 --latency 1
misused 'an operation that is none' "no operation 'conv'; there are all, relu, .*gather" --ops gelu,conv
misused 'replay of nonsense' "'conv' is not an operation" --replay 'layerops: conv'
misused 'replay from empty input' 'not a line of LAYEROPS_VERBOSE' --replay -
printf 'a\tS\t2\t3\tx\trelu\there\n' >"$scratch/bad.tsv"
misused 'a bad suite' "$scratch/bad.tsv:1:9: k 'x' is not" --suite "$scratch/bad.tsv"
fails 'an unknown device' "$tool" bench --suite "$layers" --device gpu7
like 'it is named' 'gpu7'

# ---- measuring
for device in reference cpu; do
  check "dense rows on $device" "$tool" bench --suite "$layers" --device $device --threads 1 \
    --rows mnist_b64_l2,odd2 --tsv $quick
  table "the table of $device"
  like 'its header' "^id${tab}device${tab}dtype${tab}threads${tab}kernel${tab}median_s${tab}gflops${tab}max_rel_err${tab}sol_pct${tab}weights${tab}repay${tab}residency${tab}way\$"
  column 1 'mnist_b64_l2|odd2' 'the rows asked for'
  column 2 $device 'their device'
  column 4 1 'one thread'
  column 12 warm 'warm, as it is not said'
  column 13 graph 'calls that do not depend on each other'
  exact 1e-6 'within rounding of float64'
done
for dtype in f16 bf16; do
  check "$dtype on cpu" "$tool" bench --suite "$layers" --device cpu --rows odd2 --dtype $dtype \
    --tsv $quick
  table "the table of $dtype"
  column 3 $dtype 'its type'
  exact 4e-3 'within its rounding'
done
check "int8 on cpu" "$tool" bench --suite "$layers" --device cpu --rows odd2,mnist_b64_l2 --dtype int8 \
  --tsv $quick
table "the table of int8"
column 3 int8 'its type'
exact 1e-6 'within rounding of float64'
for weights in plain packed both; do
  check "weights: $weights" "$tool" bench --suite "$layers" --device cpu --rows mnist_b64_l2,odd2 \
    --weights $weights --tsv $quick
  table 'their table'
  exact 1e-6 'within rounding of float64'
  column 10 "$(echo $weights | sed 's/both/plain|packed/')" 'those asked for'
  column 5 '[a-z][a-z0-9_]*' 'and the kernels'
  sed 1d "$scratch/rows.tsv" | wc -l | grep -qx " *$(echo $weights | sed 's/both/4/; s/p.*/2/')"
  result $? 'a line a row and kind' <"$scratch/rows.tsv"
done
awk -F '\t' '$10 == "packed" && $11 !~ /^([1-9][0-9.e+]*|inf)$/ { print; bad = 1 } END { exit bad }' \
  "$scratch/rows.tsv" >"$scratch/why"
result $? 'packed: with the calls that repay it' <"$scratch/why"
check 'other shapes' "$tool" bench --suite "$layers" --device cpu --rows odd2,mnist_b64_l2 --vary 3 \
  --tsv $quick
table 'their table'
column 1 '(odd2|mnist_b64_l2):[0-9]+x[0-9]+x[0-9]+' 'the ids show them'
exact 1e-6 'within rounding of float64'
misused 'vary 0' "vary is '0', but must be a whole number of 1 or more" --suite "$layers" --vary 0
check 'two devices' "$tool" bench --suite "$layers" --device cpu --device reference --rows odd2 \
  --tsv $quick
like 'the first' "^odd2${tab}cpu"
like 'the second' "^odd2${tab}reference"
check 'a block-sparse row' "$tool" bench --suite "$blocks" --device reference \
  --rows b1_2048_b32_d10 --tsv $quick
table 'its table'
exact 1e-6 'within rounding of float64'
printf 'b8\tS\t5\t32\t48\t8\t0.4\tuniform\nb16\tS\t3\t64\t32\t16\t0.3\tbanded\n' >"$scratch/blocks.tsv"
for device in reference cpu; do
  for dtype in f32 f16 bf16; do
    check "all products, $dtype on $device" "$tool" bench --suite "$scratch/blocks.tsv" --device $device \
      --dtype $dtype --product all --tsv $quick
    table 'their table'
    exact 4e-3 'within rounding of float64'
    column 1 '(b8|b16)(/dgrad|/wgrad)?' 'the ids show them'
    cut -f 1 "$scratch/rows.tsv" | sed 1d | sort -u | wc -l | grep -qx ' *6'
    result $? 'a line for each row and product' <"$scratch/rows.tsv"
  done
done
check 'beside the dense product' env "LAYEROPS_PEERS=$scratch/empty" "$tool" bench \
  --suite "$scratch/blocks.tsv" --device cpu --residency both --product all --peers --tsv $quick
table 'its table'
exact 1e-6 'within rounding of float64'
grep -c "${tab}dense:" "$scratch/rows.tsv" | grep -qx 12
result $? 'each row and product, warm and cold' <"$scratch/rows.tsv"
awk -F '\t' 'NR > 1 && ($5 ~ /^dense:/ ? $12 !~ /^[0-9.e+-]+$/ : $12 != "nan") { print; bad = 1 }
  END { exit bad }' "$scratch/rows.tsv" >"$scratch/why"
result $? 'which has a ratio, and is no peer of ours' <"$scratch/why"
check 'one product' "$tool" bench --suite "$scratch/blocks.tsv" --device cpu --product wgrad --json $quick
like 'the run file tells it' '"product": "wgrad"'
like 'and the operation' '"op": "bsr_linear_backward"'
check 'weights of 8 bits' "$tool" bench --suite "$scratch/blocks.tsv" --device cpu --dtype f32:i8 --tsv $quick
table 'their table'
exact 1e-6 'within rounding of float64'
check 'other densities and patterns' "$tool" bench --suite "$scratch/blocks.tsv" --device cpu \
  --product dgrad --density 0.75 --pattern 9 --vary 2 --tsv $quick
table 'their table'
exact 1e-6 'within rounding of float64'
column 1 '(b8|b16):[0-9]+x[0-9]+x[0-9]+:density=0.75:pattern=9/dgrad' 'the ids show them'
for product in dgrad wgrad; do
  check "$product of weights of 8 bits" "$tool" bench --suite "$scratch/blocks.tsv" --device cpu \
    --dtype f32:i8 --product $product --tsv $quick
  like 'it is refused, with the reason' 'dgrad and wgrad have operands of one type'
done
printf 'one\tS\t1\t1\t1\tnone\ntwo\tL\t2\t2\t2\ttanh\n' >"$scratch/own.tsv"
check 'a suite of ones own' "$tool" bench --suite "$scratch/own.tsv" --device cpu --tsv $quick
table 'its table'
column 1 one 'on a CPU tier S, without --tier'
check 'tier L' "$tool" bench --suite "$scratch/own.tsv" --device cpu --tier L --tsv $quick
table 'its table'
column 1 two 'on a CPU too, if asked for'
check 'a table for people' "$tool" bench --suite "$scratch/own.tsv" --device cpu $quick
like 'with its head' '^id .* median +GFLOP/s'

printf 'huge\tS\t536870912\t536870912\t536870912\tnone\nsmall\tS\t1\t1\t1\tnone\n' \
  >"$scratch/huge.tsv"
fails 'a row larger than memory' "$tool" bench --suite "$scratch/huge.tsv" --device cpu --tsv $quick
like 'it is named' 'huge: no memory for its data'
like 'the next row is measured' "^small${tab}cpu"

# ---- residency and way
"$tool" devices >"$scratch/devices"
for device in cpu opencl:0.0 cuda:0; do
  if ! grep "^$device " "$scratch/devices" | grep -qv ' absent: '; then
    skip "warm and cold on $device" 'there is no such device'
    continue
  fi
  for way in graph chain alone; do
    check "warm and cold on $device, $way" "$tool" bench --suite "$layers" --device $device \
      --rows odd2,mnist_b64_l2 --residency both --way $way --weights both --tsv $quick
    table 'their table'
    exact 1e-6 'within rounding of float64'
    column 12 'warm|cold' 'as asked for'
    column 13 $way 'in that way'
    cut -f 1,10,12 "$scratch/rows.tsv" | sed 1d | sort -u | wc -l | grep -qx ' *8'
    result $? 'a line for each row, kind of weights and residency' <"$scratch/rows.tsv"
  done
done
if grep '^cuda:0 ' "$scratch/devices" | grep -qv ' absent: '; then
  check 'CUDA devices, without options' "$tool" bench --suite "$layers" --device cuda:0 --rows odd2 \
    --bound measure --tsv $quick
  table 'the table'
  column 9 '[0-9.e+-]+' 'what the device reaches is measured'
  column 10 plain 'weights are plain'
  column 12 cold 'and cold'
  check 'what CUDA devices reach' "$tool" devices --measure --device cuda:0 --tsv
  like 'copying memory among it' "^memory${tab}copy${tab}0${tab}[0-9]+${tab}[0-9.e+]+${tab}B/s"
  if [ -e "$top_builddir/bench/peers/.libs/cublaslt.so" ]; then
    mkdir "$scratch/cublaslt"
    ln -s "$(cd "$top_builddir/bench/peers/.libs" && pwd)/cublaslt.so" "$scratch/cublaslt"
    for way in graph chain alone; do
      for dtype in f32 f16 bf16 tf32; do
        check "cublaslt, $dtype, $way" env "LAYEROPS_PEERS=$scratch/cublaslt" "$tool" bench \
          --suite "$layers" --device cuda:0 --rows odd2,dlrm_top5,mnist_b64_l1 --dtype $dtype \
          --way $way --residency both --peers --tsv $quick
        table 'its table'
        ! grep -q ' wrong: ' "$scratch/out"
        result $? 'all of it is right' <"$scratch/out"
        grep -c 'peer:cublaslt' "$scratch/rows.tsv" | grep -qx 6
        result $? 'each row, warm and cold' <"$scratch/rows.tsv"
      done
    done
  else
    skip 'cublaslt' 'not in this build'
  fi
  if [ -e "$top_builddir/bench/peers/.libs/cusparse.so" ]; then
    mkdir "$scratch/cusparse"
    for peer in cublaslt cusparse; do
      ln -s "$(cd "$top_builddir/bench/peers/.libs" && pwd)/$peer.so" "$scratch/cusparse"
    done
    for dtype in f32 f16 bf16 tf32; do
      check "block-sparse rows beside peers, $dtype" env "LAYEROPS_PEERS=$scratch/cusparse" "$tool" bench \
        --suite "$scratch/blocks.tsv" --device cuda:0 --dtype $dtype --product all --residency both \
        --peers --tsv $quick
      table 'its table'
      ! grep -q ' wrong: ' "$scratch/out"
      result $? 'all of it is right' <"$scratch/out"
      grep -c 'peer:cublaslt.*:dense' "$scratch/rows.tsv" | grep -qx 12
      result $? 'the dense product: each row and product, warm and cold' <"$scratch/rows.tsv"
      grep 'peer:cusparse' "$scratch/rows.tsv" | cut -f 1 | grep -v wgrad | wc -l | grep -qx ' *8'
      result $? 'the sparse one: each of forward and dgrad' <"$scratch/rows.tsv"
    done
  else
    skip 'cusparse' 'not in this build'
  fi
else
  skip 'CUDA devices' 'there is none'
fi
check 'a cold block-sparse row' "$tool" bench --suite "$blocks" --device cpu --rows b1_2048_b32_d10 \
  --residency cold --way chain --tsv $quick
table 'its table'
exact 1e-6 'within rounding of float64'
check 'a chain of u8 and f32' "$tool" bench --suite "$layers" --device cpu --rows odd2 --dtype int8 \
  --way chain --tsv $quick
like 'it is refused, with the reason' 'odd2 on cpu: all: no chain: Y is of another type than X'
check 'a chain of oblong blocks' "$tool" bench --suite "$blocks" --device cpu --rows ffn768_b32_d10 \
  --way chain --json $quick
like 'the run file tells it too' '"reason": "no chain: block-sparse weights that are not square"'
check 'f32 that may be TF32' "$tool" bench --suite "$layers" --device cpu --rows odd2 --dtype tf32 \
  --tsv $quick
table 'its table'
column 3 tf32 'its type'

# ---- run file
check 'a run file' "$tool" bench --suite "$layers" --device cpu --rows odd2 --json $quick
for key in schema commit build version devices driver cpu threads samples median_s p50_s p95_s p99_s \
  max_s residency way transfers flops bytes max_rel_err; do
  like "it has $key" "\"$key\": "
done
like 'its schema' '"schema": "layerops-run/1"'

# ---- bounds
fails 'a device file that is none' "$tool" bench --suite "$layers" --device cpu --rows odd2 \
  --bound "$layers"
like 'it is named, and the place' 'layers.tsv:1:'
check 'another device file' "$tool" bench --suite "$layers" --device cpu --rows odd2 --tsv $quick \
  --bound "$top_srcdir/data/devices/t4.json"
table 'its table'
column 9 '[0-9.e+-]+' 'sol_pct is a number'
check 'what the processor reaches' "$tool" bench --suite "$layers" --device cpu --threads 1 --rows sq512 \
  --tsv $quick --bound measure
table 'its table'
awk -F '\t' 'NR > 1 && !($9 > 0.01 && $9 < 200) { print; bad = 1 } END { exit bad }' "$scratch/rows.tsv"
result $? 'sol_pct is plausible' <"$scratch/rows.tsv"
mkdir -p "$scratch/empty"
check 'no device file' env "LAYEROPS_DEVICE_FILES=$scratch/empty" "$tool" bench --suite "$layers" \
  --device cpu --rows odd2 --tsv $quick
like 'it is told' 'no sol_pct, since no device file describes it'
table 'the row is there'
column 9 nan 'sol_pct is nan'

# ---- peers
check 'no peer at all' env "LAYEROPS_PEERS=$scratch/empty" "$tool" bench --suite "$layers" --device cpu \
  --rows odd2 --tsv --peers $quick
for peer in openblas blis mkl onednn2 onednn3 libxsmm clblast cublaslt cusparse; do
  like "$peer is missing, with the reason" "peer $peer: there is no module .*$peer.so"
done
table 'the row is there'
column 12 nan 'there is nothing to compare it with'

# gcc's leak checker crashes on the thread-local storage of libraries that come late (its tracer, signal
# 11); the runs without peers look for leaks.
[ "${sanitizers:-no}" = no ] || export ASAN_OPTIONS="$ASAN_OPTIONS:detect_leaks=0"
for module in openblas blis mkl onednn2 onednn3 libxsmm; do
  if ! [ -e "$top_builddir/bench/peers/.libs/$module.so" ]; then
    skip "$module" 'not in this build'
    continue
  fi
  mkdir "$scratch/$module"
  ln -s "$(cd "$top_builddir/bench/peers/.libs" && pwd)/$module.so" "$scratch/$module"
  check "$module beside the CPU" env "LAYEROPS_PEERS=$scratch/$module" "$tool" bench --suite "$layers" \
    --device cpu --rows odd2,dlrm_top5,deepbench_inf1,mnist_b64_l1 --tsv --peers $quick
  table "its table"
  exact 1e-6 'within rounding of float64, both'
  if grep -q "$module: it has no engine\|$module: it runs on its own threads" "$scratch/out"; then
    skip "$module did the four rows" "$(grep -m 1 "$module: it" "$scratch/out")"
    continue
  fi
  grep "${tab}peer:${module%[23]}" "$scratch/rows.tsv" | cut -f 1 | sort -u | wc -l | grep -qx ' *4'
  result $? "$module did the four rows" <"$scratch/rows.tsv"
  grep "${tab}peer:" "$scratch/rows.tsv" | cut -f 12 | grep -Evq '^[0-9.e+-]+$'
  [ $? -eq 1 ]
  result $? 'each with a ratio' <"$scratch/rows.tsv"
  grep "${tab}packed${tab}" "$scratch/rows.tsv" | grep -Eqv "${tab}packed${tab}([0-9.e+]+|inf|nan)${tab}"
  [ $? -eq 1 ]
  result $? 'packed weights say what repays them' <"$scratch/rows.tsv"
  like 'the summary' '^# cpu f32, threads [0-9]+, warm graph: the best peer.s time over ours, geometric mean of 4 rows [0-9.]+; worst'
done
for module in openblas blis onednn2 libxsmm; do
  if ! [ -d "$scratch/$module" ]; then
    skip "$module on block-sparse rows" 'not in this build'
    continue
  fi
  check "$module on block-sparse rows" env "LAYEROPS_PEERS=$scratch/$module" "$tool" bench \
    --suite "$scratch/blocks.tsv" --device reference --product all --tsv --peers $quick
  table 'its table'
  exact 1e-6 'within rounding of float64, both'
  grep "${tab}peer:${module%[23]}.*\(batch-reduce\|dense\)" "$scratch/rows.tsv" | cut -f 1 | sort -u |
    wc -l | grep -qx ' *6'
  result $? 'each row and product' <"$scratch/rows.tsv"
  for product in forward dgrad wgrad; do
    like "the summary of $product" "^# reference f32 $product, threads 1, .* geometric mean of 2 rows"
  done
done

# A peer whose answers are wrong, and one built for another tool.
cat >"$scratch/fake.c" <<'END'
#include "bench/peer.h"
#include <string.h>
static bool setup(const struct bench_layer *l, void **state, char *label, size_t n, char *why,
                  size_t why_size) {
  (void)l, (void)state, (void)why, (void)why_size;
  strncpy(label, "fake-1", n);
  return true;
}
static bool run(void *state, int64_t calls) { return state == 0 && calls > 0; }
static bool fetch(void *state) { return state == 0; }
static void end(void *state) { (void)state; }
const struct bench_peer layerops_bench_peer = {.abi = ABI, .name = "openblas", .weights = BENCH_PLAIN,
  .setup = setup, .run = run, .fetch = fetch, .close = end};
END
mkdir "$scratch/wrong" "$scratch/old"
if $CC -shared -fPIC -DABI=BENCH_PEER_ABI -I"$top_srcdir" "$scratch/fake.c" \
  -o "$scratch/wrong/openblas.so" 2>"$scratch/why" &&
  $CC -shared -fPIC -DABI=-1 -I"$top_srcdir" "$scratch/fake.c" -o "$scratch/old/openblas.so"; then
  check 'a peer that computes nothing' env "LAYEROPS_PEERS=$scratch/wrong" "$tool" bench \
    --suite "$layers" --device cpu --rows odd2 --tsv --peers $quick
  like 'it is told' 'openblas: wrong: y\[[0-9]+,[0-9]+\] is -?nan, should be'
  like 'its row shows it' 'peer:fake-1.*inf'
  ! grep -q 'geometric mean' "$scratch/out"
  result $? 'it counts for no summary' <"$scratch/out"
  check 'a peer that measures warm calls alone' env "LAYEROPS_PEERS=$scratch/wrong" "$tool" bench \
    --suite "$layers" --device cpu --rows odd2 --tsv --peers --residency cold $quick
  like 'it is not compared with cold ones' 'openblas: its adapter measures warm calls'
  ! grep -q 'peer:fake' "$scratch/out"
  result $? 'and has no row' <"$scratch/out"
  check 'a module of another version' env "LAYEROPS_PEERS=$scratch/old" "$tool" bench \
    --suite "$layers" --device cpu --rows odd2 --tsv --peers $quick
  like 'it is refused' 'peer openblas: the module .* another version'
else
  skip 'a peer that computes nothing' "$CC makes no module: $(head -1 "$scratch/why")"
fi

# ---- the network
check 'an epoch' env "LAYEROPS_PEERS=$scratch/empty" "$tool" bench --train 4096 --train 60000 \
  --device cpu --tsv $quick
table 'its table'
column 1 'train_784_128_10_b(4096|60000)' 'a row for each batch'
column 5 network 'of ours alone'
if [ -d "$scratch/openblas" ]; then
  check 'beside loops around a BLAS' env "LAYEROPS_PEERS=$scratch/openblas" "$tool" bench --train 1024 \
    --device cpu --threads 1 --peers --tsv $quick
  table 'its table'
  column 5 'network|peer:openblas.*' 'of both'
  column 12 '[0-9.e+-]+' 'each with a ratio'
  awk -F '\t' 'NR == 3 { found = $8 != "nan" && $8 < 1.3e-5 } END { exit !found }' "$scratch/rows.tsv"
  result $? 'the first losses agree' <"$scratch/rows.tsv"
else
  skip 'beside loops around a BLAS' 'OpenBLAS is not in this build'
fi
check 'latency' "$tool" bench --latency 50 --device cpu --device reference --tsv
grep "$tab" "$scratch/out" >"$scratch/rows.tsv"
awk -F '\t' 'NR == 1 { bad = $0 != "id\tdevice\tthreads\tcalls\tp50_s\tp90_s\tp99_s\tmax_s"; next }
  { good = $1 == "predict_784_128_10_b1" && $4 == 50 && 0 < $5 && $5 <= $6 && $6 <= $7 && $7 <= $8
    bad += !good }
  END { exit bad || NR != 3 }' "$scratch/rows.tsv"
result $? 'ascending percentiles of both devices' <"$scratch/rows.tsv"
check 'latency as a run file' "$tool" bench --latency 50 --device cpu --json
for key in p50_s p90_s p99_s max_s calls; do like "it has $key" "\"$key\": "; done
check 'latency for people' "$tool" bench --latency 50 --device cpu
like 'with its head' '^id .*p99/p50$'

# ---- replay
LAYEROPS_VERBOSE=1 "$tool" bench --suite "$layers" --device cpu --rows odd2 --tsv $quick 2>&1 |
  grep -m 1 '^layerops: linear_forward' >"$scratch/line"
grep -q 'm=17 n=33 k=65' "$scratch/line"
result $? 'LAYEROPS_VERBOSE=1 prints a line' <"$scratch/line"
check 'it is repeated' "$tool" bench --tsv $quick --replay "$(cat "$scratch/line")"
table 'its table'
kernel=$(sed 's/.* kernel=\([^ ]*\) .*/\1/' "$scratch/line")
column 5 "$kernel" 'by the same kernel'
column 10 "$(grep -q packed=1 "$scratch/line" && echo packed || echo plain)" 'with its weights'
check 'a packed one is repeated' "$tool" bench --tsv $quick \
  --replay "$(sed 's/ packed=1//; s/ ms=/ packed=1 ms=/' "$scratch/line")"
table 'its table'
column 10 packed 'with packed weights'
"$tool" bench --tsv $quick --replay - --device reference <"$scratch/line" >"$scratch/out" 2>&1
result $? 'from standard input, on another device' <"$scratch/out"
table 'its table'
column 2 reference 'there'
like 'another kernel is told' "the line's kernel is $kernel"
fails 'a line of sizes whose product overflows' "$tool" bench --tsv $quick --device cpu \
  --replay "$(sed 's/ m=17 n=33 k=65 / m=4000000000 n=33 k=4000000000 /' "$scratch/line")"
like 'it is told, and ends there' '^layerops bench: --replay: .* is too large$'

# ---- what cannot be written
if [ -w /dev/full ]; then
  "$tool" bench --suite "$layers" --device cpu --rows odd2 --tsv $quick >/dev/full 2>"$scratch/out"
  [ $? -eq 1 ]
  result $? 'a full disk is a failure' <"$scratch/out"
  "$tool" bench --suite "$layers" --device cpu --rows odd2 --json $quick >/dev/full 2>"$scratch/out"
  [ $? -eq 1 ]
  result $? 'for a run file too' <"$scratch/out"
else
  skip 'a full disk' 'no /dev/full here'
fi
# ---- operations that are no products
check 'operations on cpu' "$tool" bench --ops softmax,momentum,column_sum --device cpu --threads 1 \
  --tsv $quick
table 'the table of operations'
like 'its header' "${tab}sol_pct${tab}gbs${tab}ns_element${tab}ratio${tab}residency${tab}way\$"
column 1 '(softmax|momentum|column_sum)/(L[123]|DRAM|64x10|64x128|1024x128)' 'the operations asked for'
column 10 '[0-9.e+-]+' 'bytes a second'
column 12 '[0-9.e+-]+' 'and the ratio to the copy'
for kernel in layerops copy; do # 3 operations on 7 shapes
  pattern=$([ $kernel = copy ] && echo '^peer:copy$' || echo '^[a-z0-9_]*$')
  [ "$(cut -f 5 "$scratch/rows.tsv" | sed 1d | grep -c "$pattern")" -eq 21 ]
  result $? "$kernel at each shape" <"$scratch/rows.tsv"
done

done_testing
