# The packages in which something runs concurrently, under the race detector; where
# there is no C compiler, which it needs, without it. Group unit has the others.
#
# Of lib/fit only the tests of what runs concurrently are here: jobs, Stop, what follows
# an error. The rest would take an hour. TestFlood and TestHugeCell, 100 MB of output
# and cells of a megabyte, are in unit: they would take minutes here.
source "$root/scripts/tests/raced.sh"
fetch_modules
setup_gopls
detector=-race
if ! command -v "$(go env CC)" > /dev/null; then
  say "skipped: the race detector needs a C compiler: sudo apt-get install gcc"
  skipped=$((skipped + 1)) detector=
fi
# A process that ends does not wait a second for the reports of others. Those of
# sessions and kernels, whose output is no test's, are counted below. GoMLX's backend
# in Go, which some tests compare with, computes an address behind the end of a slice.
races=$work/races
race_env() { CGO_ENABLED=${detector:+1} PATH=$data/bin:$PATH GORACE="atexit_sleep_ms=0 log_path=$races" "$@"; }
race() { around=race_env gotest "$@" ${detector:+-race "-gcflags=github.com/gomlx/...=-d=checkptr=0"}; }
race race -timeout 30m -skip "^TestCompliance$|^TestBackend$|^TestGoMLXLoop$|$too_large" $raced
race race-fit -timeout 20m -run "$raced_fit" ./lib/fit
for report in "$races".*; do
  [ -e "$report" ] || continue
  say "a data race:"; cat "$report" >&2
  failed=$((failed + 1))
done
