# Go tests, except the packages of group race and what the other groups run. Training
# takes longest and comes first, so that no core waits for it. (Package faults is group
# faults.)
source "$root/scripts/tests/raced.sh"
fetch_modules
setup_gopls
gotest unit-fit -timeout 40m -skip "$raced_fit" ./lib/fit
PATH=${isolated:+$isolated/data/gaiden/bin:}$data/bin:$PATH gotest unit -timeout 20m -skip '^TestCompliance$' $(cd "$root" && go list ./... | grep -vxF "$(go list ./lib/fit ./kernels/internal/faults $raced)")
gotest unit-large -timeout 10m -run "$too_large" ./kernels/internal/jupyter ./kernels/internal/notebook
