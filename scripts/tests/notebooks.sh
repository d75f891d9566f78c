# Every notebook from a clean kernel, and what its page shows without
# JavaScript.
setup_venv "$root/scripts/requirements.txt" "$root/scripts/requirements-test.txt"
isolated_install
began=$SECONDS
counts=$(isolated "$venv/bin/python" "$root/scripts/tests/notebooks.py" --out "$isolated/out" "$root"/notebooks/*.ipynb) || counts="0 1 0"
isolated "$bin" session stop >&2 || true
add_counts notebooks "$began" $counts
