# The containers' images for CPUs and for CUDA, built by buildah: their start, their
# health check, a net that trains in them (on the CPU where there is no GPU). Their bases
# are made here, Debian by debootstrap and Go from this machine, so that no registry of
# images is needed; the digests that pin those of the registry are left out. What this
# machine needs to reach the registries of packages is taken along. Where another
# container runs the tests, chroot isolation builds all the same. IMAGE_KINDS=cpu
# leaves out the other, which fetches some GB.
began=$SECONDS
if [ "$(id -u)" != 0 ] || ! command -v buildah >/dev/null || ! command -v debootstrap >/dev/null; then
  say "image: skipped: it needs root, buildah and debootstrap: sudo apt-get install buildah debootstrap && sudo scripts/test image"
  add_counts image "$began" 0 0 1
else
  good=0 bad=0
  # check NAME COMMAND...: counts, and says what failed.
  check() {
    local name=$1; shift
    if "$@" > "$work/check.log" 2>&1; then good=$((good + 1)); else bad=$((bad + 1)); say "image: $name:"; tail -20 "$work/check.log" >&2; fi
  }
  store=${IMAGE_STORE:-$work/images}
  mkdir -p "$store"
  engine() { buildah --root "$store/root" --runroot "$store/run" --storage-driver vfs "$@"; }
  along=()
  while IFS= read -r -d '' v; do
    case $v in *_proxy=*|*_PROXY=*|PIP_CERT=*|PIP_INDEX_URL=*|SSL_CERT_FILE=*) along+=(--env "$v") ;; esac
  done < <(env -0)
  along+=(--env "GOPROXY=$(go env GOPROXY)" --env "GOSUMDB=$(go env GOSUMDB)" --env "GONOSUMDB=$(go env GONOSUMDB)")
  bases() {
    local mirror c f
    mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 2>/dev/null | grep -v security | head -1) || true
    unshare -m --propagation private debootstrap --variant=minbase --include=ca-certificates bookworm "$store/debian" ${mirror:+"$mirror"} || return
    rm -rf "$store/debian/var/cache/apt/archives" "$store/debian/var/lib/apt/lists"/*
    for f in /etc/pip.conf /etc/ssl/certs/ca-certificates.crt; do [ -f "$f" ] && cp -L "$f" "$store/debian$f"; done
    c=$(engine from scratch) && engine copy -q "$c" "$store/debian" / && engine config "${along[@]}" --env PATH=/usr/sbin:/usr/bin:/sbin:/bin "$c" &&
      engine commit -q --rm "$c" docker.io/library/debian:bookworm-slim &&
      c=$(engine from scratch) && engine copy -q "$c" "$(go env GOROOT)" /usr/local/go && engine commit -q --rm "$c" "docker.io/library/$1"
  }
  # image COMMAND: in the image, as its user, where it starts.
  image() { engine run --isolation chroot "$container" -- bash -c "$*"; }
  # What is committed or could be: a clone and no more.
  mkdir "$store/tree"
  (cd "$root" && git ls-files -z -co --exclude-standard | xargs -0 sh -c 'for f; do [ -f "$f" ] && printf "%s\0" "$f"; done' - | tar c --null -T -) | tar x -C "$store/tree"
  check "their bases" bases "$(sed -n 's/^FROM \(golang:[^ @]*\).*/\1/p' "$root/docker/Dockerfile.cpu")"
  [ "$bad" != 0 ] || for kind in ${IMAGE_KINDS:-cpu cuda}; do
    from=$SECONDS file=$store/Dockerfile.$kind
    sed 's/@sha256:[0-9a-f]*//' "$root/docker/Dockerfile.$kind" > "$file"
    check "$kind: built" engine build --isolation chroot --pull-never -f "$file" --ignorefile "$root/docker/Dockerfile.$kind.dockerignore" -t "gaiden:$kind" "$store/tree"
    engine inspect "gaiden:$kind" > /dev/null 2>&1 || continue
    say "image: $kind: $(($(engine images --json "gaiden:$kind" | python3 -c 'import json, sys, re
size, unit = json.load(sys.stdin)[0]["size"].split()
print(round(float(size) * {"MB": 1, "GB": 1000}[unit]))'))) MB, built in $((SECONDS - from)) s"
    container=$(engine from --pull-never "gaiden:$kind")
    check "$kind: not root" image '[ "$(id -u)" = 1000 ]'
    up=$(date +%s%N)
    check "$kind: its start, its token and its health check" image '! docker/healthy && { JUPYTER_TOKEN=word tini -- docker/start & } &&
      for try in $(seq 240); do sleep 0.5; docker/healthy && break; done; docker/healthy && trap "kill $!" EXIT &&
      kernels() { curl -s -o /tmp/kernels -w "%{http_code}" "127.0.0.1:8888/api/kernelspecs$1"; } &&
      [ "$(kernels)" = 403 ] && [ "$(kernels ?token=word)" = 200 ] && grep -q "Go (Gaiden)" /tmp/kernels && [ -f ~/work/notebooks/00-start.ipynb ]'
    say "image: $kind: JupyterLab answers after $((($(date +%s%N) - up) / 1000000)) ms"
    check "$kind: a net trains" image 'cp notebooks/07-peaks.ipynb /tmp && ~/.local/share/gaiden/bin/gaiden run -html -o /tmp/out/ /tmp/07-peaks.ipynb && grep -qE "<dd>([0-9]+) of \1 have run" /tmp/out/07-peaks.html; s=$?; ~/.local/share/gaiden/bin/gaiden session stop; exit $s'
    engine rm "$container" > /dev/null
    engine rmi -f "gaiden:$kind" > /dev/null
  done
  add_counts image "$began" "$good" "$bad" 0
fi
