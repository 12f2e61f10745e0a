#!/bin/sh
# The man pages: sound mdoc, and every command and option of `layerops` is in layerops.1.
. "$top_srcdir/t/tap.sh"

layerops=$top_builddir/layerops
page=$top_srcdir/doc/layerops.1

for name in layerops.1 layerops.3; do
  if command -v mandoc >/dev/null; then
    mandoc -Tlint -W warning "$top_srcdir/doc/$name" >"$scratch/lint" 2>&1
    result $? "$name is sound" <"$scratch/lint"
  else
    skip "$name is sound" 'no mandoc'
  fi
done

"$layerops" help | sed -n 's/^  \([a-z][a-z]*\)  .*/\1/p' >"$scratch/commands"
[ "$(wc -l <"$scratch/commands")" -ge 4 ]
result $? 'the help lists commands' <"$scratch/commands"
while read -r command; do
  sed -n "/^\\.Ss layerops $command\$/,/^\\.S[sh]/p" "$page" >"$scratch/section"
  : >"$scratch/missing"
  [ "$(wc -l <"$scratch/section")" -gt 2 ] || echo "no section" >"$scratch/missing"
  "$layerops" help "$command" | sed -n 's/^  --\([a-z-]*\).*/\1/p' >"$scratch/options"
  while read -r option; do
    [ "$option" = help ] || grep -Eq "Fl -$option( |\$)" "$scratch/section" ||
      echo "--$option" >>"$scratch/missing"
  done <"$scratch/options"
  [ ! -s "$scratch/missing" ]
  result $? "layerops.1 tells of $command and its options" <"$scratch/missing"
done <"$scratch/commands"

# every function that layerops.3 names is declared
grep -o 'layerops_[a-z_0-9]*' "$top_srcdir/doc/layerops.3" | sort -u >"$scratch/names"
: >"$scratch/missing"
while read -r name; do
  grep -Eq "$name|LAYEROPS_DECLARE_OP\\(${name#layerops_}\\)" "$top_srcdir"/include/layerops/*.h ||
    echo "$name" >>"$scratch/missing"
done <"$scratch/names"
[ -s "$scratch/names" ] && [ ! -s "$scratch/missing" ]
result $? 'what layerops.3 names is declared' <"$scratch/missing"

# its example does what it says
sed -n '/^\.Bd -literal/,/^\.Ed/p' "$top_srcdir/doc/layerops.3" | sed -e '/^\./d' -e 's/\\e/\\/g' \
  >"$scratch/example.c"
if [ "$sanitizers" = no ]; then
  check 'the example of layerops.3 compiles' "$top_builddir/libtool" --quiet --tag=CC --mode=link \
    $CC -I"$top_srcdir/include" "$scratch/example.c" "$top_builddir/liblayerops.la" \
    -o "$scratch/example"
  check 'and runs' "$top_builddir/libtool" --mode=execute "$scratch/example"
  like 'and prints 0 6' '^0 6$'
else
  skip 'the example of layerops.3' 'built with sanitizers, which the example is not'
fi

done_testing
