# GoMLX's own tests on the backend "gaiden". Its source is copied to a temporary
# directory, where the file that imports its XLA backend imports ours instead, and
# two files no longer install XLA. No test is changed, and GOMLX_BACKEND chooses
# the backend. A copy of go.mod names that directory, and
# what those tests need besides. With -trimpath, as build_gaiden has it, packages that are
# not changed need not be compiled again.
gomlx_dir=$work/gomlx
mkdir -p "$gomlx_dir/run" && chmod 700 "$gomlx_dir/run"
gomlx=$(cd "$root" && go mod download -json github.com/gomlx/gomlx@v0.28.2 | sed -n 's/.*"Dir": "\(.*\)".*/\1/p')
[ -d "$gomlx" ] || die "GoMLX's source could not be downloaded: check the network."
cp -r "$gomlx" "$gomlx_dir/src" && chmod -R u+w "$gomlx_dir/src"
printf 'package _default\n\nimport _ "gaiden/lib/session"\n' > "$gomlx_dir/src/backends/default/xla.go"
rm "$gomlx_dir/src/support/testutil/xla.go"
sed -i -e 's/"github.com\/gomlx\/go-xla\/compute\/xla"/_ "gaiden\/lib\/session"/' -e 's/xla\.AutoInstall()/error(nil)/' "$gomlx_dir/src/support/testutil/testutil.go" "$gomlx_dir/src/core/graph/graph_test.go"
sed "\$ a replace github.com/gomlx/gomlx => $gomlx_dir/src" "$root/go.mod" > "$gomlx_dir/go.mod"
cp "$root/go.sum" "$gomlx_dir/go.sum"
build_gaiden
gomlx_env() { GOMLX_BACKEND=gaiden GOMLX_NO_AUTO_INSTALL=1 XDG_RUNTIME_DIR=$gomlx_dir/run "$@"; }
gomlx_env "$bin" session start >&2
packages=
for p in core/graph core/tensors ml/dataset ml/layers ml/layers/activation ml/layers/attention/... ml/layers/bspline ml/layers/fnn ml/layers/lstm \
  ml/layers/norm ml/layers/vnn ml/model ml/model/initializer ml/nn ml/train/...; do packages="$packages github.com/gomlx/gomlx/$p"; done
# The tests of ml/layers/kan train from a seed that is the clock's and want a loss
# below a threshold, which one run in some five misses: they have three tries. They
# run beside the others, as a training that waits for each step keeps one core busy
# at most.
(
  passed=0 failed=0 skipped=0
  tries=3 around=gomlx_env gotest gomlx-kan -trimpath -mod=mod -modfile="$gomlx_dir/go.mod" -timeout 20m github.com/gomlx/gomlx/ml/layers/kan
  echo "$passed $failed $skipped" > "$gomlx_dir/kan"
) &
kan=$!
around=gomlx_env gotest gomlx -trimpath -mod=mod -modfile="$gomlx_dir/go.mod" -p 2 -timeout 20m $packages
wait "$kan" || true
read -r p f s < "$gomlx_dir/kan" || { p=0 f=1 s=0; }
passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
gomlx_env "$bin" session stop >&2 || true
# Once more with four devices, for the tests that want several. (AutoSharding is
# no capability of ours.)
GAIDEN_CPU_DEVICES=4 gomlx_env "$bin" session start >&2
around=gomlx_env gotest gomlx-devices -trimpath -mod=mod -modfile="$gomlx_dir/go.mod" -p 1 -timeout 20m -run '^(TestCollective|TestPortable|TestDistributedAccumulator)$' \
  github.com/gomlx/gomlx/core/graph github.com/gomlx/gomlx/ml/dataset
gomlx_env "$bin" session stop >&2 || true

# GoMLX's own notebooks and a program with its training loop, unchanged: their import
# of backends/default means the session, and what they import besides is fetched.
began=$SECONDS
examples=$(cd "$gomlx_dir" && GOFLAGS=-mod=mod go mod download -json github.com/gomlx/gomlx/examples@v0.28.1 | sed -n 's/.*"Dir": "\(.*\)".*/\1/p') || examples=
if [ -d "$examples" ] && command -v python3 > /dev/null; then
  isolated_install
  mkdir -p "$isolated/gomlx"
  counts=$(isolated python3 "$root/scripts/tests/gomlx_notebooks.py" "$bin" "$isolated/gomlx" "$examples/tutorial/tutorial.ipynb" "$examples/fft/fft.ipynb" "$examples/linear/linear.go") || counts="0 3 0"
  isolated "$bin" session stop >&2 || true
else
  say "skipped: GoMLX's notebooks are in github.com/gomlx/gomlx/examples, which could not be downloaded: check the network"
  counts="0 0 3"
fi
add_counts gomlx-notebooks "$began" $counts
