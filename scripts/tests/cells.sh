# Cells: the table of values that outlive their cell, and cells made at random
# in one kernel; GAIDEN_TEST_FULL=1 makes 500 of them, and GAIDEN_TEST_SEED
# repeats a run.
setup_gopls
PATH=$data/bin:$PATH gotest cells -timeout 10m -count 1 -run '^(TestValues|TestKept|TestStopKeeps|TestLargeValue|TestRandomCells|TestHugeCell|TestFullDisk|TestNoGo|TestTwoFrontEnds|TestCells)$' ./kernels/internal/notebook
