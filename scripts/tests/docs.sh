# The documents: every snippet runs, every link inside the repository and on the site
# leads somewhere, and the notebooks' tables are in their JSON.
setup_venv "$root/scripts/requirements.txt"
setup_venv "$root/scripts/package/requirements-site.txt"
isolated_install
began=$SECONDS
counts=$(isolated "$venv/bin/python" "$root/scripts/tests/docs.py" --gaiden "$isolated/data/gaiden/bin/gaiden" --work "$work/docs") || counts=${counts:-0 1 0}
isolated "$bin" session stop >&2 || true
add_counts docs "$began" $counts
began=$SECONDS
if "$root/scripts/site" -o "$work/site" >&2 && [ -s "$work/site/llms.txt" ] && [ -s "$work/site/llms-full.txt" ]; then add_counts site "$began" 1 0 0; else add_counts site "$began" 0 1 0; fi
began=$SECONDS
if "$root/scripts/results" --check "$root"/notebooks/*.ipynb >&2; then add_counts results "$began" 1 0 0; else add_counts results "$began" 0 1 0; fi
