# How soon a page of JupyterLab is live again, by this kernel and by IPython; see reload.mjs.
# Figures, not tests. Where no browser is at hand and none can be installed, the group is
# skipped with a word.
source "$root/scripts/tests/chromium.sh"
began=$SECONDS
if [ -n "$browser_missing" ]; then
  say "skipped reload: $browser_missing"
  add_counts reload "$began" 0 0 1
else
  setup_venv "$root/scripts/requirements.txt" "$root/scripts/requirements-test.txt"
  isolated_install
  mkdir -p "$work/reload"
  if PLAYWRIGHT=$playwright isolated node "$root/scripts/tests/reload.mjs" \
    --lab "$venv/bin/jupyter" --chromium "$chromium" --work "$work/reload" >&2; then
    add_counts reload "$began" 1 0 0
  else
    add_counts reload "$began" 0 1 0
  fi
  isolated "$bin" session stop >&2 || true
fi
