# Fresh machines: Debian 12 and 13 in a chroot with Go, Python and the registries, and a
# user who is not root. README's first command there, from nothing to a page. On Debian 12
# also the cell for Colab, and what the container's image is made of: each RUN of its
# Dockerfile, its start, its health check. What this machine needs to reach the registries
# is taken along. INSTALL_SUITES=bookworm leaves out Debian 13; INSTALL_SUITES=noble is
# Ubuntu 24.04, from the mirror that UBUNTU_MIRROR names.
began=$SECONDS
if [ "$(id -u)" != 0 ] || ! command -v debootstrap >/dev/null || ! unshare -m true 2>/dev/null; then
  say "install: skipped: a chroot needs root and debootstrap: sudo apt-get install debootstrap && sudo scripts/test install"
  add_counts install "$began" 0 0 1
else
  good=0 bad=0
  # check NAME COMMAND...: counts, and says what failed.
  check() {
    local name=$1; shift
    if "$@" > "$work/check.log" 2>&1; then good=$((good + 1)); else bad=$((bad + 1)); say "install: $suite: $name:"; tail -20 "$work/check.log" >&2; fi
  }
  # inside USER COMMAND: in the chroot, with mounts of its own that go with it;
  # namespaces="-m -n" gives it a network of its own, too.
  inside() {
    local user=0; [ "$1" = root ] || user=1000; shift
    # shellcheck disable=SC2016
    unshare ${namespaces:--m} --propagation private bash -c 'ip link set lo up; mount -t proc proc "$0/proc" && mount --rbind /dev "$0/dev" && exec chroot --userspec="$1:$1" "$0" "${@:2}"' "$debian" "$user" \
      env -i HOME=/home/gaiden PATH=/usr/local/go/bin:/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 "${along[@]}" bash -c "$*"
  }
  along=()
  while IFS= read -r -d '' v; do
    case $v in *_proxy=*|*_PROXY=*|PIP_*|SSL_CERT_FILE=*|GOPROXY=*|GOSUMDB=*|GONOSUMDB=*) along+=("$v") ;; esac
  done < <(env -0)
  along+=("GOPROXY=$(go env GOPROXY)" "GOSUMDB=$(go env GOSUMDB)" "GONOSUMDB=$(go env GONOSUMDB)" GOFLAGS=-modcacherw GOTOOLCHAIN=local)
  mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 2>/dev/null | grep -v security | head -1) || true
  for suite in ${INSTALL_SUITES:-bookworm trixie}; do
    debian=$work/$suite site=()
    [ -z "$mirror" ] || site=("$mirror")
    [ "$suite" != noble ] || site=("${UBUNTU_MIRROR:?wants the mirror of Ubuntu for noble}" /usr/share/debootstrap/scripts/gutsy) # what debootstrap's names of Ubuntu all lead to
    check debootstrap unshare -m --propagation private debootstrap --variant=minbase --components=main,universe --include=ca-certificates,python3,python3-venv,git "$suite" "$debian" "${site[@]}"
    [ -x "$debian/usr/bin/git" ] || continue
    mkdir -p "$debian/usr/local/go" "$debian/home/gaiden"
    cp -r "$(go env GOROOT)/." "$debian/usr/local/go/"
    for f in /etc/resolv.conf /etc/hosts /etc/pip.conf /etc/ssl/certs/ca-certificates.crt ${SSL_CERT_FILE:+"$SSL_CERT_FILE"} ${PIP_CERT:+"$PIP_CERT"}; do
      [ -f "$f" ] && mkdir -p "$debian$(dirname "$f")" && cp -L "$f" "$debian$f"
    done
    chroot "$debian" useradd --uid 1000 --home-dir /home/gaiden --shell /bin/bash gaiden
    # What is committed or could be: a clone and no more.
    mkdir "$debian/home/gaiden/gaiden"
    (cd "$root" && git ls-files -z -co --exclude-standard | grep -zv '\.test$' | xargs -0 sh -c 'for f; do [ -f "$f" ] && printf "%s\0" "$f"; done' - | tar c --null -T -) | tar x -C "$debian/home/gaiden/gaiden"
    chown -R 1000:1000 "$debian/home/gaiden"
    check "no Go" inside gaiden 'PATH=/usr/bin:/bin; cd ~/gaiden && ! scripts/run setup 2> /tmp/said && grep -q "Go is missing" /tmp/said'
    from=$SECONDS
    check "scripts/run" inside gaiden 'cd ~/gaiden && scripts/run'
    say "install: $suite: scripts/run, with all downloads and compiling: $((SECONDS - from)) s"
    check "a page" grep -qE "<dd>([0-9]+) of \1 have run" "$debian/home/gaiden/.cache/gaiden/out/01-gaiden.html"
    check "nothing in the tree" inside gaiden 'cd ~/gaiden && test "$(ls -A | grep -cE "^(\.venv)$")" = 1 && ! find . -path ./.venv -prune -o -newer .venv/.gaiden -type f -print | grep .'
    check "again, and quickly" inside gaiden 'cd ~/gaiden && time timeout 120 scripts/run setup'
    check "what the tests and the site add can be installed" inside gaiden 'cd ~/gaiden && for f in scripts/requirements-test.txt scripts/package/requirements-site.txt scripts/tests/requirements-*.txt docker/requirements.txt; do
      .venv/bin/python -m pip install -q --dry-run --disable-pip-version-check -c scripts/constraints.txt -r "$f" || { echo "$f"; exit 1; }; done'
    check "gaiden" inside gaiden '~/.local/share/gaiden/bin/gaiden info && ~/.local/share/gaiden/bin/gaiden doctor && ~/.local/share/gaiden/bin/gaiden session stop'
    [ "$suite" = bookworm ] || continue
    # image N: the Nth RUN of the image.
    image() { awk -v n="$1" '/^RUN /{i++} i == n {sub(/^RUN /, ""); print; if (!/\\$/) exit}' "$root/docker/Dockerfile.cpu"; }
    check "the image's packages" inside root "$(image 1)"
    check "the image's set-up" inside gaiden "cd ~/gaiden && $(image 3)"
    namespaces="-m -n" check "the image's start and health check" inside gaiden 'cd ~/gaiden && ! docker/healthy && { JUPYTER_TOKEN=word tini -- docker/start & } &&
      for try in $(seq 60); do sleep 1; docker/healthy && break; done; docker/healthy && trap "kill $!" EXIT &&
      kernels() { curl -s -o /tmp/kernels -w "%{http_code}" "127.0.0.1:8888/api/kernelspecs$1"; } &&
      [ "$(kernels)" = 403 ] && [ "$(kernels ?token=word)" = 200 ] && grep -q "Go (Gaiden)" /tmp/kernels && [ -f ~/work/notebooks/00-start.ipynb ]'
    check "nothing of root's" bash -c '! find "$0/home/gaiden" -user root | grep .' "$debian"
    # The page's cell, as root and with Jupyter's PATH, as on Colab; Go is there already.
    sed -n '/^%%bash$/,/^```$/{/^%%bash$/d;/^```$/d;s|^REPO=.*|REPO=file:///root/repo|;p}' "$root/docker/README.md" > "$debian/root/cell"
    check "the cell for Colab" inside root 'export HOME=/root; cp -r /home/gaiden/gaiden /root/repo && cd /root/repo && rm -rf .venv && git init -q && git add -A &&
      git -c user.name=gaiden -c user.email=gaiden@localhost commit -qm clone && mkdir /content && cd /content && curl() { tar cz -T /dev/null; } && export -f curl && bash /root/cell &&
      PATH=/usr/local/bin:/usr/bin:/bin /content/gaiden/.venv/bin/python /content/gaiden/scripts/tests/wheel.py gaiden "fmt.Println(40 + 1)" | grep -x 41'
  done
  add_counts install "$began" "$good" "$bad" 0
fi
