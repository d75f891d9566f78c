# Notebooks from a clean kernel, and what their pages show without JavaScript.
# Those that take minutes on two cores are run by: scripts/run NOTEBOOK.
quick="01-gaiden"
setup_venv "$root/scripts/requirements.txt" "$root/scripts/requirements-test.txt"
isolated_install
began=$SECONDS
counts=$(isolated "$venv/bin/python" "$root/scripts/tests/notebooks.py" --out "$isolated/out" $(for n in $quick; do echo "$root/notebooks/$n.ipynb"; done)) || counts="0 1 0"
isolated "$bin" session stop >&2 || true
add_counts notebooks "$began" $counts
