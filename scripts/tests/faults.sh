# The fault campaign at its full size: a thousand killed cells, hundreds of
# killed workers and supervisors, damaged files, a full disk, another user, many
# of everything, nonsense at the socket. The other groups run a sample of it.
# GAIDEN_FRAMES=10m lengthens the nonsense.
faults_env() { GAIDEN_FAULTS=full "$@"; }
around=faults_env gotest faults-disk -timeout 10m ./lib/engine/device/...
around=faults_env gotest faults -timeout 40m -run 'Faults|Killed|Dies|Survives|Recovery|Damaged|FullDisk|OnDisk|TwoSessions' ./lib/session
