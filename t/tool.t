#!/bin/sh
# The command as a user meets it: statuses, streams, files, signals.
. "$top_srcdir/t/tap.sh"

layerops=$top_builddir/layerops
subset=$top_srcdir/data/fashion-mnist-subset
unset LAYEROPS_VERBOSE LAYEROPS_DATA
LAYEROPS_DEVICE=reference
ASAN_OPTIONS=allocator_may_return_null=1:$ASAN_OPTIONS # as malloc does
export LAYEROPS_DEVICE ASAN_OPTIONS

# run STATUS NAME COMMAND...: passes where the command ends with the status. Its output is left in
# $scratch/stdout and stderr.
run() {
  run_want=$1
  run_name=$2
  shift 2
  "$@" >"$scratch/stdout" 2>"$scratch/stderr" </dev/null
  run_got=$?
  [ $run_got -eq "$run_want" ]
  result $? "$run_name" <<END
status $run_got, wanted $run_want: $*
$(cat "$scratch/stdout" "$scratch/stderr")
END
}

# says FILE PATTERN NAME
says() {
  grep -Eq -e "$2" "$scratch/$1"
  result $? "$3" <<END
nothing matches $2 in $1:
$(cat "$scratch/$1")
END
}

empty() { # FILE NAME
  [ ! -s "$scratch/$1" ]
  result $? "$2" <"$scratch/$1"
}

# misuse PATTERN ARGUMENT...: status 2, the reason on standard error, nothing on standard output
misuse() {
  misuse_pattern=$1
  shift
  run 2 "layerops $*: status 2" "$layerops" "$@"
  says stderr "$misuse_pattern" '  and why'
  empty stdout '  on standard error alone'
}

# refuse PATTERN ARGUMENT...: the same with status 1
refuse() {
  refuse_pattern=$1
  shift
  run 1 "layerops $*: status 1" "$layerops" "$@"
  says stderr "$refuse_pattern" '  and why'
}

is_json() { # FILE NAME: each line of it is JSON
  python3 -c 'import json, sys
for line in open(sys.argv[1]): json.loads(line)' "$1" >"$scratch/out" 2>&1
  result $? "$2" <"$scratch/out"
}

python3 -c pass 2>/dev/null || skip_all 'no python3'

# ---- Help and mistakes
run 0 'layerops --help' "$layerops" --help
says stdout '^ +train ' 'it lists the commands'
empty stderr 'help goes to standard output'
run 0 'layerops --version' "$layerops" --version
says stdout '^layerops [0-9]+\.[0-9]+\.[0-9]+$' 'the version'
for command in devices train predict prune tune selftest; do
  run 0 "layerops help $command" "$layerops" help $command
  says stdout "^Usage: layerops $command" '  tells of it'
  cp "$scratch/stdout" "$scratch/help"
  run 0 "layerops $command --help" "$layerops" $command --help
  cmp -s "$scratch/help" "$scratch/stdout"
  result $? '  says the same' </dev/null
done
run 2 'layerops alone: status 2' "$layerops"
says stderr '^Usage' '  and the usage on standard error'
misuse "unknown command 'trian'" trian
misuse "unknown option '--trian'" --trian
misuse "unknown command 'nothing'" help nothing
misuse "unexpected argument 'x'" help train x
misuse "unrecognized option '--colour'" devices --colour
misuse "unexpected argument 'cpu'" devices cpu
misuse "option '--batch' requires an argument" train --batch
misuse "unrecognized option '--colour=red'" train --colour=red
misuse "unexpected argument 'data'" train data
misuse '--model is missing' predict --data x
misuse '--data is missing' predict --model x
misuse '--tsv and --json exclude' predict --model x --data x --tsv --json

# every option of train with an argument that it cannot take
while read -r option value; do
  misuse "$option is '$value', but must be" train "$option" "$value"
