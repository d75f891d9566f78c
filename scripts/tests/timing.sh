# What clocks must get right: a program of known device time within 3 %, phases
# that add up to a step, %timeit beside go test -bench, "~" for equal programs, a
# long LSTM that compiles as fast as a short one, Stop within half a second. It wants
# a machine that nobody else works on; comparing in turns holds on one whose speed
# goes up and down. The unit group has the part with synthetic samples.
timed() { GAIDEN_TIMING=1 "$@"; }
around=timed gotest timing -p 1 -count 1 -timeout 20m -run 'Compare|KnownDeviceTime|PhasesAddUp|TimeitAgreesWithGo|TimeOf|TestStop$' ./lib/timing ./lib/profile ./lib/report ./lib/fit
