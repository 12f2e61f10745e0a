#!/bin/sh
# Every operation on the CPU with each instruction set that this machine has but the best, which the
# other tests run on. Sets run side by side: LAYEROPS_CPU_ISA chooses (t/cpu.c tests that it does).
. "$top_srcdir/t/tap.sh"

# Buffers, replays and repeats are the same whatever the set is.
LAYEROPS_TEST_DEVICES=cpu
LAYEROPS_TEST_KERNELS=1
export LAYEROPS_TEST_DEVICES LAYEROPS_TEST_KERNELS
unset LAYEROPS_CPU_ISA LAYEROPS_VERBOSE
programs='ops_gemm ops_linear ops_backward ops_rows ops_move ops_update ops_bsr field_values network'

# run_all ISA: leaves the output of each program in $scratch/ISA.PROGRAM
run_all() {
  for program in $programs; do
    LAYEROPS_CPU_ISA=$1 "$top_builddir/t/$program" >"$scratch/$1.$program" 2>&1
    echo "status $?" >>"$scratch/$1.$program"
  done
}

# passed ISA PROGRAM: it ended well, and on this instruction set
passed() {
  grep -A 2 '^not ok' "$scratch/$1.$2" | head -n 20
  tail -n 3 "$scratch/$1.$2"
  grep -q '^1\.\.[1-9]' "$scratch/$1.$2" && ! grep -q '^not ok' "$scratch/$1.$2" &&
    grep -q '^status 0$' "$scratch/$1.$2"
}

check 'devices' "$top_builddir/layerops" devices --json
sets=$(awk '/"name":/ { cpu = /"cpu"/ } cpu && /"isa":/ { gsub(/.*: "|",?$/, ""); print }' "$scratch/out")
result $? "cpu has: $sets" </dev/null
case " $sets " in *' portable '*) [ 1 ] ;; *) false ;; esac
result $? 'every machine has the portable kernels' <"$scratch/out"

others=
case $sets in *' '*) others=${sets#* } ;; esac
for isa in $others; do run_all "$isa" & done
wait
for isa in $others; do
  for program in $programs; do check "$isa: $program" passed "$isa" "$program"; done
done
done_testing
