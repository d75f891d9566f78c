# gofmt, go vet and staticcheck have nothing to say; govulncheck neither, where its
# database can be reached.
staticcheck_version=v0.7.0 govulncheck_version=v1.1.4
fetch_modules
began=$SECONDS
tools=$cache/tools
lint_tool() { # its program, its package, its version
  [ -x "$tools/$1-$3" ] && return
  mkdir -p "$tools"
  GOBIN=$work/bin go install "$2@$3" 2> "$work/$1.log" && mv "$work/bin/$1" "$tools/$1-$3"
}
lint() { # a name, a command that says nothing and ends with 0
  local name=$1; shift
  if (cd "$root" && "$@") > "$work/lint.log" 2>&1 && [ ! -s "$work/lint.log" ]; then
    linted=$((linted + 1))
  else
    say "$name:"; cat "$work/lint.log" >&2
    unclean=$((unclean + 1))
  fi
}
linted=0 unclean=0 unlinted=0
lint gofmt gofmt -l kernels lib
lint "go vet" go vet ./...
if lint_tool staticcheck honnef.co/go/tools/cmd/staticcheck $staticcheck_version; then
  # ST1001: graph code imports GoMLX's packages with a dot, as GoMLX does. ST1005: errors may begin with a name.
  lint staticcheck "$tools/staticcheck-$staticcheck_version" -checks inherit,-ST1001,-ST1005 ./...
else
  say "skipped: staticcheck could not be built: $(tail -n 1 "$work/staticcheck.log"): it needs a Go module proxy; check go env GOPROXY"
  unlinted=$((unlinted + 1))
fi
if ! lint_tool govulncheck golang.org/x/vuln/cmd/govulncheck $govulncheck_version; then
  say "skipped: govulncheck could not be built: $(tail -n 1 "$work/govulncheck.log"): it needs a Go module proxy; check go env GOPROXY"
  unlinted=$((unlinted + 1))
elif (cd "$root" && "$tools/govulncheck-$govulncheck_version" ./...) > "$work/lint.log" 2>&1; then
  linted=$((linted + 1))
elif grep -q 'fetching vulnerabilities' "$work/lint.log"; then
  say "skipped: govulncheck: $(tail -n 1 "$work/lint.log"): it needs the Go vulnerability database, vuln.go.dev"
  unlinted=$((unlinted + 1))
else
  say "govulncheck:"; cat "$work/lint.log" >&2
  unclean=$((unclean + 1))
fi
add_counts lint "$began" $linted $unclean $unlinted
