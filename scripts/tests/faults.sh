# The fault campaign at its full size: a thousand killed cells, hundreds of
# killed workers and supervisors, damaged files, a full disk, another user, many
# of everything, nonsense at the socket. The other groups run a sample of it.
# GAIDEN_FRAMES=10m lengthens the nonsense.
faults_env() { GAIDEN_FAULTS=full "$@"; }
around=faults_env gotest faults-disk -timeout 10m ./lib/engine/device/...
around=faults_env gotest faults -timeout 40m -run 'Faults|Killed|Dies|Survives|Recovery|Damaged|FullDisk|OnDisk|TwoSessions' ./lib/session
# Fifty kernels killed while they train, and fifty while they do other things.
setup_venv "$root/scripts/requirements.txt" "$root/scripts/requirements-test.txt"
isolated_install
began=$SECONDS
counts=$(cd "$isolated" && GAIDEN_FAULTS=full isolated "$venv/bin/python" -I "$root/scripts/tests/conformance.py" Kernel.test_killed_kernels_lose_nothing Kernel.test_killed_kernels_leave_nothing) || counts="0 1 0"
add_counts faults-kernel "$began" $counts
isolated "$bin" session stop >&2 || true
