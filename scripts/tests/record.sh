# The README's animated image: a training in JupyterLab. Where no browser is at hand and
# none can be installed, the group is skipped with a word.
source "$root/scripts/tests/chromium.sh"
began=$SECONDS
if [ -n "$browser_missing" ]; then
  say "skipped record: $browser_missing"
  add_counts record "$began" 0 0 1
else
  setup_venv "$root/scripts/requirements.txt" "$root/scripts/requirements-test.txt"
  isolated_install
  mkdir -p "$work/record"
  if PLAYWRIGHT=$playwright isolated node "$root/scripts/tests/record.mjs" \
    --lab "$venv/bin/jupyter" --chromium "$chromium" --work "$work/record" --out "$root/notebooks/pages/live.png"; then
    add_counts record "$began" 1 0 0
  else
    add_counts record "$began" 0 1 0
  fi
  isolated "$bin" session stop >&2 || true
fi
