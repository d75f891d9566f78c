# A real browser for tests: Debian's chromium, driven by playwright-core. Sets
# chromium and playwright, or browser_missing, which says what is not there.
playwright_version=1.56.1
browser_missing=
chromium=$(command -v chromium || command -v chromium-browser || true)
wanted=() # what is there is left as it is: a nodejs from elsewhere conflicts with Debian's npm
[ -n "$chromium" ] || wanted+=(chromium)
command -v node >/dev/null || wanted+=(nodejs)
command -v npm >/dev/null || wanted+=(npm)
if [ ${#wanted[@]} -gt 0 ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
  say "installing ${wanted[*]}"
  (apt-get update && apt-get install -y --no-install-recommends "${wanted[@]}") > "$work/apt.log" 2>&1 || say "$(tail -n 1 "$work/apt.log")"
  chromium=$(command -v chromium || true)
fi
if [ -z "$chromium" ]; then
  browser_missing="chromium is missing: sudo apt-get install chromium"
elif ! command -v npm >/dev/null || ! command -v node >/dev/null; then
  browser_missing="node or npm is missing: sudo apt-get install nodejs npm"
elif [ ! -f "$cache/playwright-$playwright_version/node_modules/playwright-core/package.json" ]; then
  mkdir -p "$cache/playwright-$playwright_version"
  (cd "$cache/playwright-$playwright_version" && npm install --silent --no-fund --no-audit --ignore-scripts --prefix . "playwright-core@$playwright_version") > "$work/npm.log" 2>&1 ||
    browser_missing="playwright-core $playwright_version could not be installed: $(tail -n 1 "$work/npm.log")"
fi
playwright=$cache/playwright-$playwright_version/node_modules/playwright-core
