# Failing system calls: the k-th open, read, write, fsync, rename, mmap or send of a
# session and of a kernel fails, or kills it (package faults). Here some of the
# calls; with GAIDEN_FAULTS=full each of them, which takes an hour, and after it the
# fault campaign: a thousand killed cells, hundreds of killed workers and
# supervisors, damaged files, a full disk, another user, many of everything,
# nonsense at the socket, of which the other groups run a sample. GAIDEN_FRAMES=10m
# lengthens the nonsense.
isolated_install
faults_env() { isolated env GAIDEN_KERNEL="$isolated/data/gaiden/bin/gaiden" "$@"; }
around=faults_env gotest faults -timeout 100m ./kernels/internal/faults
if [ "${GAIDEN_FAULTS:-}" = full ]; then
  gotest faults-disk -timeout 10m ./lib/engine/device/...
  gotest faults-session -timeout 40m -run 'Faults|Killed|Dies|Survives|Recovery|Damaged|FullDisk|OnDisk|TwoSessions' ./lib/session
  # Fifty kernels killed while they train, and fifty while they do other things.
  setup_venv "$root/scripts/requirements.txt" "$root/scripts/requirements-test.txt"
  began=$SECONDS
  counts=$(cd "$isolated" && isolated "$venv/bin/python" -I "$root/scripts/tests/conformance.py" Kernel.test_killed_kernels_lose_nothing Kernel.test_killed_kernels_leave_nothing) || counts="0 1 0"
  add_counts faults-kernel "$began" $counts
fi
isolated "$bin" session stop >&2 || true
