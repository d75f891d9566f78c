# Pages of notebooks: valid, nothing fetched, no script of others, light and dark; and hostile
# notebooks in a browser.
setup_venv "$root/scripts/requirements.txt" "$root/scripts/tests/requirements-html.txt"
build_gaiden
began=$SECONDS
counts=$("$venv/bin/python" "$root/scripts/tests/pages.py" --gaiden "$bin" --work "$work/html" "$root"/notebooks/*.ipynb) || counts=${counts:-0 1 0}
add_counts html "$began" $counts
source "$root/scripts/tests/chromium.sh"
if [ -n "$browser_missing" ]; then
  say "skipped hostile notebooks: $browser_missing"
  add_counts hostile "$SECONDS" 0 0 1
else
  began=$SECONDS
  counts=$(PLAYWRIGHT=$playwright node "$root/scripts/tests/hostile.mjs" --gaiden "$bin" --chromium "$chromium" --work "$work/hostile") || counts=${counts:-0 1 0}
  add_counts hostile "$began" $counts
fi
