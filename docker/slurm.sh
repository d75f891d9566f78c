#!/usr/bin/env bash
#SBATCH --job-name=gaiden
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=1
#SBATCH --time=04:00:00
# A notebook with the GPUs of several nodes:
#
#   sbatch docker/slurm.sh [COMMAND…]
#
# The first node runs COMMAND, JupyterLab without one; the others offer their GPUs to its session
# until it ends. The job's output has the line for a cell that lets them join. gaiden, and jupyter,
# must be on the PATH of all nodes, at the same version, and the home directory theirs in common.
# GAIDEN_HOSTS_SECRET and GAIDEN_HOSTS_PORT name another file and port.
set -euo pipefail
[ "${SLURM_JOB_NUM_NODES:-0}" -ge 2 ] || { echo "got ${SLURM_JOB_NUM_NODES:-no} nodes, want 2 or more: sbatch --nodes=2 $0" >&2; exit 1; }
secret=${GAIDEN_HOSTS_SECRET:-$HOME/.gaiden-hosts-secret}
[ -e "$secret" ] || gaiden session secret "$secret"
port=${GAIDEN_HOSTS_PORT:-$((20000 + SLURM_JOB_ID % 20000))} # of this job's
mapfile -t nodes < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
# The session's socket and state belong to this job's first node.
export XDG_RUNTIME_DIR=${TMPDIR:-/tmp}/gaiden-$SLURM_JOB_ID
mkdir -pm 700 "$XDG_RUNTIME_DIR"
srun --nodes=$((${#nodes[@]} - 1)) --ntasks-per-node=1 --exclude="${nodes[0]}" --kill-on-bad-exit=0 --no-kill \
  sh -c 'mkdir -pm 700 "$XDG_RUNTIME_DIR" && exec "$@"' sh gaiden session join -listen ":$port" -secret "$secret" &
followers=$!
trap 'gaiden session stop || true; kill $followers 2>/dev/null || true' EXIT
others=("${nodes[@]:1}")
echo "%hosts add ${others[*]/%/:$port} -secret $secret"
[ $# -gt 0 ] || set -- jupyter lab --no-browser --ip=127.0.0.1
"$@"
