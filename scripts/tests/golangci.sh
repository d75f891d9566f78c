# golangci-lint with .golangci.yml. It is built from source once, which takes minutes.
fetch_modules
began=$SECONDS
if ! tool=$(go_tool golangci-lint github.com/golangci/golangci-lint/v2/cmd/golangci-lint v2.15.0); then
  say "skipped: golangci-lint could not be built: it needs a Go module proxy; check go env GOPROXY"
  add_counts golangci "$began" 0 0 1
elif (cd "$root" && "$tool" run ./...) >&2; then
  add_counts golangci "$began" 1 0 0
else
  add_counts golangci "$began" 0 1 0
fi