done <<END
--batch 0
--batch 1.5
--batch 99999999999999999999
--epochs -1
--epochs ten
--lr 0
--lr nan
--lr 0.1x
--momentum 1
--weight-decay -1
--seed -1
--seed 18446744073709551616
--threads 0
--threads 5000
--layers 784
--layers 784,,10
--layers 784,0,10
--layers 784,-1,10
--layers 784,10,
--layers 99999999999999999999,10
--activation swish
--loss hinge
--optimizer sgdd
--label-column second
END
misuse "--layers is '', but must be" train --layers ''
misuse '--momentum is for --optimizer sgd, not adam' train --momentum 0.9 --optimizer adam

# ---- Devices
run 0 'layerops devices' "$layerops" devices
says stdout '^reference ' 'lists the reference'
says stdout '^cuda(:0| )' 'and CUDA or why not'
run 0 'layerops devices --json' "$layerops" devices --json
check '  is JSON with a reason for what is absent' python3 -c 'import json, sys
for d in json.load(open(sys.argv[1]))["devices"]:
    assert d["name"] and d["available"] == (d["reason"] == ""), d' "$scratch/stdout"

misuse 'either --tsv or --json' devices --measure --tsv --json
misuse '--tsv goes with --measure' devices --tsv
misuse '--device goes with --measure' devices --device cpu
run 1 'the reference is not measured' "$layerops" devices --measure --device reference
says stderr 'reference: only processors and CUDA devices can be measured' '  and says so'
run 1 'nor is a device that is not there' "$layerops" devices --measure --device cuda:99
says stderr 'cuda:99' '  and says so'
run 0 'layerops devices --measure --json' "$layerops" devices --measure --json
empty stderr 'nothing on standard error: no progress bar in a pipe'
check '  has what a processor has, in plausible sizes' python3 -c 'import json, sys
found = {}
for m in json.load(open(sys.argv[1]))["measured"]:
    key = m["what"], m["how"] if m["unit"] == "B/s" else m["unit"], m["threads"]
    assert key not in found, key
    found[key] = m
    assert m["threads"] >= 1 and (m["bytes"] > 0) == (m["unit"] == "B/s"), m
    # from an emulated processor to one far beyond todays
    assert 1e6 < m["value"] < 1e16, m
f32 = found["f32", "FLOP/s", 1]["value"]
for how in "read", "copy", "triad":
    memory = found["memory", how, 1]
    inner = [m for (what, h, t), m in found.items() if h == how and t == 1 and what != "memory"]
    assert all(m["bytes"] < memory["bytes"] for m in inner)
    assert all(m["value"] > 0.5 * memory["value"] for m in inner), inner
for what in "bf16", "int8":
    unit = "OP/s" if what == "int8" else "FLOP/s"
    assert found.get((what, unit, 1), {"value": f32})["value"] > 0.5 * f32' "$scratch/stdout"

# ---- The self-test
run 0 'layerops selftest --device cpu --ops mse,fill' "$layerops" selftest --device cpu --ops mse,fill
says stdout '^ok 1 - cpu: mse f32: shapes' '  names the device, the operation and what it checked'
says stdout '^1\.\.[1-9]' '  ends with the plan'
says stdout '^# [1-9][0-9]* checks, 0 failed, in [0-9]+\.[0-9] s$' '  and tells how long it took'
! grep -q 'cpu: \(gemm\|softmax\)' "$scratch/stdout"
result $? '  has no other operation' </dev/null
run 0 'layerops selftest --ops sgd' "$layerops" selftest --ops sgd
says stdout 'cuda' '  tests each device, or says why not'
run 1 'an unknown device: status 1' "$layerops" selftest --device toaster
says stderr 'toaster' '  and its name'
misuse "--ops is 'toast', but must be" selftest --ops toast
misuse "--ops is 'mse,', but must be" selftest --ops mse,

# ---- A small data set: the class is where the largest of three features stands
mkdir "$scratch/data"
rows() {
  awk -v n="$1" -v seed="$2" 'BEGIN { srand(seed); print "a,b,c,d,label"
    for (i = 0; i < n; i++) {
      a = rand(); b = rand(); c = rand(); class = (b > a)
      if (c > a && c > b) class = 2
      printf "%f,%f,%f,%f,%d\n", a, b, c, rand(), class } }'
}
rows 301 1 >"$scratch/data/train.csv"
rows 60 2 >"$scratch/data/test.csv"
data=$scratch/data
net=$scratch/net.safetensors
log=$scratch/run.jsonl

