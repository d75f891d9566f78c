# The tests of what runs concurrently, under the race detector, which needs a C
# compiler. Training (lib/fit, lib/profile) is left out but for its jobs: it would
# take an hour, and its goroutines are those of lib/session.
if command -v "$(go env CC)" > /dev/null; then
  fetch_modules
  setup_gopls
  race_env() { CGO_ENABLED=1 PATH=$data/bin:$PATH "$@"; }
  around=race_env gotest race -race -timeout 20m -skip '^TestCompliance$|^TestBackend$' ./lib/engine/wire ./lib/engine/device/... ./lib/session \
    ./lib/timing ./lib/report ./lib/datasets ./kernels/internal/jupyter/... ./kernels/internal/cell/... ./kernels/internal/notebook ./kernels/internal/runner
  around=race_env gotest race-fit -race -timeout 20m -run 'Job|Stop|Two' ./lib/fit
else
  say "skipped: the race detector needs a C compiler: sudo apt-get install gcc"
  skipped=$((skipped + 1))
fi
