#!/bin/sh
# layerops prune and train --sparse as a user meets them: files, streams, statuses.
. "$top_srcdir/t/tap.sh"

layerops=$top_builddir/layerops
unset LAYEROPS_VERBOSE LAYEROPS_DATA
LAYEROPS_DEVICE=reference
export LAYEROPS_DEVICE

python3 -c pass 2>/dev/null || skip_all 'no python3'

# misuse STATUS PATTERN ARGUMENT...: fails with this status and says why, and only there
misuse() {
  misuse_status=$1
  misuse_pattern=$2
  shift 2
  "$layerops" "$@" >"$scratch/stdout" 2>"$scratch/stderr" </dev/null
  misuse_got=$?
  [ $misuse_got -eq "$misuse_status" ] && [ ! -s "$scratch/stdout" ] &&
    grep -Eq -e "$misuse_pattern" "$scratch/stderr"
  result $? "layerops $*: $misuse_pattern" <<END
status $misuse_got, wanted $misuse_status
$(cat "$scratch/stdout" "$scratch/stderr")
END
}

# ---- Mistakes
misuse 2 '--model is missing' prune --block 16 --density 0.25
misuse 2 '--block is missing' prune --model x --density 0.25
misuse 2 '--density, --keep or --threshold is missing' prune --model x --block 16
misuse 2 'exclude each other' prune --model x --block 16 --density 0.25 --threshold 1
misuse 2 '--rows goes with --density' prune --model x --block 16 --keep 1:4 --rows
misuse 2 '--sparse goes with --load' train --sparse
while read -r option value; do
  misuse 2 "$option is '$value', but must be" prune --model x "$option" "$value"
done <<END
--block 12
--block 16x
--block x16
--block 16x24
--block 256
--density 1.01
--density -0.5
--density nan
--keep 3:2
--keep 0:2
--keep 2
--threshold -1
--score l3
END

# ---- A network of 20, 24, 16 and 3 units: the class is where the largest feature stands
mkdir "$scratch/data"
rows() {
  awk -v n="$1" -v seed="$2" 'BEGIN { srand(seed)
    for (i = 0; i < n; i++) {
      best = 0; line = ""
      for (j = 0; j < 20; j++) {
        x[j] = rand(); line = line sprintf("%.4f,", x[j]); if (j < 3 && x[j] > x[best]) best = j }
      print line best } }'
}
rows 300 1 >"$scratch/data/train.csv"
rows 60 2 >"$scratch/data/test.csv"
data=$scratch/data
net=$scratch/net.safetensors
sparse=$scratch/net.sparse.safetensors
check 'a dense network' "$layerops" train --data "$data" --layers 20,24,16,3 --optimizer adam \
  --epochs 3 --save "$net"
check 'is pruned' "$layerops" prune --model "$net" --block 8x4 --density 0.4
like '  what is kept of a layer' '^layers.0: 24 x 20, 6 of 15 blocks of 8 x 4$'
like '  of the next' '^layers.1: 16 x 24, 5 of 12 blocks of 8 x 4$'
like '  the last is dense' '^layers.2: 3 x 16, dense$'
like '  how much that is, and where' "^saved $sparse: 400 of 912 weights\$"
check '  the file is as the man page tells' python3 -c 'import json, struct, sys
def read(name):
    file = open(name, "rb").read()
    n = struct.unpack("<Q", file[:8])[0]
    header = json.loads(file[8:8 + n])
    meta = header.pop("__metadata__")
    arrays = {}
    for name, t in header.items():
        code = {"F32": "f", "I32": "i", "I64": "q"}[t["dtype"]]
        begin, end = t["data_offsets"]
        data = file[8 + n + begin:8 + n + end]
        arrays[name] = t["dtype"], t["shape"], struct.unpack("<%d%s" % (len(data) / struct.calcsize(code), code), data)
    return arrays, meta