run 0 'train' "$layerops" train --data "$data" --layers 4,16,3 --activation tanh \
  --loss cross-entropy --optimizer sgd --batch 16 --epochs 5 --lr 0.5 --momentum 0.5 \
  --weight-decay 0.0001 --seed 3 --device reference --save "$net" --log "$log" --threads 1
empty stderr 'nothing on standard error: no progress bar in a pipe'
cp "$scratch/stdout" "$scratch/first"
says stdout '^epoch 5/5  loss [0-9.]+  train_accuracy 0\.[0-9]+  test_accuracy 0\.[0-9]+  samples/s' \
  'a line for each epoch'
tail -n 1 "$scratch/stdout" >"$scratch/last"
says last '^reference on .*: 5 epochs, loss .*, test accuracy 0\.[0-9]+, [0-9.]+ s, saved .*net\.safe' \
  'the last line is a summary'
check 'the log: one object a line, with these names' python3 -c 'import json, sys
lines = [json.loads(l) for l in open(sys.argv[1])]
assert len(lines) == 6 and [l["type"] for l in lines] == 5 * ["epoch"] + ["summary"]
for l in lines:
    assert 0 < l["loss"] < 2 and 0 <= l["train_accuracy"] <= 1 and 0 <= l["test_accuracy"] <= 1
    assert l["samples/s"] > 0 and l["device"] == "reference" and l["subset"] is False
assert [l["epoch"] for l in lines] == [1, 2, 3, 4, 5, 5]
assert lines[-1]["layers"] == "4,16,3" and lines[-1]["seed"] == "3" and lines[-1]["lr"] == 0.5
assert lines[-1]["test_accuracy"] > 0.7, lines[-1]' "$log"
check 'the file is what the format says' python3 -c 'import json, struct, sys
file = open(sys.argv[1], "rb").read()
n = struct.unpack("<Q", file[:8])[0]
header = json.loads(file[8:8 + n])
assert header["layers.0.weight"]["shape"] == [16, 4] and header["layers.1.bias"]["shape"] == [3]
assert "optimizer.velocity.layers.0.weight" in header
assert header["__metadata__"]["activation"] == "tanh" and header["__metadata__"]["epochs"] == "5"' \
  "$net"

# the same again, in two parts: the same network
part=$scratch/part.safetensors
set -- --data "$data" --batch 16 --lr 0.5 --momentum 0.5 --weight-decay 0.0001 --save "$part"
run 0 'three epochs' "$layerops" train "$@" --layers 4,16,3 --activation tanh --epochs 3 --seed 3
run 0 'and the other two' "$layerops" train "$@" --epochs 5 --load "$part"
check 'give the same file as five at once' cmp "$net" "$part"
run 0 'a network that is trained already' "$layerops" train "$@" --epochs 5 --load "$part"
says stdout 'was trained for 5 epochs already' '  is told of'
check '  and left as it is' cmp "$net" "$part"

for optimizer in sgd adam adamw; do
  for loss in cross-entropy mse; do
    run 0 "--optimizer $optimizer --loss $loss" "$layerops" train --data "$data" --layers 4,8,3 \
      --optimizer $optimizer --loss $loss --epochs 2
    says stdout 'train_accuracy 0\.[0-9]+  test_accuracy 0\.[0-9]+' '  tells accuracies'
  done
done
for activation in none relu leaky_relu gelu gelu_tanh silu sigmoid tanh; do
  run 0 "--activation $activation" "$layerops" train --data "$data" --activation $activation --epochs 1
done
says stdout '^layers 4,128,3, tanh, cross-entropy, sgd, batch 64, lr 0.1, seed 1$' 'the defaults'
run 0 'the bundled subset' "$layerops" train --data "$subset" --layers 784,4,10 --epochs 1
tail -n 1 "$scratch/stdout" >"$scratch/last"
says last 'subset' '  is called so in the summary'

