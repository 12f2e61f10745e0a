#!/bin/sh
# .safetensors files go both ways between the library and Python's package, and a disk that is
# really full leaves the old file.
. "${top_srcdir:=.}/t/tap.sh"
program=${top_builddir:-.}/t/safetensors
python=${PYTHON:-python3}
other() { "$python" "$top_srcdir/t/safetensors_other.py" "$@"; }

if "$python" -c 'import numpy, safetensors.numpy' 2>"$scratch/why"; then
  check "the library writes" "$program" make "$scratch/ours"
  check "Python's package reads it" other show "$scratch/ours"
  sort "$scratch/out" >"$scratch/theirs.txt"
  "$program" show "$scratch/ours" | sort >"$scratch/ours.txt"
  check "both see the same" diff "$scratch/theirs.txt" "$scratch/ours.txt"
  check "and it is not nothing" grep -q '^layers.0.weight F32 2 3 : 0000803f' "$scratch/ours.txt"
  check "Python's package writes" other make "$scratch/theirs"
  check "the library reads it" "$program" show "$scratch/theirs"
  sort "$scratch/out" >"$scratch/ours.txt"
  other show "$scratch/theirs" | sort >"$scratch/theirs.txt"
  check "both see the same" diff "$scratch/theirs.txt" "$scratch/ours.txt"
  check "and it is not nothing" grep -q '^double F64 1 1 : ' "$scratch/ours.txt"
else
  skip "exchange with Python's safetensors package" "$(tail -n 1 "$scratch/why")"
fi

# In a mount namespace of its own, so that the mount goes away with the process.
on_full_disk() {
  mkdir -p "$scratch/small" && unshare -m sh -c '
    mount -t tmpfs -o size=64k tmpfs "$2" || exit 99
    "$1" make "$2/net" && cp "$2/net" "$3" || exit 1
    dd if=/dev/zero of="$2/fill" bs=4k 2>/dev/null
    "$1" make "$2/net" && exit 2
    cmp "$2/net" "$3" && [ "$(ls -A "$2" | tr "\n" " ")" = "fill net " ]' sh \
    "$program" "$scratch/small" "$scratch/copy"
}
if unshare -m true 2>/dev/null && [ "$(id -u)" -eq 0 ]; then
  check "a full disk: the old file stays, nothing else is left" on_full_disk
  like "and the reason is told" "small/net: .*No space left on device"
else
  skip "a full disk" "mounting needs root"
fi
done_testing