dense, old = read(sys.argv[1])
sparse, meta = read(sys.argv[2])
assert meta["epochs"] == "3" and meta["optimizer"] == "none" and old["optimizer"] == "moments"
layers = {"layers.0.weight": (24, 20, 6), "layers.1.weight": (16, 24, 5)}
for layer, (n, k, count) in layers.items():
    assert sparse[layer + ".size"] == ("I64", [2], (n, k))
    assert sparse[layer + ".values"][:2] == ("F32", [count, 8, 4])
    assert sparse[layer + ".row_start"][:2] == ("I32", [n // 8 + 1])
    assert sparse[layer + ".column"][:2] == ("I32", [count])
    start, column = sparse[layer + ".row_start"][2], sparse[layer + ".column"][2]
    values, w = sparse[layer + ".values"][2], dense[layer][2]
    score = {(r, c): sum(abs(w[(r * 8 + i) * k + c * 4 + j]) for i in range(8) for j in range(4))
             for r in range(n // 8) for c in range(k // 4)}
    kept = sorted(score, key=lambda block: -score[block])[:count]
    assert sorted(kept) == [(r, column[b]) for r in range(n // 8) for b in range(start[r], start[r + 1])]
    for b, (r, c) in enumerate(sorted(kept)):
        for i in range(8):
            at = (r * 8 + i) * k + c * 4
            assert values[(b * 8 + i) * 4:(b * 8 + i) * 4 + 4] == w[at:at + 4]
for name in "layers.2.weight", "layers.0.bias", "layers.1.bias", "layers.2.bias":
    assert dense[name] == sparse[name]
assert len(sparse) == 2 * 3 + 2 * 3' "$net" "$sparse"
cp "$sparse" "$scratch/pruned"

# ---- Training what is kept
check 'its blocks are trained' "$layerops" train --data "$data" --sparse --load "$sparse" \
  --optimizer adam --epochs 6 --save "$sparse" --log "$scratch/log"
like '  which the first lines tell' '^block-sparse: 400 of 912 weights$'
check '  and the log' python3 -c 'import json, sys
summary = json.loads(list(open(sys.argv[1]))[-1])
assert summary["weights"] == 400 and summary["all_weights"] == 912 and summary["epoch"] == 6' \
  "$scratch/log"
check '  without --sparse too' "$layerops" train --data "$data" --load "$scratch/pruned" \
  --optimizer adam --epochs 6 --save "$scratch/other"
check '  to the same file' cmp "$sparse" "$scratch/other"
check '  in parts' "$layerops" train --data "$data" --sparse --load "$scratch/pruned" \
  --optimizer adam --epochs 4 --save "$scratch/part"
check '  too' "$layerops" train --data "$data" --sparse --load "$scratch/part" --optimizer adam \
  --epochs 6 --save "$scratch/part"
check '  to the same file' cmp "$sparse" "$scratch/part"
accuracy=$(python3 -c 'import json, sys
print("%.4f" % json.loads(list(open(sys.argv[1]))[-1])["test_accuracy"])' "$scratch/log")
check 'it classifies' "$layerops" predict --model "$sparse" --data "$data"
like '  with the accuracy that training told' "accuracy $accuracy "

# ---- Other ways to prune
check 'a part of each row of blocks' "$layerops" prune --model "$net" --block 8 --density 0.34 --rows \
  --score l2 --last --save "$scratch/a"
like '  is kept' '^layers.0: 24 x 20, 3 of 9 blocks of 8 x 8$'
like '  of the last layer too' '^layers.2: 3 x 16, 1 of 2 blocks of 8 x 8$'
check 'N of M' "$layerops" prune --model "$net" --block 8x4 --keep 1:2 --score max --save "$scratch/a"
like '  keep as many' '^layers.0: 24 x 20, 9 of 15 blocks of 8 x 4$'
check 'a threshold' "$layerops" prune --model "$net" --block 4 --threshold 0 --save "$scratch/a"
like '  of 0 keeps all' '^saved .*: 912 of 912 weights$'
check 'a sparse network' "$layerops" prune --model "$sparse" --block 8x4 --density 0.2 --save "$sparse"
like '  is pruned further, in place' '^layers.0: 24 x 20, 3 of 15 blocks of 8 x 4$'
mkdir "$scratch/name"
cp "$net" "$scratch/name/net"
check 'a name without .safetensors' "$layerops" prune --model "$scratch/name/net" --block 8 --density 0.5
like '  gets it' '^saved .*/name/net\.sparse\.safetensors: '

# ---- What does not fit, and what stays
misuse 1 "--sparse is given, but .* is dense" train --data "$data" --sparse --load "$net"
misuse 1 'nowhere: cannot be opened' prune --model "$scratch/nowhere" --block 16 --density 0.25
misuse 1 'not a .safetensors file|bytes' prune --model "$data/test.csv" --block 16 --density 0.25
check 'a network of one layer' "$layerops" train --data "$data" --layers 20,3 --epochs 1 \
  --save "$scratch/single"
misuse 1 'has one layer, the last, which stays dense without --last' prune \
  --model "$scratch/single" --block 4 --density 0.5
cp "$sparse" "$scratch/kept"
misuse 1 'no/x: ' prune --model "$sparse" --block 4 --density 0.5 --save "$scratch/no/x"
"$layerops" prune --model "$sparse" --block 4 --density 0.5 --save /dev/full >"$scratch/out" 2>&1
[ $? -eq 1 ] && cmp "$sparse" "$scratch/kept" && [ -z "$(find "$scratch" -name '.*.??????' -type f)" ]
result $? 'after a failure the model is as it was, and nothing else is left' <"$scratch/out"

done_testing