# ---- Prediction
run 0 'predict' "$layerops" predict --model "$net" --data "$data"
says stdout '^reference on .*: accuracy 0\.[0-9]+ \([0-9]+ of 60\)$' '  ends with the accuracy'
run 0 'predict --tsv' "$layerops" predict --model "$net" --data "$data" --tsv
cp "$scratch/stdout" "$scratch/tsv"
run 0 'predict --json' "$layerops" predict --model "$net" --data "$data" --json --threads 1
check '  agree with each other, and with what training told' python3 -c 'import json, sys
result = json.load(open(sys.argv[1]))
rows = [line.rstrip("\n").split("\t") for line in open(sys.argv[2])]
assert rows[0] == ["index", "class", "probability", "label"] and len(rows) == 61
right = 0
for row, p in zip(rows[1:], result["predictions"]):
    assert [int(row[0]), int(row[1]), int(row[3])] == [p["index"], p["class"], p["label"]]
    assert float(row[2]) == p["probability"] and 1 / 3 <= p["probability"] <= 1
    right += p["class"] == p["label"]
assert result["samples"] == 60 and abs(result["accuracy"] - right / 60) < 1e-9
assert abs(result["accuracy"] - json.loads(list(open(sys.argv[3]))[-1])["test_accuracy"]) < 1e-8' \
  "$scratch/stdout" "$scratch/tsv" "$log"
cut -d, -f1-4 "$data/test.csv" >"$scratch/bare.csv"
run 0 'a single file without labels' "$layerops" predict --model "$net" --data "$scratch/bare.csv" \
  --label-column none --tsv --device reference
cut -f1-3 "$scratch/tsv" >"$scratch/bare.tsv"
check '  is classified the same way' cmp "$scratch/bare.tsv" "$scratch/stdout"
refuse 'takes 4 inputs, but the samples of .* have 784 features' predict --model "$net" --data "$subset"
refuse 'nowhere' predict --model "$scratch/nowhere" --data "$data"
refuse 'train.csv' predict --model "$data/train.csv" --data "$data"

# ---- What does not fit or is not there
refuse "begins with 5 inputs, but the samples of .* have 4 features" train --data "$data" --layers 5,3
refuse "ends with 2 outputs, but .* has 3 classes" train --data "$data" --layers 4,2
refuse "nowhere" train --data "$scratch/nowhere"
refuse "no such device|no device|nonsense" train --data "$data" --device nonsense
refuse "part.safetensors" train --data "$data" --load "$scratch/no/part.safetensors"
refuse "layers is 4,5,3, but .* has 4,16,3" train --data "$data" --load "$net" --layers 4,5,3
refuse "activation is relu, but .* has tanh" train --data "$data" --load "$net" --activation relu
refuse "loss is mse, but .* has cross-entropy" train --data "$data" --load "$net" --loss mse
refuse "seed is 4, but .* has 3" train --data "$data" --load "$net" --seed 4
refuse "begins with 4 inputs, but the samples of .* have 784" train --data "$subset" --load "$net"
refuse "save $scratch/no/x: cannot be written" train --data "$data" --save "$scratch/no/x"
refuse 'is not a regular file' train --data "$data" --save /dev/null
refuse "log $scratch/no/x: cannot be opened" train --data "$data" --log "$scratch/no/x"
refuse 'too many|memory|too large' train --data "$data" --layers 4,999999999999,3

