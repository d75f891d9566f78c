# gofmt, go vet, staticcheck and actionlint have nothing to say; govulncheck neither,
# where its database can be reached.
staticcheck_version=v0.7.0 govulncheck_version=v1.1.4 actionlint_version=v1.7.12
fetch_modules
began=$SECONDS
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
if tool=$(go_tool staticcheck honnef.co/go/tools/cmd/staticcheck $staticcheck_version 2> "$work/lint.log"); then
  # ST1001: graph code imports GoMLX's packages with a dot, as GoMLX does. ST1005: errors may begin with a name.
  lint staticcheck "$tool" -checks inherit,-ST1001,-ST1005 ./...
else
  say "skipped: staticcheck could not be built: $(tail -n 1 "$work/lint.log"): it needs a Go module proxy; check go env GOPROXY"
  unlinted=$((unlinted + 1))
fi
if ! tool=$(go_tool govulncheck golang.org/x/vuln/cmd/govulncheck $govulncheck_version 2> "$work/lint.log"); then
  say "skipped: govulncheck could not be built: $(tail -n 1 "$work/lint.log"): it needs a Go module proxy; check go env GOPROXY"
  unlinted=$((unlinted + 1))
elif (cd "$root" && "$tool" ./...) > "$work/lint.log" 2>&1; then
  linted=$((linted + 1))
elif grep -q 'fetching vulnerabilities' "$work/lint.log"; then
  say "skipped: govulncheck: $(tail -n 1 "$work/lint.log"): it needs the Go vulnerability database, vuln.go.dev"
  unlinted=$((unlinted + 1))
else
  say "govulncheck:"; cat "$work/lint.log" >&2
  unclean=$((unclean + 1))
fi
if tool=$(go_tool actionlint github.com/rhysd/actionlint/cmd/actionlint $actionlint_version 2> "$work/lint.log"); then
  lint actionlint "$tool" .github/workflows/*.yml
else
  say "skipped: actionlint could not be built: $(tail -n 1 "$work/lint.log"): it needs a Go module proxy; check go env GOPROXY"
  unlinted=$((unlinted + 1))
fi
add_counts lint "$began" $linted $unclean $unlinted
