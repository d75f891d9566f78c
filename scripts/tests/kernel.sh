# The kernel as Jupyter starts it: a real binary, real sockets, the public
# conformance suite, and the checks that it lacks.
setup_venv "$root/scripts/requirements.txt" "$root/scripts/requirements-test.txt"
isolated_install
began=$SECONDS
counts=$(cd "$isolated" && isolated "$venv/bin/python" -I "$root/scripts/tests/conformance.py") || counts="0 1 0"
add_counts kernel "$began" $counts

# Front ends beside JupyterLab: nbclient, papermill, jupyter console.
began=$SECONDS
mkdir -p "$isolated/frontends"
counts=$(cd "$isolated/frontends" && isolated "$venv/bin/python" -I "$root/scripts/tests/frontends.py" "$root") || counts="0 1 0"
add_counts frontends "$began" $counts

# The same library in a plain GoNB kernel, built from the module that go.mod
# pins, with the two programs it needs.
gonb=$work/gonb
mkdir -p "$gonb/bin"
cp "$root/go.mod" "$root/go.sum" "$gonb/"
began=$SECONDS
if (cd "$root" && go build -modfile="$gonb/go.mod" -mod=mod -o "$gonb/bin/gonb" github.com/janpfeifer/gonb) 2> "$gonb/log" &&
  GOBIN=$gonb/bin go install golang.org/x/tools/cmd/goimports@v0.44.0 2>> "$gonb/log" && [ -x "$data/bin/gopls" ] && cp "$data/bin/gopls" "$gonb/bin/" &&
  PATH=$gonb/bin:$venv/bin:$PATH isolated gonb --install 2>> "$gonb/log"; then
  counts=$(cd "$isolated" && PATH=$gonb/bin:$PATH isolated "$venv/bin/python" -I "$root/scripts/tests/gonb.py" "$root" 2> "$gonb/test.log") || counts="0 1 0"
  case $counts in *" 0 0") ;; *) grep -v '^[IWE][0-9]* ' "$gonb/test.log" >&2 ;; esac
else
  say "skipped: GoNB could not be built: $(tail -n 1 "$gonb/log"): it wants gonb, goimports and gopls from a Go module proxy; check go env GOPROXY, and scripts/run for gopls"
  counts="0 0 3"
fi
add_counts gonb "$began" $counts
isolated "$bin" session stop >&2 || true
