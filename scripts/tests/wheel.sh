# The Python package: made twice, with the same bytes; installed into fresh
# environments, where Jupyter finds the kernel, a net trains and nothing stays when
# it is uninstalled; upgraded while a kernel and a session run.
began=$SECONDS
setup_venv "$root/scripts/requirements.txt"
source "$root/scripts/tests/chromium.sh"
[ -z "$browser_missing" ] || say "wheel: without JupyterLab in a browser: $browser_missing"
good=0 bad=0 one=$work/wheel home=$work/wheel/home
mkdir -p "$home/run" "$one/tree"
chmod 700 "$home/run"
# check NAME COMMAND...: counts, and says what failed.
check() {
  local name=$1; shift
  if "$@" > "$work/check.log" 2>&1; then good=$((good + 1)); else bad=$((bad + 1)); say "wheel: $name:"; tail -20 "$work/check.log" >&2; fi
}
# fresh COMMAND...: a user who has just come, with Python and with Go; bare: without Go.
settings=()
while IFS= read -r -d '' v; do
  case $v in *_proxy=*|*_PROXY=*|PIP_*|SSL_CERT_*=*|GOPROXY=*|GOSUMDB=*|GONOSUMDB=*) settings+=("$v") ;; esac
done < <(env -0)
bare() { env -i "${settings[@]}" HOME="$home" PATH="${path:-}/usr/bin:/bin" LANG=C.UTF-8 XDG_RUNTIME_DIR="$home/run" "$@"; }
fresh() { path=$(dirname "$(command -v go)"): bare "$@"; }
# says WANT COMMAND...: its output has a line that matches.
says() {
  local want=$1; shift
  "$@" > "$one/said" 2>&1 || true
  cat "$one/said"
  grep -qE -- "$want" "$one/said"
}
# environment NAME REQUIREMENT...: a new one, with pip.
environment() {
  python3 -m venv "$one/$1" && "$one/$1/bin/pip" install -q -c "$root/scripts/constraints.txt" "${@:2}"
}
cells=$root/scripts/tests/wheel.py
net='var net = fit.New("w", models.MLP(8), fit.Config{Seed: 1})
set := must(net.Upload("train", must(datasets.Synthetic(1, 100, 28, 28, 1)).Train.Data()))
fmt.Println("trained:", must(net.Fit(set, fit.Train{Epochs: 2, Batch: 10, Quiet: true})).Last().Train)'
kept='fmt.Println("kept:", must(fit.New("w", models.MLP(8), fit.Config{Seed: 1}).Data("train")).N)'

# What is committed or could be, at another path and with a Go cache of its own.
(cd "$root" && git ls-files -z -co --exclude-standard | xargs -0 sh -c 'for f; do [ -f "$f" ] && printf "%s\0" "$f"; done' - | tar c --null -T -) | tar x -C "$one/tree"
check "made" "$root/scripts/wheel" -o "$one/dist"
check "made elsewhere" env GOCACHE="$one/gocache" "$one/tree/scripts/wheel" -o "$one/again"
check "the same bytes" diff -r "$one/dist" "$one/again"
check "checksums" bash -c "cd '$one/dist' && sha256sum -c SHA256SUMS"
wheel=$(ls "$one"/dist/*.whl)
sed -i 's/^const Version = .*/const Version = "99.0.0"/' "$one/tree/lib/session/session.go"
check "made of the next version" env GOCACHE="$one/gocache" "$one/tree/scripts/wheel" -o "$one/next"
rm -rf "$one/gocache"

if [ "$bad" = 0 ]; then
  from=$SECONDS
  check "pip install [cpu], with JupyterLab" environment lab "$wheel[cpu]" -r "$root/scripts/requirements.txt"
  check "--version" says '^gaiden [0-9.]+$' bare "$one/lab/bin/gaiden" --version
  check "Jupyter lists the kernel" says ' gaiden +.*lab/share/jupyter/kernels/gaiden' bare "$one/lab/bin/jupyter" kernelspec list
  check "no Go" says 'install Go 1.26 or newer' bare "$one/lab/bin/python" "$cells" gaiden 'fmt.Println("no")'
  if [ -z "$browser_missing" ]; then
    mkdir -p "$one/browser"
    check "a net trains in JupyterLab" fresh env PLAYWRIGHT="$playwright" "$(command -v node)" "$root/scripts/tests/browser.mjs" --only "first net" \
      --lab "$one/lab/bin/jupyter" --chromium "$chromium" --work "$one/browser" --screenshots "${GAIDEN_SCREENSHOTS:-$one/browser}"
    say "wheel: the first net was trained in JupyterLab $((SECONDS - from)) s after pip install began"
  fi
  check "a net trains" says '^trained: loss' fresh "$one/lab/bin/python" "$cells" gaiden "$net"
  check "the doctor" says '^ok +kernelspec .*lab/share/jupyter' fresh "$one/lab/bin/gaiden" doctor
  check "the doctor finds nothing that fails" bash -c '! grep ^fail "$0"' "$one/said"
  check "a kernelspec of another name" says 'kernelspec "Go \(trial\)"' fresh env PATH="$one/lab/bin:$(dirname "$(command -v go)"):/usr/bin:/bin" gaiden install -sys-prefix -name trial
  check "it runs" says '^41$' fresh "$one/lab/bin/python" "$cells" trial 'fmt.Println(40 + 1)'
  check "it is uninstalled" says "removed .*lab/share/jupyter/kernels/trial" bare "$one/lab/bin/gaiden" install -uninstall -prefix "$one/lab" -name trial
  check "-user and -prefix" says 'want one' bare "$one/lab/bin/gaiden" install -user -prefix "$one/lab"

  check "Go as an extra, another prefix" environment conda "$wheel[cpu,go]" jupyter_client
  mv "$one/conda" "$one/elsewhere" # as conda's: nothing in it may know the path
  check "its kernel runs" says '^go1\.26\.' bare env JUPYTER_PATH="$one/elsewhere/share/jupyter" JUPYTER_PREFER_ENV_PATH=0 "$one/lab/bin/python" "$cells" gaiden 'fmt.Println(runtime.Version())'

  check "an upgrade while a kernel runs" says 'restart the kernel' fresh "$one/lab/bin/python" "$cells" gaiden 'fmt.Println("before")' \
    "\$$one/lab/bin/pip install -q $(ls "$one"/next/*.whl)" 'fmt.Println("after")' restart "$kept"
  check "the next version has the session's arrays" grep -q '^kept: [1-9]' "$one/said"
  check "session stop" says stopped fresh "$one/lab/bin/gaiden" session stop
  check "pip uninstall" "$one/lab/bin/pip" uninstall -q -y gaiden
  check "nothing is left" bash -c '! find "$0" -path "*aiden*" ! -type d | grep .' "$one/lab"
fi
fresh go clean -modcache # which not even its owner may remove otherwise
add_counts wheel "$began" "$good" "$bad" 0
