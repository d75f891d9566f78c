# Pages of notebooks: valid, nothing fetched, no script, light and dark.
setup_venv "$root/scripts/requirements.txt" "$root/scripts/tests/requirements-html.txt"
build_gaiden
began=$SECONDS
counts=$("$venv/bin/python" "$root/scripts/tests/pages.py" --gaiden "$bin" --work "$work/html" "$root"/notebooks/*.ipynb) || counts=${counts:-0 1 0}
add_counts html "$began" $counts
