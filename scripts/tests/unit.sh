# Everything that go test finds, but what the other groups run. Those that take
# long come first, so that no core waits for the last of them. (TestCompliance is
# the suite of group backend, without the socket; package faults is group faults.)
longest='gaiden/lib/fit gaiden/kernels/internal/notebook gaiden/lib/profile'
fetch_modules
setup_gopls
PATH=$data/bin:$PATH gotest unit -timeout 40m -skip '^TestCompliance$' $longest $(cd "$root" && go list ./... | grep -vxF "$(printf '%s\n' gaiden/lib/session gaiden/kernels/internal/faults $longest)")
