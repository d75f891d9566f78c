# The archive for machines without a network: made, installed and run where there
# is none.
bundle=$work/gaiden-bundle.tar.xz
began=$SECONDS
if [ "$(id -u)" != 0 ] || ! unshare -n ip link set lo up 2>/dev/null; then
  say "bundle: skipped: a network namespace needs root and iproute2: sudo scripts/test bundle"
  add_counts bundle "$began" 0 0 1
elif ! "$root/scripts/bundle" -o "$bundle" >&2; then
  add_counts bundle "$began" 0 1 0
else
  good=0 bad=0
  # check NAME COMMAND...: counts, and says what failed.
  check() {
    local name=$1; shift
    if "$@" > "$work/check.log" 2>&1; then good=$((good + 1)); else bad=$((bad + 1)); say "bundle: $name:"; tail -20 "$work/check.log" >&2; fi
  }
  # alone COMMAND...: with no network but the loopback, no Go, no Jupyter, no
  # settings of ours.
  alone() {
    unshare -n sh -c 'ip link set lo up && exec "$@"' - env -i HOME="$work/home" PATH=/usr/bin:/bin LANG=C.UTF-8 GAIDEN_PLUGIN="$GAIDEN_PLUGIN" XDG_RUNTIME_DIR="$work/home/run" "$@"
  }
  mkdir -p "$work/unpacked" "$work/home/run"
  chmod 700 "$work/home/run"
  tar xJf "$bundle" -C "$work/unpacked"
  printf '%s\n' '{"nbformat": 4, "nbformat_minor": 5, "metadata": {"kernelspec": {"name": "gaiden", "display_name": "Go (Gaiden)", "language": "go"}}, "cells": [
    {"cell_type": "code", "id": "a", "metadata": {}, "execution_count": null, "outputs": [], "source": "net := fit.New(\"peaks\", models.Peaks(), fit.Config{Seed: 1})\np := datasets.Peaks(20)\nset, err := net.Upload(\"peaks\", fit.Data{X: p.X, Y: p.Y})\nif err != nil {\n\tpanic(err)\n}\nif err := net.Reset(); err != nil { // the session remembers the run before\n\tpanic(err)\n}\nhistory, err := net.Fit(set, fit.Train{Epochs: 5, Batch: 400})\nif err != nil {\n\tpanic(err)\n}\nreport.LossCurve(history)"}]}' > "$work/peaks.ipynb"
  there=$work/home/gaiden
  check "no network" bash -c '! unshare -n python3 -c "import socket; socket.create_connection((\"192.0.2.1\", 80), 2)"'
  check "at most 60 MB" test "$(stat -c %s "$bundle")" -le 60000000
  check install alone "$work/unpacked/gaiden-bundle/install" "$there"
  check "again over itself" alone "$work/unpacked/gaiden-bundle/install" "$there"
  check "gaiden run" alone bash -c ". $there/env && gaiden run -html -o $work/one/ $work/peaks.ipynb"
  check "its page" grep -q "1 of 1 have run" "$work/one/peaks.html"
  check "Jupyter's client" alone "$there/run" --out "$work/two" "$work/peaks.ipynb"
  check "the same picture" python3 - "$work/one/peaks.ipynb" "$work/two/peaks.ipynb" <<'PY'
import json, sys
def picture(path):
    out = json.load(open(path))["cells"][0]["outputs"]
    return ["".join(o["data"]["image/png"]) for o in out if o["output_type"] == "execute_result"]
one, two = map(picture, sys.argv[1:])
assert one and one == two, (one, two)
PY
  check "an unwritable folder" bash -c '! "$@" && grep -q "cannot be written" '"$work/check.log" - unshare -n "$work/unpacked/gaiden-bundle/install" /proc/gaiden
  check "session stop" alone bash -c ". $there/env && gaiden session stop"
  add_counts bundle "$began" "$good" "$bad" 0
fi