# hostile data: a file cut short, a label that is no number
mkdir "$scratch/cut"
for file in "$subset"/*.gz; do head -c 1000 "$file" >"$scratch/cut/$(basename "$file")"; done
refuse 'images-idx3-ubyte.gz' train --data "$scratch/cut"
printf 'a,label\n1,0\n2,x\n' >"$scratch/letters.csv"
refuse 'letters.csv.*(line )?3' train --data "$scratch/letters.csv"

# a network that diverges is not saved over the good one
cp "$net" "$scratch/kept"
refuse 'the loss became .* in epoch .*try a smaller --lr' train --data "$data" --load "$net" \
  --save "$net" --epochs 30 --lr 1e38
check '  and the saved network is as it was' cmp "$net" "$scratch/kept"

# ---- Full disks
run 1 'standard output full: status 1' sh -c '"$0" devices >/dev/full' "$layerops"
says stderr 'standard output' '  and why'
refuse '--log /dev/full: writing failed' train --data "$data" --epochs 1 --log /dev/full
[ -z "$(find "$scratch" -name '.layerops-*' -o -name '*.tmp')" ]
result $? 'no temporary file is left anywhere' </dev/null

cp "$net" "$scratch/kept"
run 1 'a file size limit while saving: status 1' sh -c 'ulimit -f 1; shift; exec "$@"' sh - \
  "$layerops" train --data "$data" --load "$net" --save "$net" --epochs 6
says stderr 'writing failed: File too large' '  and why'
check '  and the old file is intact' cmp "$net" "$scratch/kept"
mkdir "$scratch/small"
cat >"$scratch/on_small_disk" <<'END'
small=$1 net=$2
shift 2
mount -t tmpfs -o size=16k tmpfs "$small" && cp "$net" "$small/net" || exit 99
"$@"
status=$?
[ "$(ls -A "$small")" = net ] && cmp "$small/net" "$net" && echo intact and alone
exit $status
END
if unshare -rm mount -t tmpfs none "$scratch/small" 2>/dev/null; then
  run 1 'a full disk while saving: status 1' unshare -rm sh "$scratch/on_small_disk" \
    "$scratch/small" "$net" "$layerops" train --data "$data" --layers 4,2000,3 --epochs 1 \
    --save "$scratch/small/net"
  says stderr 'writing failed: No space left on device' '  and why'
  says stdout '^intact and alone$' '  the old file is intact, and no other is left'
else
  skip 'a full disk while saving' 'no right to mount a small file system'
fi

# ---- Ctrl-C. A shell's background commands ignore it, which perl undoes.
# interrupt SIGNAL STATUS: trains, waits for the first epoch, sends the signal
interrupt() {
  rm -f "$log"
  perl -e '$SIG{INT} = "DEFAULT"; exec @ARGV' "$layerops" train --data "$data" --layers 4,64,3 \
    --batch 2 --epochs 1000000 --save "$scratch/stopped" --log "$log" \
    >"$scratch/stdout" 2>"$scratch/stderr" &
  child=$!
  tries=0
  until [ -s "$log" ] || [ $tries -ge 600 ]; do sleep 0.1; tries=$((tries + 1)); done
  kill -"$1" $child
  wait $child
  got=$?
  [ $got -eq "$2" ]
  result $? "SIG$1 in training: status $2" <<END
status $got
$(cat "$scratch/stdout" "$scratch/stderr")
END
}
if perl -e1 2>/dev/null; then
  for case in 'INT 130' 'TERM 143'; do
    interrupt $case
    says stdout '^interrupted after [0-9]+ of 301 training samples of epoch [0-9]+$' '  says where'
    tail -n 1 "$scratch/stdout" >"$scratch/last"
    says last 'saved .*/stopped$' '  and that it saved'
    is_json "$log" '  the log is whole'
    epochs=$(sed -n 's/^epoch \([0-9]*\).*/\1/p' "$scratch/stdout" | tail -n 1)
    run 0 '  training goes on from there' "$layerops" train --data "$data" --batch 2 \
      --load "$scratch/stopped" --epochs $((epochs + 1)) --save "$scratch/resumed"
    run 0 '  as if it had never stopped' "$layerops" train --data "$data" --layers 4,64,3 --batch 2 \
      --epochs $((epochs + 1)) --save "$scratch/whole"
    check '  bit by bit' cmp "$scratch/resumed" "$scratch/whole"
  done
else
  skip 'Ctrl-C' 'no perl'
fi

# ---- A terminal has a progress bar
if command -v script >/dev/null; then
  script -qec "'$layerops' train --data '$subset' --layers 784,16,10 --epochs 1" /dev/null \
    >"$scratch/terminal" </dev/null 2>&1
  says terminal 'epoch 1/1 \[=* *\] [0-9]+/63' 'a progress bar on a terminal'
else
  skip 'a progress bar on a terminal' 'no script(1)'
fi

done_testing
