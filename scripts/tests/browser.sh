# JupyterLab in a real browser. Where that is not at hand and cannot be installed,
# the group is skipped with a word. Screenshots go to $GAIDEN_SCREENSHOTS, if that
# is set.
source "$root/scripts/tests/chromium.sh"
if [ -n "$browser_missing" ]; then
  say "skipped browser: $browser_missing"
  add_counts browser "$SECONDS" 0 0 1
else
  setup_venv "$root/scripts/requirements.txt" "$root/scripts/requirements-test.txt"
  isolated_install
  shots=${GAIDEN_SCREENSHOTS:-$work/screenshots}
  mkdir -p "$shots" "$work/browser"
  began=$SECONDS
  counts=$(PLAYWRIGHT=$playwright isolated node "$root/scripts/tests/browser.mjs" \
    --lab "$venv/bin/jupyter" --gaiden "$bin" --chromium "$chromium" --work "$work/browser" --screenshots "$shots") || counts=${counts:-0 1 0}
  add_counts browser "$began" $counts
  isolated "$bin" session stop >&2 || true
fi
