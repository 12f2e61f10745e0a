#!/bin/sh
# 784-512-512-10 on Fashion-MNIST, pruned to a quarter of its blocks of 16 x 16 (the last layer, whose
# 10 rows are less than a block, stays dense) and trained on: within 1.5 points of the dense network.
# The last epoch of both has a small learning rate, without which accuracy goes up and down by some
# points from epoch to epoch. Seen with seeds 1, 2, 3: 84.52, 84.51, 84.35% dense after two epochs and
# 84.36, 84.35, 84.32% sparse after two more; of three and three epochs 86.07, 86.07, 85.85% and 85.85,
# 85.90, 85.84%. On the bundled subset, of whose 1,000 test samples ten are one point, within 3 points
# (seen: 0.8 below to 0.2 above), and at least 78% (82.3 to 83.6). On every device but the reference
# (too slow).
. "$top_srcdir/t/tap.sh"

layerops=$top_builddir/layerops
subset=$top_srcdir/data/fashion-mnist-subset
full=/usr/share/datasets/fashion-mnist # where Debian's package puts it
unset LAYEROPS_VERBOSE LAYEROPS_DATA LAYEROPS_DEVICE

python3 -c pass 2>/dev/null || skip_all 'no python3'

# train NAME LR EPOCHS OPTION...: on $device with $data; the accuracy is in the log
train() {
  train_name=$1
  train_lr=$2
  train_epochs=$3
  shift 3
  check "$device: $train_name" "$layerops" train --device "$device" --data "$data" --batch 64 \
    --lr "$train_lr" --epochs "$train_epochs" --log "$scratch/log" "$@"
}

# dense EPOCHS: leaves $scratch/dense and its log
dense() {
  rm -f "$scratch/log"
  train 'a dense network' 0.1 "$1" --layers 784,512,512,10 --save "$scratch/dense" &&
    train '  with its last epoch' 0.02 $(($1 + 1)) --load "$scratch/dense" --save "$scratch/dense" &&
    mv "$scratch/log" "$scratch/dense.log"
}

# trains EPOCHS MOST LEAST: how many points below the dense network's accuracy the sparse one's may
# end, and the least that it must be
trains() {
  dense "$1" || return
  check "$device: pruned" "$layerops" prune --model "$scratch/dense" --block 16 --density 0.25 \
    --save "$scratch/sparse"
  like '  to a quarter' '^layers.0: 512 x 784, 392 of 1568 blocks of 16 x 16$'
  train 'a sparse network' 0.1 $((2 * $1 + 1)) --sparse --load "$scratch/sparse" \
    --save "$scratch/sparse" &&
    train '  with its last epoch' 0.02 $((2 * $1 + 2)) --sparse --load "$scratch/sparse" || return
  check "$device: at most $2 points below the dense one, and $3 at least" python3 -c 'import json, sys
dense, sparse = [json.loads(list(open(name))[-1]) for name in sys.argv[1:3]]
print(dense, sparse)
assert dense["weights"] == 668672 and sparse["weights"] == 171008
assert sparse["epoch"] == 2 * dense["epoch"]
assert sparse["test_accuracy"] >= dense["test_accuracy"] - float(sys.argv[3]) / 100
assert sparse["test_accuracy"] >= float(sys.argv[4])' "$scratch/dense.log" "$scratch/log" "$2" "$3"
}

check 'devices' "$layerops" devices --json
python3 -c 'import json, sys
for d in json.load(open(sys.argv[1]))["devices"]:
    if d["available"] and d["name"] != "reference": print(d["name"])' "$scratch/out" \
  >"$scratch/list"
[ -s "$scratch/list" ]
result $? 'there is one to train on' <"$scratch/out"
while read -r device; do
  data=$subset
  trains 10 3 0.78
  data=$full
  if [ -d "$full" ]; then
    trains 1 1.5 0.835
  else
    skip "$device: Fashion-MNIST" "$full is not there (Debian: dataset-fashion-mnist)"
  fi
done <"$scratch/list"

done_testing
