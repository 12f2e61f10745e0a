# TAP for shell tests: . "$top_srcdir/t/tap.sh", then check, like, skip; done_testing comes last. A
# test makes its files in $scratch, which goes away with it.
tap_count=0
scratch=$(mktemp -d "${TMPDIR:-/tmp}/layerops.XXXXXX") || exit 1
trap 'rm -rf "$scratch"' EXIT
trap 'exit 1' HUP INT TERM

diag() { tail -n 25 | sed 's/^/# /'; }

skip_all() { echo "1..0 # SKIP $1"; exit 0; }

done_testing() { echo "1..$tap_count"; }

# result STATUS NAME: one line of TAP; standard input is shown where the test failed
result() {
  tap_count=$((tap_count + 1))
  if [ "$1" -eq 0 ]; then
    echo "ok $tap_count - $2"
    cat >/dev/null
  else
    echo "not ok $tap_count - $2"
    diag
  fi
}

skip() {
  tap_count=$((tap_count + 1))
  echo "ok $tap_count - $1 # SKIP $2"
}

# check NAME COMMAND...: passes where the command succeeds. Its output is left in $scratch/out.
check() {
  tap_name=$1
  shift
  "$@" >"$scratch/out" 2>&1 </dev/null
  tap_status=$?
  [ $tap_status -eq 0 ] || { echo "status $tap_status: $*" && cat "$scratch/out"; } >"$scratch/why"
  [ $tap_status -eq 0 ] && : >"$scratch/why"
  result $tap_status "$tap_name" <"$scratch/why"
  return $tap_status
}

# fails NAME COMMAND...: passes where the command fails as a program should, and not by a signal.
fails() {
  tap_name=$1
  shift
  "$@" >"$scratch/out" 2>&1 </dev/null
  tap_status=$?
  [ $tap_status -gt 0 ] && [ $tap_status -lt 126 ]
  result $? "$tap_name" <<END
status $tap_status: $*
$(cat "$scratch/out")
END
}

# like NAME PATTERN: passes where the last output has a line that the extended pattern matches.
like() {
  grep -Eq -e "$2" "$scratch/out"
  result $? "$1" <<END
nothing matches $2 in:
$(cat "$scratch/out")
END
}
