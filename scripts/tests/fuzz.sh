# Each fuzz target for GAIDEN_FUZZ (default 30s). What it finds is written to the
# package's testdata/fuzz, to be fixed and committed.
fetch_modules
began=$SECONDS
fuzzed=0 unsound=0
while IFS=: read -r file target; do
  package=./$(dirname "$file")
  if (cd "$root" && go test -run '^$' -fuzz "^$target\$" -fuzztime "${GAIDEN_FUZZ:-30s}" "$package") > "$work/fuzz.log" 2>&1; then
    fuzzed=$((fuzzed + 1))
  else
    say "$target in $package:"; cat "$work/fuzz.log" >&2
    unsound=$((unsound + 1))
  fi
done < <(cd "$root" && grep -rHoE '^func Fuzz[A-Za-z0-9]+' --include='*_test.go' lib kernels | sed 's/:func /:/' | sort)
add_counts fuzz "$began" $fuzzed $unsound 0
